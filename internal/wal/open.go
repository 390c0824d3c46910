package wal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
)

// Replay takes a record at open. The payload is only valid during the call.
type Replay func(lsn uint64, payload []byte) error

// Open reads the log in dir, gives every record to replay by rising LSN, cuts a
// torn tail and returns a log that can be written to, with what was damaged.
func Open(fs FS, dir string, opts Options, replay Replay) (*Log, []Damage, error) {
	if opts.SegmentBytes <= 0 {
		opts.SegmentBytes = 64 << 20
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := fs.MkdirAll(dir); err != nil {
		return nil, nil, fmt.Errorf("make log folder: %w", err)
	}
	l := &Log{fs: fs, dir: dir, opts: opts}
	l.cond = sync.NewCond(&l.mu)
	r := reader{log: l, replay: replay}
	if err := r.readAll(); err != nil {
		return nil, nil, err
	}
	l.nextLSN = max(r.last+1, opts.NextLSN, 1)
	if n := len(l.segments); n > 0 { // an empty file still says what was given out
		l.nextLSN = max(l.nextLSN, l.segments[n-1].first)
	}
	r.damage = append(r.damage, l.compareTip()...)
	l.written, l.synced = l.nextLSN-1, l.nextLSN-1
	if err := l.openTail(r.tail); err != nil {
		return nil, nil, err
	}
	l.openTips()
	l.writeTip(l.synced) // a tip that is new, or was lost, says it at once
	return l, r.damage, nil
}

// openTail goes on in the last segment, or in a new one when there is none or
// when the last one is damaged.
func (l *Log) openTail(size int64) error {
	if n := len(l.segments); n > 0 && !l.segments[n-1].damaged {
		file, err := l.fs.Open(filepath.Join(l.dir, l.segments[n-1].name), false)
		if err != nil {
			return fmt.Errorf("open log segment: %w", err)
		}
		// Records that were read here may not be on disk yet: sync before going on.
		if err := file.Sync(); err != nil {
			return errors.Join(fmt.Errorf("sync log segment: %w", err), file.Close())
		}
		l.file, l.size = file, size
		return nil
	}
	file, info, err := createSegment(l.fs, l.dir, l.nextLSN)
	if err != nil {
		return err
	}
	l.file = file
	l.segments = append(l.segments, info)
	return nil
}

type reader struct {
	log    *Log
	replay Replay
	last   uint64
	tail   int64 // good bytes of the last segment
	damage []Damage
	open   bool // the last damage is behind the last record
}

func (r *reader) readAll() error {
	names, err := r.log.fs.List(r.log.dir)
	if err != nil {
		return fmt.Errorf("list log: %w", err)
	}
	var segments []string
	for _, name := range names {
		if isSegment(name) {
			segments = append(segments, name)
		}
	}
	for i, name := range segments {
		if err := r.readSegment(name, i == len(segments)-1); err != nil {
			return fmt.Errorf("read log segment %s: %w", name, err)
		}
	}
	return nil
}

func (r *reader) readSegment(name string, last bool) error {
	first, err := strconv.ParseUint(name[:20], 10, 64)
	if err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if r.last == 0 && first > 0 {
		r.last = first - 1 // what was before is in segments of the store
	}
	info := segmentInfo{name: name, first: first}
	data, file, err := load(r.log.fs, filepath.Join(r.log.dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	pos := int64(0)
	for pos < int64(len(data)) {
		lsn, payload, size, ok := parseFrame(data[pos:])
		if ok && lsn > r.last && lsn >= first {
			if r.open {
				r.damage[len(r.damage)-1].Records, r.open = lsn-r.last-1, false
			}
			if err := r.replay(lsn, payload); err != nil {
				return fmt.Errorf("record %d: %w", lsn, err)
			}
			r.last = lsn
			pos += size
			continue
		}
		next := resync(data, pos+frameAlign)
		torn := next < 0 && last
		bad := Damage{File: name, Offset: pos, Bytes: int64(len(data)) - pos, Torn: torn}
		if next >= 0 {
			bad.Bytes = next - pos
		}
		r.damage, r.open = append(r.damage, bad), true
		if torn {
			if err := r.cut(file, name, data, pos); err != nil {
				return err
			}
			data = data[:pos]
			break
		}
		info.damaged = true
		if next < 0 {
			break
		}
		pos = next
	}
	info.bytes, r.tail = int64(len(data)), pos
	r.log.segments = append(r.log.segments, info)
	return nil
}

// cut drops a torn tail. It may also be the damaged end of what was acked, so
// its bytes are kept aside unless they are zeros.
func (r *reader) cut(file File, name string, data []byte, pos int64) error {
	if tail := data[pos:]; !allZero(tail) {
		if err := r.keep(fmt.Sprintf("%s.%d.torn", name, pos), tail); err != nil {
			r.log.opts.Logger.Warn("torn tail of the log not kept", "file", name, "err", err)
		}
	}
	if err := file.Truncate(pos); err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	return file.Sync()
}

func (r *reader) keep(name string, data []byte) error {
	dir := filepath.Join(r.log.dir, "quarantine")
	if err := r.log.fs.MkdirAll(dir); err != nil {
		return err
	}
	f, err := r.log.fs.Open(filepath.Join(dir, name), true)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// resync finds the next whole frame at or after pos, or -1.
func resync(data []byte, pos int64) int64 {
	for ; pos+headerSize <= int64(len(data)); pos += frameAlign {
		if _, _, _, ok := parseFrame(data[pos:]); ok {
			return pos
		}
	}
	return -1
}

func load(fs FS, name string) ([]byte, File, error) {
	file, err := fs.Open(name, false)
	if err != nil {
		return nil, nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	data := make([]byte, size)
	if n, err := file.ReadAt(data, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, nil, errors.Join(err, file.Close())
	}
	return data, file, nil
}
