package spool

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kymogram/kymogram/internal/platform"
)

const (
	firstSegment = 256 << 10
	lastSegment  = 16 << 20
)

// segment is a segment that is being written. Mapped, any number of goroutines
// append to it at once: the length word in the file itself is the reservation,
// so a process that dies leaves no gap that would hide later records. Unmapped
// (network file systems), one at a time writes a whole record.
type segment struct {
	header Header
	file   *os.File
	size   int
	mem    []byte // nil: written by pwrite under mu
	tail   atomic.Int64
	refs   atomic.Int64 // users, and one for being the writer's current
	once   sync.Once

	mu     sync.Mutex
	closed bool  // unmapped: nothing more may be written
	sealed bool  // unmapped: the seal is written
	count  int64 // unmapped: records written
	buf    []byte
}

// createSegment makes a zeroed segment whose space is reserved. It has no header
// yet, so no reader takes it for whole.
func createSegment(path string, size int, mapped bool) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|platform.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	s := &segment{file: f, size: size}
	if err := s.prepare(mapped); err != nil {
		f.Close()
		os.Remove(path)
		return nil, err
	}
	s.tail.Store(headerSize)
	s.refs.Store(1)
	return s, nil
}

func (s *segment) prepare(mapped bool) error {
	if err := platform.Reserve(s.file, int64(s.size)); err != nil {
		return fmt.Errorf("reserve %d bytes for a segment: %w", s.size, err)
	}
	if !mapped {
		return nil
	}
	mem, err := platform.Map(s.file, s.size)
	if err != nil {
		return fmt.Errorf("map segment: %w", err)
	}
	s.mem = mem
	return nil
}

// begin writes the header.
func (s *segment) begin(h Header) error {
	s.header = h
	if _, err := s.file.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("write segment header: %w", err)
	}
	return nil
}

// move gives the file its name: now a reader sees it. Where an open file cannot
// be renamed it is closed meanwhile; nobody writes yet.
func (s *segment) move(from, to string) error {
	if !platform.RenamesOpenFolders {
		s.unmap()
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("publish segment: %w", err)
	}
	if platform.RenamesOpenFolders {
		return nil
	}
	return s.reopen(to)
}

func (s *segment) reopen(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|platform.NoFollow, 0o600)
	if err != nil {
		return fmt.Errorf("publish segment: %w", err)
	}
	s.file = f
	if s.mem == nil {
		return nil
	}
	if s.mem, err = platform.Map(f, s.size); err != nil {
		return fmt.Errorf("map segment: %w", err)
	}
	return nil
}

func (s *segment) release() {
	if s.refs.Add(-1) == 0 {
		s.once.Do(s.unmap)
	}
}

func (s *segment) unmap() {
	if s.mem != nil {
		_ = platform.Unmap(s.mem) // nobody can use it any more; there is nothing to do about a failure
	}
	s.file.Close()
}

func (s *segment) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&s.mem[off])) }

// reserve takes room for a payload of n bytes and returns where its head is, or
// -1 when the segment is full or sealed.
func (s *segment) reserve(n int) int {
	size := int64(recordSize(n))
	t := s.tail.Load()
	for {
		if t+size > int64(s.size) {
			return -1
		}
		if atomic.CompareAndSwapUint32(s.word(int(t)), 0, uint32(n)) {
			s.tail.CompareAndSwap(t, t+size)
			return int(t)
		}
		length := atomic.LoadUint32(s.word(int(t)))
		if length == sealedMark {
			return -1
		}
		// Another took this place: move the tail on for it, in case it sleeps.
		next := t + int64(recordSize(int(length)))
		s.tail.CompareAndSwap(t, next)
		t = next
	}
}

// commit makes the payload stored behind off valid. seed is the CRC of the length
// bytes.
func (s *segment) commit(off, n int, seed uint32) {
	sum := crc32.Update(seed, crc32.IEEETable, s.mem[off+headSize:off+headSize+n])
	atomic.StoreUint32(s.word(off+4), sum)
}

// append stores a payload; false means there is no room.
func (s *segment) append(payload []byte) bool {
	if s.mem == nil {
		return s.write(payload)
	}
	off := s.reserve(len(payload))
	if off < 0 {
		return false
	}
	copy(s.mem[off+headSize:], payload)
	s.commit(off, len(payload), crc32.ChecksumIEEE(s.mem[off:off+4]))
	return true
}

// write is append by pwrite. A write that fails leaves the tail where it was, so
// the next one overwrites it.
func (s *segment) write(payload []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, off := recordSize(len(payload)), s.tail.Load()
	if s.closed || off+int64(size) > int64(s.size) {
		return false
	}
	s.buf = append(s.buf[:0], make([]byte, headSize)...)
	binary.LittleEndian.PutUint32(s.buf, uint32(len(payload)))
	s.buf = append(s.buf, payload...)
	binary.LittleEndian.PutUint32(s.buf[4:], checksum(s.buf[:4], payload))
	s.buf = append(s.buf, make([]byte, size-len(s.buf))...)
	if _, err := s.file.WriteAt(s.buf, off); err != nil {
		return false
	}
	s.tail.Store(off + int64(size))
	s.count++
	return true
}

// seal closes the segment for good.
func (s *segment) seal() error {
	if s.mem == nil {
		return s.sealFile()
	}
	for t := int(s.tail.Load()); t < s.size; {
		if atomic.CompareAndSwapUint32(s.word(t), 0, sealedMark) {
			return nil
		}
		length := atomic.LoadUint32(s.word(t))
		if length == sealedMark {
			return nil
		}
		t += recordSize(int(length))
	}
	return nil
}

func (s *segment) sealFile() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	off := s.tail.Load()
	// A seal that fails half-way may have been read: the segment ends all the same.
	s.closed = true
	if s.sealed || off >= int64(s.size) {
		return nil
	}
	rest := make([]byte, int64(s.size)-off)
	binary.LittleEndian.PutUint32(rest, sealedMark)
	if _, err := s.file.WriteAt(rest, off); err != nil {
		return fmt.Errorf("seal segment: %w", err)
	}
	s.sealed = true
	return nil
}

// records counts the reserved records.
func (s *segment) records() uint64 {
	if s.mem == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return uint64(s.count)
	}
	n := uint64(0)
	for t := headerSize; t+headSize <= s.size; n++ {
		length := atomic.LoadUint32(s.word(t))
		if length == 0 || length == sealedMark {
			break
		}
		t += recordSize(int(length))
	}
	return n
}

// discard removes a segment that was never begun.
func (s *segment) discard(path string) error {
	s.release()
	return os.Remove(path)
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	if err := platform.SyncFolder(filepath.Clean(path)); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
