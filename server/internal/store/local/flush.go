package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// frozen is what one flush takes from a run.
type frozen struct {
	run     *run
	section *segment.Section
	views   []*memView
	groups  []*memGroup
	lineage *curve.Lineage
	starts  []record.Start
}

// freeze takes what a run holds in memory and no segment has. Readers go on
// with it until thaw.
func (e *Engine) freeze(r *run) *frozen {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstLSN == 0 {
		return nil
	}
	if len(r.late) > 0 {
		e.load(r)
	}
	f := &frozen{run: r, groups: r.mem, lineage: r.lines(), starts: r.freshStarts}
	f.section = &segment.Section{Head: segment.Head{Entry: segment.Entry{Run: r.id, Flushed: r.lastLSN}, Deleted: r.deleted, NextOrd: r.nextOrd, Made: r.made, Attempts: slices.Clone(r.attempts)}, Starts: r.freshStarts}
	for _, m := range r.mem {
		f.views = append(f.views, m.view())
	}
	r.fillSection(f)
	r.frozenFirst, r.firstLSN = r.firstLSN, 0
	e.dueBytes.Add(-int64(r.dueBytes))
	r.dueBytes = 0
	r.frozenMem, r.frozenBytes = r.mem, r.memBytes
	r.mem, r.memAt, r.memRows, r.memBytes, r.freshStarts = nil, nil, 0, 0, nil
	return f
}

// fillSection adds the writers and sources that changed or are named by the
// rows, and the definitions of their series.
func (r *run) fillSection(f *frozen) {
	used, named := map[uint32]bool{}, map[uint32]bool{}
	for _, m := range f.groups {
		for _, s := range m.extent.Sources {
			used[s] = true
		}
		for _, id := range m.series {
			named[id] = true
		}
	}
	wanted := map[uint32]bool{}
	for i, s := range r.sources {
		if used[uint32(i)] {
			f.section.Sources = append(f.section.Sources, segment.PlacedSource{Place: uint32(i), Source: s})
			wanted[s.Writer] = true
		}
	}
	for i := range r.writers {
		if w := r.writers[i]; !w.ID.IsZero() && (wanted[uint32(i)] || w.LSN > r.flushed) {
			w.Skipped = slices.Clone(w.Skipped)
			f.section.Writers = append(f.section.Writers, segment.PlacedWriter{Place: uint32(i), Writer: w})
		}
	}
	for _, s := range r.series {
		if s != nil && named[s.ID] {
			f.section.Series = append(f.section.Series, record.Series{ID: s.ID, Kind: s.Kind, Text: s.Text})
		}
	}
}

// thaw makes the groups of a finished flush readable in place of the memory.
func (e *Engine) thaw(f *frozen, s *segment.File) {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed = max(r.flushed, f.section.Flushed)
	e.memory.Add(-int64(r.frozenBytes))
	r.frozenFirst, r.frozenMem, r.frozenBytes = 0, nil, 0
	r.relocate(nil, s.Located(r.id))
	if r.deleted {
		return
	}
	gone := map[*memGroup]bool{}
	for _, m := range f.groups {
		gone[m] = true
	}
	for _, m := range f.groups {
		for _, id := range m.series {
			s := r.series[id]
			s.mem = slices.DeleteFunc(s.mem, func(ref memRef) bool { return gone[ref.group] })
			if len(s.mem) == 0 {
				s.mem = nil
			}
		}
	}
	for _, g := range f.section.Groups {
		r.attach(g)
	}
}

// refreeze undoes freeze after a flush that failed.
func (e *Engine) refreeze(f *frozen) {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deleted {
		r.mem = append(slices.Clone(f.groups), r.mem...)
		r.memBytes += r.frozenBytes
		r.memRows = e.cfg.FlushRows // due again
		r.freshStarts = append(slices.Clone(f.starts), r.freshStarts...)
	}
	r.firstLSN, r.frozenFirst, r.frozenMem, r.frozenBytes = r.frozenFirst, 0, nil, 0
}

// Flush writes what runs hold in memory into a segment. It is what Run does
// when a run is due; tests and backups call it for all.
func (e *Engine) Flush(ctx context.Context) error {
	return e.flush(ctx, e.dirty.all())
}

func (e *Engine) flush(ctx context.Context, runs []*run) error {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	return e.flushLocked(ctx, runs)
}

