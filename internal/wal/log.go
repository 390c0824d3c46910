package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Errors that callers tell apart.
var (
	// ErrPoisoned follows a failed fsync: what is on disk is unknown, so nothing
	// more is written until the log is opened again.
	ErrPoisoned = errors.New("an earlier fsync of the log failed")
	// ErrDiskFull leaves the log as it was; a later write may succeed.
	ErrDiskFull = errors.New("no space left for the log")
	ErrClosed   = errors.New("the log is closed")
)

// Options configure a [Log].
type Options struct {
	SegmentBytes int64    // rotate past this size; default 64 MiB
	NextLSN      uint64   // the least LSN to give out, for logs whose files are gone
	Tips         []string // folders where a file says how far the log was synced, to notice a cut of its end
	Logger       *slog.Logger
}

// Log is a folder of segments. Its methods may be called concurrently.
type Log struct {
	fs   FS
	dir  string
	opts Options

	mu       sync.Mutex // guards all below
	cond     *sync.Cond
	segments []segmentInfo // by rising first LSN; the last one is written to
	file     File
	tips     []File
	size     int64
	nextLSN  uint64
	written  uint64 // last LSN handed to the file system
	synced   uint64 // last LSN on disk
	covered  uint64 // last LSN that a sync has taken, which may go on
	syncing  bool
	group    group
	poison   error
	full     bool
	closed   bool
	buf      []byte
}

type segmentInfo struct {
	name    string
	first   uint64
	bytes   int64
	damaged bool
}

const suffix = ".wal"

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, suffix) }

// Damage is a range of a file that could not be read.
type Damage struct {
	File   string
	Offset int64
	Bytes  int64
	Torn   bool // the end of the last file: a write that a crash cut short
	// Records that were there, by the numbers on both sides; 0 when unknown, or
	// when another range behind it counts for both.
	Records uint64
}

