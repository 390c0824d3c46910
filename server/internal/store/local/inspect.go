package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Inventory is what the files of a data folder hold.
type Inventory struct {
	Version   string    `json:"version"`
	Segments  int       `json:"segments"`
	Bytes     int64     `json:"bytes"`
	LogFiles  int       `json:"log_files"`
	LogBytes  int64     `json:"log_bytes"`
	Records   uint64    `json:"log_records"`
	Points    uint64    `json:"points"`        // of runs that are not deleted
	LogPoints uint64    `json:"log_points"`    // of these, the ones that only the log has
	DeadBytes int64     `json:"dead_bytes"`    // of deleted runs, until their segment is merged
	Written   int64     `json:"written_bytes"` // to segments, over the store's life
	Kept      int64     `json:"kept_bytes"`    // of these: in segments, or deleted since
	SetAside  int       `json:"set_aside"`     // files in quarantine
	Runs      []RunSize `json:"runs"`          // by falling bytes
	Deleted   int       `json:"deleted"`       // runs whose points are freed or will be
	Damage    []Fault   `json:"damage"`        // what cannot be read
	Torn      int64     `json:"torn_bytes"`    // behind the last whole record: never acknowledged

	// Known are all runs that have points, in segments or in the log.
	Known []model.RunID `json:"-"`
	// Last is the last record that there is, or that was in what is flushed.
	Last uint64 `json:"-"`
}

// RunSize is what a run takes.
type RunSize struct {
	Run     model.RunID `json:"run"`
	Points  uint64      `json:"points"` // those that only the log has among them
	Bytes   int64       `json:"bytes"`  // in segments
	Series  int         `json:"series"` // that have points
	deleted bool
	flushed uint64 // segments have its records up to this one
	logged  uint64 // points that only the log has
	places  []uint64
}

// count takes in that a series has points: a bit for each, as the segments and the
// records that have a run name its series again and again.
func (r *RunSize) count(series uint32) {
	at, bit := int(series/64), uint64(1)<<(series%64)
	if at >= len(r.places) {
		r.places = append(r.places, make([]uint64, at+1-len(r.places))...)
	}
	if r.places[at]&bit == 0 {
		r.places[at] |= bit
		r.Series++
	}
}

// Fault is a place that cannot be read.
type Fault struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Run    string `json:"run,omitempty"`
	Points uint64 `json:"points,omitempty"`
	Reason string `json:"reason"`
}

// inspector reads a folder without an engine that serves it.
type inspector struct {
	*Folder
	files   *segment.Files
	out     *Inventory
	runs    map[model.RunID]*RunSize
	present []uint64        // segments
	opened  []*segment.File // the same
	flushed uint64          // records up to this one may be in segments
	done    func(bytes int64)
}

// Inspect reads the folder's indexes; with blocks set every checksum and every
// value as well. done hears of the bytes that were read, and may be nil.
func (f *Folder) Inspect(ctx context.Context, blocks bool, done func(bytes int64)) (*Inventory, error) {
	if done == nil {
		done = func(int64) {}
	}
	in := &inspector{Folder: f, files: segment.NewFiles(f.fs, []string{filepath.Join(f.dir, "segments")}, slog.New(slog.DiscardHandler), nil), out: &Inventory{Damage: []Fault{}, Runs: []RunSize{}}, runs: map[model.RunID]*RunSize{}, done: done}
	if err := in.others(); err != nil {
		return nil, err
	}
	for _, file := range f.segs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in.segment(file, blocks)
	}
	in.missing()
	if err := in.records(ctx); err != nil {
		return nil, err
	}
	in.total()
	return in.out, nil
}

func (in *inspector) others() error {
	for _, file := range in.other {
		in.out.Bytes += file.size
		in.done(file.size)
		if file.name != "VERSION" {
			if strings.Contains(file.name, "quarantine") {
				in.out.SetAside++
			}
			continue
		}
		text := make([]byte, file.size)
		if _, err := file.file.ReadAt(text, 0); err != nil {
			return fmt.Errorf("read VERSION: %w", err)
		}
		in.out.Version = strings.TrimSpace(string(text))
	}
	return nil
}

func (in *inspector) run(id model.RunID) *RunSize {
	if in.runs[id] == nil {
		in.runs[id] = &RunSize{Run: id}
	}
	return in.runs[id]
}

