package spool

import (
	"encoding/binary"
	"errors"
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
	path   string
	file   *os.File
	size   int
	mem    []byte // nil: written by pwrite under mu
	// The record that reaches mark calls passed, once.
	mark   int
	passed func()

	_    [64]byte      // what follows changes with every record, what is before never
	tail atomic.Uint64 // a position
	refs atomic.Int64  // users, and one for being the writer's current
	once sync.Once

	mu     sync.Mutex
	closed bool // unmapped: nothing more may be written
	sealed bool // unmapped: the seal is written
	buf    []byte
}

// position is where the next record begins, and in the high half how many are
// before it.
type position uint64

func (p position) offset() int     { return int(uint32(p)) }
func (p position) records() uint64 { return uint64(p >> 32) }

// after is the position past one more record of size bytes.
func (p position) after(size int) position { return p + 1<<32 + position(size) }

func (s *segment) position() position { return position(s.tail.Load()) }

// advance moves the tail past the record at p, unless another goroutine did.
func (s *segment) advance(p, next position) { s.tail.CompareAndSwap(uint64(p), uint64(next)) }

// createSegment makes a zeroed segment whose space is reserved. It has no header
// yet, so no reader takes it for whole.
func createSegment(path string, size int, mapped bool) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|platform.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	s := &segment{path: path, file: f, size: size}
	if err := s.prepare(mapped); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
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

// bring has the pages of a new segment in memory before anybody writes to it.
// inMemory: the file system reserves pages, not blocks.
func (s *segment) bring(inMemory bool) error {
	if s.mem == nil {
		return nil
	}
	if !inMemory {
		if err := platform.Fill(s.file, int64(s.size)); err != nil {
			return fmt.Errorf("fill segment: %w", err)
		}
	}
	platform.Bring(s.mem)
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
func (s *segment) move(to string) error {
	if !platform.RenamesOpenFolders {
		s.unmap()
	}
	if err := os.Rename(s.path, to); err != nil {
		return fmt.Errorf("publish segment: %w", err)
	}
	s.path = to
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

// reserve takes the place of a payload of n bytes and returns where its head is, or
// -1 when the segment is full or sealed. From here on the record counts: if the
// process dies before commit, the reader skips it by its length.
func (s *segment) reserve(n int) int {
	size := recordSize(n)
	p := s.position()
	for {
		at := p.offset()
		if at+size > s.size {
			return -1
		}
		if atomic.CompareAndSwapUint32(s.word(at), 0, uint32(n)) {
			s.advance(p, p.after(size))
			if at < s.mark && at+size >= s.mark {
				s.passed()
			}
			return at
		}
		length := atomic.LoadUint32(s.word(at))
		if length == sealedMark {
			return -1
		}
		// Another goroutine took this place: move the tail for it, in case it sleeps.
		next := p.after(recordSize(int(length)))
		s.advance(p, next)
		p = next
	}
}

// commit makes the payload after the head at off valid: readers take it from now
// on. seed is the CRC of the length bytes.
func (s *segment) commit(off, n int, seed uint32) {
	sum := crc32.Update(seed, crc32.IEEETable, s.mem[off+headSize:off+headSize+n])
	atomic.StoreUint32(s.word(off+4), sum)
}

// append stores a payload; false means there is no room.
func (s *segment) append(payload []byte) bool {
	if s.mem == nil {
		return s.write(payload)
	}
	return s.put(len(payload), func(dst []byte) []byte { return append(dst, payload...) })
}

// put has a payload of n bytes encoded where it belongs; false means there is no
// room. For a mapped segment.
func (s *segment) put(n int, encode func(dst []byte) []byte) bool {
	at := s.reserve(n)
	if at < 0 {
		return false
	}
	encode(s.mem[at+headSize : at+headSize : at+headSize+n])
	s.commit(at, n, crc32.ChecksumIEEE(s.mem[at:at+4]))
	return true
}

// write is append by pwrite. A write that fails leaves the tail where it was, so
// the next one overwrites it.
func (s *segment) write(payload []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, p := recordSize(len(payload)), s.position()
	if s.closed || p.offset()+size > s.size {
		return false
	}
	s.buf = append(s.buf[:0], make([]byte, headSize)...)
	binary.LittleEndian.PutUint32(s.buf, uint32(len(payload)))
	s.buf = append(s.buf, payload...)
	binary.LittleEndian.PutUint32(s.buf[4:], checksum(s.buf[:4], payload))
	s.buf = append(s.buf, make([]byte, size-len(s.buf))...)
	if _, err := s.file.WriteAt(s.buf, int64(p.offset())); err != nil {
		return false
	}
	s.advance(p, p.after(size))
	return true
}

// seal closes the segment for good.
func (s *segment) seal() error {
	if s.mem == nil {
		return s.sealFile()
	}
	for t := s.position().offset(); t < s.size; {
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
	at := s.position().offset()
	// A seal that fails half-way may have been read: the segment ends all the same.
	s.closed = true
	if s.sealed || at >= s.size {
		return nil
	}
	rest := make([]byte, s.size-at)
	binary.LittleEndian.PutUint32(rest, sealedMark)
	if _, err := s.file.WriteAt(rest, int64(at)); err != nil {
		return fmt.Errorf("seal segment: %w", err)
	}
	s.sealed = true
	return nil
}

// records counts the reserved records.
func (s *segment) records() uint64 {
	p := s.position()
	for s.mem != nil && p.offset()+headSize <= s.size { // those whose writers did not move the tail yet
		length := atomic.LoadUint32(s.word(p.offset()))
		if length == 0 || length == sealedMark {
			break
		}
		p = p.after(recordSize(int(length)))
	}
	return p.records()
}

// discard removes a segment that was never published.
func (s *segment) discard() error {
	s.release()
	return os.Remove(s.path)
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	if err := platform.SyncFolder(filepath.Clean(path)); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
