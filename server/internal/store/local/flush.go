package local

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// frozen is what one flush takes from a run.
type frozen struct {
	run     *run
	section *section
	views   []*memView
	groups  []*memGroup
	lineage *lineage
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
	f.section = &section{head: head{runRef: runRef{run: r.id, flushed: r.lastLSN}, deleted: r.deleted, nextOrd: r.nextOrd, made: r.made, attempts: slices.Clone(r.attempts)}, starts: r.freshStarts}
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
			f.section.sources = append(f.section.sources, placedSource{uint32(i), s})
			wanted[s.Writer] = true
		}
	}
	for i := range r.writers {
		if w := r.writers[i]; !w.ID.IsZero() && (wanted[uint32(i)] || w.LSN > r.flushed) {
			w.Skipped = slices.Clone(w.Skipped)
			f.section.writers = append(f.section.writers, placedWriter{uint32(i), w})
		}
	}
	for _, s := range r.series {
		if s != nil && named[s.id] {
			f.section.series = append(f.section.series, record.Series{ID: s.id, Kind: s.kind, Text: s.text})
		}
	}
}

// thaw makes the groups of a finished flush readable in place of the memory.
func (e *Engine) thaw(f *frozen, s *segment) {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed = max(r.flushed, f.section.flushed)
	e.memory.Add(-int64(r.frozenBytes))
	r.frozenFirst, r.frozenMem, r.frozenBytes = 0, nil, 0
	r.relocate(nil, s.located(r.id))
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
	for _, g := range f.section.groups {
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
	if err := e.poisoned(); err != nil {
		return record.Refusing(err)
	}
	var parts []*frozen
	upTo := uint64(0)
	for _, r := range runs {
		if f := e.freeze(r); f != nil {
			parts = append(parts, f)
			upTo = max(upTo, f.section.flushed)
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

func (e *Engine) writeFrozen(ctx context.Context, parts []*frozen, upTo uint64) (*segment, error) {
	// A segment may not hold what a crash would take from the log: the record's
	// updates are only there.
	if err := e.log.Wait(ctx, upTo); err != nil {
		return nil, err
	}
	w, err := e.newSegmentWriter(&e.flushDesk)
	if err != nil {
		return nil, err
	}
	for _, f := range parts {
		if err := f.write(w); err != nil {
			w.abandon()
			return nil, err
		}
	}
	seg, err := w.finish(nil)
	if err != nil {
		w.abandon()
		return nil, err
	}
	e.addSegment(seg)
	return seg, nil
}

func (f *frozen) write(w *segmentWriter) error {
	b := &builder{writer: w, lineage: f.lineage}
	var parts []part
	for _, v := range f.views {
		parts = append(parts, part{&v.shared, v.group.series, v.cols})
	}
	b.add(parts)
	groups, err := b.write()
	if err != nil {
		return err
	}
	f.section.groups = groups
	return w.section(f.section)
}

func (e *Engine) addSegment(s *segment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.segments = append(e.segments, s)
}

func (e *Engine) liveSegments() []*segment {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Clone(e.segments)
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

// loadSegments reads the directory of every segment and returns the first LSN that
// no segment covers, and the segments whose directory cannot be read.
func (e *Engine) loadSegments() (next uint64, damaged []uint64, err error) {
	if err := e.cfg.FS.MkdirAll(e.segmentDir()); err != nil {
		return 0, nil, fmt.Errorf("make segment folder: %w", err)
	}
	names, err := e.cfg.FS.List(e.segmentDir())
	if err != nil {
		return 0, nil, fmt.Errorf("list segments: %w", err)
	}
	var found []opened
	for _, name := range names {
		if strings.HasSuffix(name, segmentSuffix+".tmp") {
			e.removeFile(name)
		}
		id, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		e.nextSegment.Store(max(e.nextSegment.Load(), id+1))
		s, heads, err := e.openSegment(id)
		if err := unread(err, filepath.Join(e.segmentDir(), name)); err != nil {
			return 0, nil, err
		}
		if err != nil {
			e.quarantine("segment", err, "file", name)
			damaged = append(damaged, id)
			continue
		}
		found = append(found, opened{s, heads})
	}
	live := e.dropReplaced(found)
	damaged = slices.DeleteFunc(damaged, func(id uint64) bool { // a merge has what was in it
		return slices.ContainsFunc(live, func(s opened) bool { return slices.Contains(s.replaces, id) })
	})
	return e.adoptSegments(live), damaged, nil
}

// removeFile removes what is not needed any more; what stays is tried again at
// the next start.
func (e *Engine) removeFile(name string) {
	if err := e.cfg.FS.Remove(filepath.Join(e.segmentDir(), name)); err != nil {
		e.cfg.Logger.Warn("file that is not needed any more is not removed", "file", name, "err", err)
	}
}

// dropReplaced removes what a merge had replaced when a crash came.
func (e *Engine) dropReplaced(found []opened) (live []opened) {
	replaced := map[uint64]bool{}
	for _, s := range found {
		for _, id := range s.replaces {
			replaced[id] = true
		}
	}
	for _, s := range found {
		if !replaced[s.id] {
			live = append(live, s)
			continue
		}
		if err := s.file.Close(); err != nil {
			e.cfg.Logger.Warn("close segment", "err", err)
		}
		e.removeFile(segmentName(s.id))
		e.gone = append(e.gone, s.id)
	}
	return live
}

// opened is a segment and what its directory says of runs.
type opened struct {
	*segment
	heads []head
}

// adoptSegments takes in the state of all runs and where their bodies lie.
func (e *Engine) adoptSegments(live []opened) (nextLSN uint64) {
	nextLSN = 1
	for _, s := range live {
		e.segments = append(e.segments, s.segment)
		for i := range s.heads {
			nextLSN = max(nextLSN, e.adoptHead(s.segment, i, &s.heads[i]))
		}
	}
	for _, r := range e.runs {
		if r.deleted {
			r.wipe()
			e.deleted.Add(1)
		}
	}
	return nextLSN
}

func (e *Engine) adoptHead(s *segment, at int, h *head) (nextLSN uint64) {
	if err := s.complete(h); err != nil {
		s.keep.Store(true)
		e.quarantineOf(h.run, "segment index", s.lose(err, h.points, h.tlo, h.thi))
		return 0
	}
	r := e.ensure(h.run)
	if !r.absorb(h) {
		s.keep.Store(true)
		e.quarantineOf(h.run, "segment index", fmt.Errorf("segment %s contradicts another: %w", segmentName(s.id), errDamaged))
	}
	r.parts = append(r.parts, located{s, at})
	return h.flushed + 1
}

// located finds a run that the segment has.
func (s *segment) located(run model.RunID) located {
	at, _ := s.find(run)
	return located{s, at}
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