// flushesPerRun is how many times FlushBytes a run may hold in memory.
const flushesPerRun = 8

// full reports whether a run, or all together, hold as much as they may.
func (e *Engine) full(r *run) bool {
	if e.memory.Load() >= int64(e.cfg.MemoryBytes+e.cfg.MemoryBytes/4) {
		return true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.memBytes+r.frozenBytes >= flushesPerRun*e.cfg.FlushBytes
}

// room waits, by a flush of its own if need be, until memory may take more of a run.
func (e *Engine) room(ctx context.Context, r *run) error {
	if !e.full(r) {
		return nil
	}
	e.flushing.Lock()
	defer e.flushing.Unlock()
	if !e.full(r) {
		return nil
	}
	err := e.flushLocked(ctx, e.due())
	if wal.IsDiskFull(err) {
		err = fmt.Errorf("%w: %w", wal.ErrDiskFull, err)
	}
	if err != nil {
		return record.Refusing(err)
	}
	return nil
}

func (e *Engine) flushLocked(ctx context.Context, runs []*run) error {
	if err := e.files.Stuck(); err != nil {
		return record.Refusing(err)
	}
	var parts []*frozen
	upTo := uint64(0)
	for _, r := range runs {
		if f := e.freeze(r); f != nil {
			parts = append(parts, f)
			upTo = max(upTo, f.section.Flushed)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	slices.SortFunc(parts, func(a, b *frozen) int { return slices.Compare(a.run.id[:], b.run.id[:]) })
	seg, err := e.writeFrozen(ctx, parts, upTo)
	if err != nil {
		for _, f := range parts {
			e.refreeze(f)
		}
		return err
	}
	for _, f := range parts {
		e.thaw(f, seg)
	}
	return e.releaseLog()
}

func (e *Engine) writeFrozen(ctx context.Context, parts []*frozen, upTo uint64) (*segment.File, error) {
	// A segment may not hold what a crash would take from the log: the record's
	// updates are only there.
	if err := e.log.Wait(ctx, upTo); err != nil {
		return nil, err
	}
	w, err := e.files.Create(e.flushDesk)
	if err != nil {
		return nil, err
	}
	for _, f := range parts {
		if err := f.write(w); err != nil {
			w.Abandon()
			return nil, err
		}
	}
	seg, err := w.Finish(nil)
	if err != nil {
		w.Abandon()
		return nil, err
	}
	e.files.Add(seg)
	return seg, nil
}

func (f *frozen) write(w *segment.Writer) error {
	var parts []segment.Part
	for _, v := range f.views {
		parts = append(parts, segment.Part{Rows: &v.shared, Series: v.group.series, Columns: v.cols})
	}
	groups, err := w.Groups(parts, f.lineage.Writers)
	if err != nil {
		return err
	}
	f.section.Groups = groups
	return w.Section(f.section)
}

// releaseLog drops the log files whose records are all in segments and whose
// updates are all confirmed.
func (e *Engine) releaseLog() error {
	least := e.log.State().Written + 1
	e.dirty.each(func(r *run) {
		for _, lsn := range []uint64{r.firstLSN, r.frozenFirst} {
			if lsn > 0 {
				least = min(least, lsn)
			}
		}
	})
	if lsn := e.meta.oldest(); lsn > 0 {
		least = min(least, lsn)
	}
	if err := e.log.Release(least); err != nil {
		return fmt.Errorf("drop old log files: %w", err)
	}
	return nil
}

// due lists the runs that should be flushed now.
func (e *Engine) due() []*run {
	type weighed struct {
		run   *run
		bytes int
	}
	var out []*run
	var rest []weighed
	total := 0
	now := e.cfg.Now()
	e.dirty.each(func(r *run) {
		old := r.firstLSN > 0 && now.Sub(r.memSince) >= e.cfg.FlushAge
		due := r.memRows >= e.cfg.FlushRows || r.memBytes >= e.cfg.FlushBytes || old
		total += r.memBytes
		bytes := r.memBytes
		if due {
			out = append(out, r)
			total -= bytes
		} else {
			rest = append(rest, weighed{r, bytes})
		}
	})
	slices.SortFunc(rest, func(a, b weighed) int { return cmp.Compare(b.bytes, a.bytes) })
	for i := 0; i < len(rest) && total > e.cfg.MemoryBytes; i++ {
		out = append(out, rest[i].run)
		total -= rest[i].bytes
	}
	return out
}