func (in *inspector) segment(file folderFile, blocks bool) {
	in.out.Segments++
	in.out.Bytes += file.size
	id, _ := segment.ParseName(filepath.Base(file.name))
	in.present = append(in.present, id)
	s := in.files.Over(id, file.file)
	heads, err := s.ReadDirectory()
	in.opened = append(in.opened, s)
	if err != nil {
		in.fault(file.name, model.RunID{}, err)
		in.done(file.size)
		return
	}
	told := int64(0)
	for i := range heads {
		h := &heads[i]
		r := in.run(h.Run)
		err := s.Complete(h)
		r.deleted = r.deleted || h.Deleted
		r.flushed = max(r.flushed, h.Flushed)
		in.flushed = max(in.flushed, h.Flushed)
		sec := &segment.Section{}
		if err == nil {
			sec, err = s.Section(h.Entry, true)
		}
		if err != nil {
			in.fault(file.name, h.Run, s.Lose(err, h.Points, h.MinTime, h.MaxTime))
			continue
		}
		for _, def := range sec.Series {
			r.count(def.ID)
		}
		for _, p := range sec.Groups {
			g := p.Whole()
			r.Points += g.Points()
			r.Bytes += g.Bytes()
			if blocks {
				g.Verify(func(err error) { in.fault(file.name, h.Run, err) })
			}
			told += g.Bytes()
			in.done(g.Bytes())
		}
	}
	in.done(file.size - told)
}

// log takes in a record of the log, unless a segment has what it says.
func (r *RunSize) log(lsn uint64, b *record.Batch) {
	if lsn <= r.flushed {
		return
	}
	r.Points += b.Points()
	r.logged += b.Points()
	for i := range b.Groups {
		for _, id := range b.Groups[i].Series {
			r.count(id)
		}
	}
}

// missing names the segments that are gone.
func (in *inspector) missing() {
	for _, name := range in.lists.Damaged {
		short, err := filepath.Rel(filepath.Dir(in.dir), name)
		if err != nil {
			short = name
		}
		in.fault(short, model.RunID{}, in.lists.Err())
	}
	for _, id := range in.lists.IDs {
		replaced := func(s *segment.File) bool { return s.Replaces(id) }
		if !slices.Contains(in.present, id) && !slices.ContainsFunc(in.opened, replaced) {
			in.fault(filepath.Join("segments", segment.Name(id)), model.RunID{}, segment.ErrMissing)
		}
	}
}

func (in *inspector) fault(name string, run model.RunID, err error) {
	if err == nil {
		return
	}
	out := Fault{File: name, Reason: err.Error()}
	var at *segment.BlockError
	if errors.As(err, &at) {
		out.Offset, out.Points, out.Reason = at.Off, at.Lost.Points, at.Err.Error()
	}
	if !run.IsZero() {
		out.Run = run.String()
	}
	in.out.Damage = append(in.out.Damage, out)
}

// records reads the log.
func (in *inspector) records(ctx context.Context) error {
	in.out.LogFiles = len(in.log)
	last := uint64(0)
	damage, err := wal.Inspect(in.log, func(lsn uint64, payload []byte) error {
		in.out.Records++
		last = lsn
		in.done(int64(len(payload)))
		batch, deleted, err := record.Check(payload)
		switch {
		case err != nil:
			in.out.Damage = append(in.out.Damage, Fault{File: "wal", Reason: fmt.Sprintf("record %d: %v", lsn, err)})
		case batch != nil:
			in.run(batch.Run).log(lsn, batch)
		case in.runs[deleted] != nil:
			in.runs[deleted].deleted = true
		}
		return ctx.Err()
	})
	for _, d := range damage {
		if d.Torn {
			in.out.Torn += d.Bytes
			continue
		}
		in.out.Damage = append(in.out.Damage, Fault{File: filepath.Join("wal", d.File), Offset: d.Offset, Reason: fmt.Sprintf("%d bytes are no records", d.Bytes)})
	}
	for _, l := range in.log {
		in.out.LogBytes += l.Size
		if first, ok := wal.FirstLSN(l.Name); ok {
			last = max(last, first-1)
		}
	}
	if in.tip > last && in.tip > in.flushed {
		in.out.Damage = append(in.out.Damage, Fault{File: "wal", Reason: fmt.Sprintf("the log ends at record %d, and was synced up to record %d", last, in.tip)})
	}
	in.out.Last = max(last, in.flushed)
	in.out.Bytes += in.out.LogBytes
	return err
}

func (in *inspector) total() {
	life := segment.LifeOf(in.opened)
	in.out.Written, in.out.Kept = life.Written, life.Freed
	for _, s := range in.opened {
		in.out.Kept += s.Size
	}
	for _, r := range in.runs {
		if r.deleted {
			in.out.Deleted++
			in.out.DeadBytes += r.Bytes
			continue
		}
		in.out.Points += r.Points
		in.out.LogPoints += r.logged
		in.out.Runs = append(in.out.Runs, *r)
	}
	for id := range in.runs {
		in.out.Known = append(in.out.Known, id)
	}
	slices.SortFunc(in.out.Runs, func(a, b RunSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), slices.Compare(a.Run[:], b.Run[:]))
	})
}