// Write hands a record to the file system and returns its LSN; it is on disk
// after Wait. When it fails nothing of the record stays in the log.
func (l *Log) Write(payload []byte) (uint64, error) {
	if len(payload) > MaxRecord {
		return 0, fmt.Errorf("a record of %d bytes exceeds %d", len(payload), MaxRecord)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	if l.size >= l.opts.SegmentBytes {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	lsn := l.nextLSN
	if err := l.put(lsn, payload); err != nil {
		return 0, l.undo(err)
	}
	l.size += frameSize(len(payload))
	l.segments[len(l.segments)-1].bytes = l.size
	l.nextLSN, l.written, l.full = lsn+1, lsn, false
	return lsn, nil
}

// largePayload is from where on a record is written from where it lies: a copy behind its
// head would cost more than a second call.
const largePayload = 1 << 20

// put writes a frame behind the others.
func (l *Log) put(lsn uint64, payload []byte) error {
	if len(payload) < largePayload {
		l.buf = appendFrame(l.buf[:0], lsn, payload)
		_, err := l.file.WriteAt(l.buf, l.size)
		return err
	}
	head, at := frameHead(lsn, payload), l.size
	for _, part := range [][]byte{head[:], payload, make([]byte, padding(payload))} {
		if _, err := l.file.WriteAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

// Grown says that somebody else wrote to the newest file.
func (l *Log) Grown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	size, err := l.file.Size()
	return err != nil || size != l.size
}

func (l *Log) usable() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.poison != nil:
		return l.poison
	}
	return nil
}

// undo cuts a record that was written in part. If even that fails the end of
// the file is unknown, and the log is poisoned.
func (l *Log) undo(cause error) error {
	if err := l.file.Truncate(l.size); err != nil {
		l.poison = fmt.Errorf("%w: cut after %w: %w", ErrPoisoned, cause, err)
		l.cond.Broadcast()
		return l.poison
	}
	if IsDiskFull(cause) {
		l.full = true
		return fmt.Errorf("%w: %w", ErrDiskFull, cause)
	}
	return fmt.Errorf("write log: %w", cause)
}

// rotate starts a new segment. Called with the lock held.
func (l *Log) rotate() error {
	for l.syncing {
		l.cond.Wait()
		if err := l.usable(); err != nil {
			return err
		}
	}
	if err := l.file.Sync(); err != nil {
		return l.poisoned(err)
	}
	l.group.begin()
	l.advance(l.written)
	file, info, err := createSegment(l.fs, l.dir, l.nextLSN)
	if err != nil {
		if IsDiskFull(err) {
			l.full = true
			return fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
		return err
	}
	if err := l.file.Close(); err != nil {
		l.opts.Logger.Warn("close log segment", "err", err)
	}
	l.file, l.size = file, 0
	l.segments = append(l.segments, info)
	return nil
}

func createSegment(fs FS, dir string, first uint64) (File, segmentInfo, error) {
	name := segmentName(first)
	file, err := fs.Open(filepath.Join(dir, name), true)
	if err != nil {
		return nil, segmentInfo{}, fmt.Errorf("create log segment %s: %w", name, err)
	}
	// A crash may have left the file with bytes of a record that was never acked.
	err = errors.Join(file.Truncate(0), file.Sync())
	if err == nil {
		err = fs.SyncDir(dir)
	}
	if err != nil {
		return nil, segmentInfo{}, errors.Join(fmt.Errorf("create log segment %s: %w", name, err), file.Close())
	}
	return file, segmentInfo{name: name, first: first}, nil
}

func (l *Log) poisoned(err error) error {
	l.poison = fmt.Errorf("%w: %w", ErrPoisoned, err)
	l.cond.Broadcast()
	return l.poison
}

func (l *Log) advance(lsn uint64) {
	if lsn > l.synced {
		l.synced, l.covered = lsn, max(l.covered, lsn)
		l.writeTip(lsn)
	}
	l.cond.Broadcast()
}

// Wait returns when every record up to lsn is on disk. The first caller syncs
// for all that wait.
func (l *Log) Wait(ctx context.Context, lsn uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.synced >= lsn {
		return nil
	}
	var joined uint64
	if lsn > l.covered {
		joined = l.group.join()
	}
	stop := func() bool { return true }
	defer func() { stop() }()
	for watched := false; l.synced < lsn; {
		if l.poison != nil {
			return l.poison
		}
		if l.closed {
			return ErrClosed
		}
		if !l.syncing {
			l.syncOnce()
			continue
		}
		if err := ctx.Err(); err != nil {
			l.group.leave(joined)
			return err
		}
		if !watched && ctx.Done() != nil {
			watched, stop = true, context.AfterFunc(ctx, l.wake)
		}
		l.cond.Wait()
	}
	return nil
}

// wake lets those that wait look again.
func (l *Log) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cond.Broadcast()
}

// syncOnce syncs what is written, without the lock while the disk works.
func (l *Log) syncOnce() {
	l.syncing = true
	l.gather()
	upTo, file, served := l.written, l.file, l.group.begin()
	l.covered = upTo
	l.mu.Unlock()
	begun := time.Now()
	err := file.Sync()
	took := time.Since(begun)
	l.mu.Lock()
	l.syncing = false
	if err != nil {
		_ = l.poisoned(err)
		return
	}
	l.group.end(served, took)
	l.advance(upTo)
}

// gather waits until a sync is worth it, as group says: as long as more come within the time
// that a sync takes.
func (l *Log) gather() {
	whole := l.group.gather()
	if whole == nil {
		return
	}
	begun := time.Now()
	for came := -1; l.group.whole != nil && came < l.group.waiting; {
		came = l.group.waiting
		end := time.NewTimer(min(l.group.took, mostGather-time.Since(begun)))
		l.mu.Unlock()
		select {
		case <-whole:
		case <-end.C:
		}
		end.Stop()
		l.mu.Lock()
		if time.Since(begun) >= mostGather {
			break
		}
	}
	l.group.whole = nil
}

// Append is Write and Wait.
func (l *Log) Append(ctx context.Context, payload []byte) (uint64, error) {
	lsn, err := l.Write(payload)
	if err != nil {
		return 0, err
	}
	return lsn, l.Wait(ctx, lsn)
}

// Release removes the segments whose records are all below lsn. Damaged ones
// are moved to the folder quarantine instead. The newest segment stays.
func (l *Log) Release(lsn uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	dropped := 0
	for dropped+1 < len(l.segments) && l.segments[dropped+1].first <= lsn {
		if err := l.drop(l.segments[dropped]); err != nil {
			l.segments = l.segments[dropped:]
			return err
		}
		dropped++
	}
	if dropped == 0 {
		return nil
	}
	l.segments = l.segments[dropped:]
	return l.fs.SyncDir(l.dir)
}

func (l *Log) drop(s segmentInfo) error {
	name := filepath.Join(l.dir, s.name)
	if !s.damaged {
		return l.fs.Remove(name)
	}
	aside := filepath.Join(l.dir, "quarantine")
	if err := l.fs.MkdirAll(aside); err != nil {
		return fmt.Errorf("set aside %s: %w", s.name, err)
	}
	return l.fs.Rename(name, filepath.Join(aside, s.name))
}

// Rotate starts a new segment when the current one holds anything, so that
// Release can drop the current one later.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.size == 0 {
		return nil
	}
	return l.rotate()
}

// State is what a log knows of itself.
type State struct {
	Bytes    int64
	Segments int
	Written  uint64
	Synced   uint64
	// Second is the first LSN of the second oldest file, 0 when there is one file:
	// the oldest can go when nothing below is needed.
	Second   uint64
	Poisoned bool
	DiskFull bool
}

// State reports sizes and health.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Segments: len(l.segments), Written: l.written, Synced: l.synced, Poisoned: l.poison != nil, DiskFull: l.full}
	for _, seg := range l.segments {
		s.Bytes += seg.bytes
	}
	if len(l.segments) > 1 {
		s.Second = l.segments[1].first
	}
	return s
}

// Close syncs and closes the log. Safe to call twice.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	for l.syncing {
		l.cond.Wait()
	}
	l.closed = true
	var err error
	if l.poison == nil {
		if err = l.file.Sync(); err == nil {
			l.advance(l.written)
		}
	}
	l.cond.Broadcast()
	for _, f := range l.tips {
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, l.file.Close())
}

func isSegment(name string) bool {
	return strings.HasSuffix(name, suffix) && len(name) == 20+len(suffix)
}
