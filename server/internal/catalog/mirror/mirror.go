package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/wal"
)

const (
	segmentBytes = 8 << 20
	// leastDue is how many bytes of changes are too few for a new snapshot.
	leastDue = 16 << 20
)

// State is what a mirror holds.
type State struct {
	Base  *Header // of the snapshot; nil: there is none
	Last  Position
	Bytes int64 // of the snapshot
	// Checkpointed is the number of the last change when the database last began to
	// move its log into its file; Unfinished when it did not say that it ended.
	Checkpointed uint64
	Unfinished   bool
	// Logless: there is no file of changes. Every mirror is made with such a file.
	Logless bool
	// Damage names what of the mirror cannot be read or is missing.
	Damage []string
}

// Mirror is an open mirror. One goroutine at a time may use it, but for
// WriteSnapshot and Due, which may run beside Append.
type Mirror struct {
	State
	dir      string
	log      *wal.Log
	snapshot atomic.Int64 // its bytes
}

// Visit takes a change; its rows are valid during the call.
type Visit func(at Position, rows []Row) error

// Open opens a mirror for writing; it makes one that is not there.
func Open(dir string, log *slog.Logger) (*Mirror, error) {
	m := &Mirror{dir: dir}
	if err := m.readSnapshot(dir, nil); err != nil {
		return nil, err
	}
	w := &walk{state: &m.State, next: m.Last.LSN + 1}
	opened, damage, err := wal.Open(wal.OS{}, dir, wal.Options{SegmentBytes: segmentBytes, NextLSN: w.next, Logger: log}, w.take)
	if err != nil {
		return nil, fmt.Errorf("open the mirror: %w", err)
	}
	m.log = opened
	m.snapshot.Store(m.Bytes)
	m.blame(damage)
	return m, nil
}

// Read reads a mirror, which another process may be writing: the rows of the
// snapshot and the changes behind it. What cannot be read is named in Damage.
func Read(dir string, row func(Row) error, visit Visit) (*State, error) {
	s := &State{}
	files, err := openFiles(dir) // first: what a snapshot then makes needless is still open
	if err != nil {
		return nil, err
	}
	defer files.close()
	if err := s.readSnapshot(dir, row); err != nil {
		return nil, err
	}
	s.Logless = len(files.named) == 0
	w := &walk{state: s, visit: visit, next: s.Last.LSN + 1}
	damage, err := wal.Inspect(files.named, w.take)
	if err != nil {
		return nil, fmt.Errorf("read the mirror: %w", err)
	}
	s.blame(damage)
	return s, nil
}

func (s *State) blame(damage []wal.Damage) {
	for _, d := range damage {
		if !d.Torn {
			s.Damage = append(s.Damage, fmt.Sprintf("%s at byte %d: %d bytes are damaged", d.File, d.Offset, d.Bytes))
		}
	}
}

// walk checks that changes follow one another.
type walk struct {
	state *State
	visit Visit
	next  uint64 // the record that must come
}

func (w *walk) take(lsn uint64, payload []byte) error {
	if lsn < w.next {
		return nil // the snapshot has it
	}
	kind, chain, body, err := decode(payload)
	if err != nil {
		return err
	}
	s := w.state
	if lsn != w.next || chain != s.Last.Chain {
		s.Damage = append(s.Damage, fmt.Sprintf("record %d does not follow record %d", lsn, w.next-1))
	}
	w.next = lsn + 1
	switch kind {
	case kindCheckpoint:
		s.Checkpointed, s.Unfinished = s.Last.LSN, true
	case kindCheckpointed:
		s.Unfinished = false
	default:
		s.Last = Position{lsn, extend(payload)}
		if w.visit == nil {
			return nil
		}
		rows, err := collect(body)
		if err != nil {
			return err
		}
		return w.visit(s.Last, rows)
	}
	return nil
}

func collect(body []byte) (rows []Row, err error) {
	err = rowsOf(body, func(r Row) error {
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// Change is one that is about to be appended.
type Change struct {
	At      Position
	payload []byte
	rows    []Row
}

// Rows are what it changes.
func (c *Change) Rows() []Row { return c.rows }

// Stale says that another process wrote to the log since this one did.
func (m *Mirror) Stale() bool { return m.log.Grown() }

// Prepare makes the next change.
func (m *Mirror) Prepare(rows []Row) *Change {
	payload := encode(kindChanges, m.Last.Chain, rows)
	return &Change{Position{m.log.State().Written + 1, extend(payload)}, payload, rows}
}

// Append writes a change; it is durable when Append returns nil.
func (m *Mirror) Append(ctx context.Context, c *Change) error {
	lsn, err := m.log.Append(ctx, c.payload)
	if err != nil {
		return fmt.Errorf("write the mirror: %w", err)
	}
	if lsn != c.At.LSN {
		return fmt.Errorf("write the mirror: change %d became %d", c.At.LSN, lsn)
	}
	m.Last = c.At
	return nil
}

// BeginCheckpoint says durably that the database's file is about to take over all
// changes so far.
func (m *Mirror) BeginCheckpoint(ctx context.Context) error {
	_, err := m.log.Append(ctx, encode(kindCheckpoint, m.Last.Chain, nil))
	if err != nil {
		return fmt.Errorf("write the mirror: %w", err)
	}
	m.Checkpointed, m.Unfinished = m.Last.LSN, true
	return nil
}

// EndCheckpoint says that it has. When that is lost the next start is slower.
func (m *Mirror) EndCheckpoint() error {
	if _, err := m.log.Write(encode(kindCheckpointed, m.Last.Chain, nil)); err != nil {
		return fmt.Errorf("write the mirror: %w", err)
	}
	m.Unfinished = false
	return nil
}

// Close closes the mirror. Safe to call twice.
func (m *Mirror) Close() error { return m.log.Close() }

// SetAside moves a mirror away, so that a new one can be made in its place.
func SetAside(dir, to string) error {
	if err := os.Rename(dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set aside the mirror: %w", err)
	}
	return wal.OS{}.SyncDir(filepath.Dir(dir))
}
