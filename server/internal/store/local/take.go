package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Reserve makes a new folder's log begin above a number: what was saved elsewhere, the catalog,
// knows lower ones. A log that is there stays.
func Reserve(dir string, floor uint64) (err error) {
	var fs wal.OS
	folder := filepath.Join(dir, "wal")
	if err := fs.MkdirAll(folder); err != nil {
		return fmt.Errorf("make the log's folder: %w", err)
	}
	names, err := fs.List(folder)
	if err != nil || len(names) > 0 {
		return err
	}
	f, err := fs.Open(filepath.Join(folder, wal.FileName(floor+1)), true)
	if err != nil {
		return fmt.Errorf("begin the log: %w", err)
	}
	return errors.Join(f.Sync(), f.Close(), fs.SyncDir(folder))
}

// Take stores a batch about which another engine decided, as it is. Arrival numbers rise from
// batch to batch. The places of writer and source are set here. It is durable after Settle.
func (e *Engine) Take(ctx context.Context, rec *record.Batch) (lsn uint64, err error) {
	r := e.table.Ensure(rec.Run)
	if rec.Last > 0 && !e.table.Own(rec.Writer, r) {
		return 0, model.Errorf(model.CodeConflict, "writer %s belongs to another run", rec.Writer)
	}
	if err := e.keeper.Room(ctx, r); err != nil {
		return 0, err
	}
	defer e.keeper.Hint()
	r.Hold()
	defer r.Unlock()
	head := held{r}.Head(rec.Writer, rec.Attempt)
	rec.WriterPlace, rec.SourcePlace = head.Writer, head.Source
	enc := &record.Encoder{}
	if err := enc.Batch(rec); err != nil {
		return 0, err
	}
	if lsn, err = e.commit(r, enc, func(lsn uint64) error { return r.Apply(rec, lsn) }); err != nil {
		return 0, err
	}
	r.CountDue()
	if len(rec.Doc) > 0 {
		e.meta.add(metaOf(rec, lsn))
	}
	return lsn, nil
}

// Settle waits until a record is durable.
func (e *Engine) Settle(ctx context.Context, lsn uint64) error { return e.log.Wait(ctx, lsn) }

// Head is a run without its series, its starts and points; Arrivals is where the next batch that
// is taken begins.
func (e *Engine) Head(id model.RunID) (record.Run, bool) {
	r := e.table.Run(id)
	if r == nil {
		return record.Run{ID: id}, false
	}
	return r.Whole().Run, true
}

// SeriesMade is how many series a run has.
func (e *Engine) SeriesMade(id model.RunID) int {
	if r := e.table.Run(id); r != nil {
		return int(r.Whole().Made)
	}
	return 0
}
