package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/wal"
)

const (
	snapshotPrefix = "snapshot-"
	unfinished     = "unfinished" // a snapshot that is being written
	pieceBytes     = 1 << 20
)

// Rows are all rows of a database.
type Rows = iter.Seq2[Row, error]

// Header begins a snapshot.
type Header struct {
	Format   int      `json:"format"`
	Schema   int64    `json:"schema"` // of the tables, by their migrations
	Position Position `json:"position"`
}

const format = 1

// footer ends a snapshot: with it, it is whole.
const footer = "end of the snapshot"

func snapshotName(at uint64) string { return fmt.Sprintf("%s%020d", snapshotPrefix, at) }

// readSnapshot takes the newest.
func (s *State) readSnapshot(dir string, row func(Row) error) error {
	names, err := snapshots(dir)
	if err != nil || len(names) == 0 {
		return err
	}
	name := names[len(names)-1]
	h, size, err := readSnapshot(filepath.Join(dir, name), row)
	if err != nil {
		s.Damage = append(s.Damage, fmt.Sprintf("%s: %v", name, err))
	}
	if s.Bytes = size; h != nil {
		s.Base, s.Last, s.Checkpointed = h, h.Position, h.Position.LSN
	}
	return nil
}

func snapshots(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the mirror: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), snapshotPrefix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// files are the open files of changes.
type files struct {
	named []wal.NamedFile
	open  []*os.File
}

// openFiles opens them all before any is read: a snapshot may replace them.
func openFiles(dir string) (*files, error) {
	names, err := wal.OS{}.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the mirror: %w", err)
	}
	all := &files{}
	for _, name := range names {
		if _, ok := wal.FirstLSN(name); !ok {
			continue
		}
		if err := all.add(filepath.Join(dir, name)); err != nil {
			all.close()
			return nil, fmt.Errorf("read the mirror: %w", err)
		}
	}
	return all, nil
}

func (f *files) add(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	f.open = append(f.open, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.named = append(f.named, wal.NamedFile{Name: filepath.Base(path), Size: info.Size(), ReaderAt: file})
	return nil
}

func (f *files) close() {
	for _, file := range f.open {
		file.Close()
	}
}

// readSnapshot reads as far as it gets; an error says what is wrong with the rest.
func readSnapshot(dir string, each func(Row) error) (h *Header, size int64, err error) {
	all, err := openFiles(dir)
	if err != nil {
		return nil, 0, err
	}
	defer all.close()
	for _, f := range all.named {
		size += f.Size
	}
	r := &snapshotReader{each: each}
	damage, err := wal.Inspect(all.named, r.take)
	switch {
	case err != nil:
	case len(damage) > 0:
		err = fmt.Errorf("%s at byte %d: %d bytes are damaged", damage[0].File, damage[0].Offset, damage[0].Bytes)
	case r.header == nil || !r.ended || r.gap:
		err = errors.New("parts of it are missing")
	}
	return r.header, size, err
}

type snapshotReader struct {
	each   func(Row) error
	header *Header
	last   uint64
	gap    bool
	ended  bool
}

func (r *snapshotReader) take(lsn uint64, payload []byte) error {
	r.gap = r.gap || lsn != r.last+1
	r.last = lsn
	switch {
	case lsn == 1:
		r.header = &Header{}
		if err := json.Unmarshal(payload, r.header); err != nil {
			return fmt.Errorf("read the header: %w", err)
		}
		if r.header.Format > format {
			return fmt.Errorf("the format is %d, this program knows %d", r.header.Format, format)
		}
	case string(payload) == footer:
		r.ended = true
	case r.each != nil:
		return rowsOf(payload, r.each)
	}
	return nil
}

// WriteSnapshot writes every row as it is at a position. The changes up to there,
// and older snapshots, are removed. It may run beside Append.
func (m *Mirror) WriteSnapshot(ctx context.Context, h Header, rows Rows) error {
	h.Format = format
	size, err := writeSnapshot(ctx, m.dir, h, rows)
	if err != nil {
		return fmt.Errorf("write a snapshot of the catalog: %w", err)
	}
	old, err := snapshots(m.dir)
	if err != nil {
		return err
	}
	m.snapshot.Store(size)
	for _, name := range old {
		if name != snapshotName(h.Position.LSN) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(m.dir, name)))
		}
	}
	return errors.Join(err, m.log.Rotate(), m.log.Release(h.Position.LSN+1))
}

func writeSnapshot(ctx context.Context, dir string, h Header, rows Rows) (size int64, err error) {
	tmp := filepath.Join(dir, unfinished)
	if err := os.RemoveAll(tmp); err != nil {
		return 0, err
	}
	log, _, err := wal.Open(wal.OS{}, tmp, wal.Options{SegmentBytes: 64 << 20}, nil)
	if err != nil {
		return 0, err
	}
	if err := writeRows(ctx, log, h, rows); err != nil {
		return 0, errors.Join(err, log.Close())
	}
	size = log.State().Bytes
	if err := log.Close(); err != nil {
		return 0, err
	}
	name := filepath.Join(dir, snapshotName(h.Position.LSN))
	if err := os.RemoveAll(name); err != nil { // of the same rows, or damaged
		return 0, err
	}
	return size, errors.Join(os.Rename(tmp, name), wal.OS{}.SyncDir(dir))
}

func writeRows(ctx context.Context, log *wal.Log, h Header, rows Rows) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := log.Write(head); err != nil {
		return err
	}
	var piece []byte
	for row, err := range rows {
		if err != nil {
			return err
		}
		if piece = appendRow(piece, row); len(piece) < pieceBytes {
			continue
		}
		if _, err := log.Write(piece); err != nil {
			return err
		}
		piece = piece[:0]
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if len(piece) > 0 {
		if _, err := log.Write(piece); err != nil {
			return err
		}
	}
	_, err = log.Append(ctx, []byte(footer))
	return err
}

// Due says that the changes take so many bytes that a new snapshot pays: the work
// of all snapshots together stays a fixed multiple of that of the changes.
func (m *Mirror) Due() bool { return m.log.State().Bytes > max(leastDue, m.snapshot.Load()) }

// Size is what the mirror takes on disk.
func (m *Mirror) Size() int64 { return m.log.State().Bytes + m.snapshot.Load() }

// Create makes a mirror with a first snapshot and an empty file of changes: a mirror
// without that file has lost changes.
func Create(ctx context.Context, dir string, h Header, rows Rows) error {
	h.Format = format
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the mirror: %w", err)
	}
	if _, err := writeSnapshot(ctx, dir, h, rows); err != nil {
		return fmt.Errorf("write a snapshot of the catalog: %w", err)
	}
	if err := beginLog(dir, h.Position.LSN+1); err != nil {
		return fmt.Errorf("begin the mirror's log: %w", err)
	}
	return wal.OS{}.SyncDir(filepath.Dir(dir))
}

// beginLog makes the first file of changes, where there is none.
func beginLog(dir string, next uint64) error {
	names, err := wal.OS{}.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := wal.FirstLSN(name); ok {
			return nil
		}
	}
	log, _, err := wal.Open(wal.OS{}, dir, wal.Options{SegmentBytes: segmentBytes, NextLSN: next}, nil)
	if err != nil {
		return err
	}
	return log.Close()
}
