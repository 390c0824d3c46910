package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Survey is what a folder holds and what of it is damaged.
type Survey struct {
	Data    string            `json:"data"`
	Store   *local.Inventory  `json:"store"`
	Catalog *sqlite.Inventory `json:"catalog"`
	Blobs   *dir.Inventory    `json:"blobs"`
	// States are the signed records of runs; every signature is checked.
	States *statelog.Inventory `json:"states"`
	Backup []string            `json:"backup,omitempty"` // files of a backup that are not what they were
	// Apart names where the parts of the folder disagree.
	Apart []string `json:"apart"`
	Notes []string `json:"notes,omitempty"` // what is no damage, and good to know
	OK    bool     `json:"ok"`

	whole bool
}

// Survey reads a folder, which may be a backup; with whole set every byte of it. Its
// progress goes to shown.
func (f Folder) Survey(ctx context.Context, whole bool, shown io.Writer) (*Survey, error) {
	if err := f.Elsewhere(); err != nil {
		return nil, err
	}
	// First: what the catalog has by now is in the store that is read after it.
	applied, _ := sqlite.Applied(ctx, f.Catalog()) // of a damaged catalog: it is named below
	store, err := local.OpenFolder(ctx, wal.Looking{}, f.Store(), f.Marks())
	if err != nil {
		return nil, Explain(string(f), err)
	}
	defer store.Close()
	s := &Survey{Data: string(f), whole: whole}
	bar := progress.Bytes(shown, store.Bytes()+SizeOf(f.Blobs())+SizeOf(f.States()), "verify")
	if s.Store, err = store.Inspect(ctx, whole, bar.Done); err != nil {
		return nil, Explain(string(f), err)
	}
	if s.Catalog, err = sqlite.Inspect(ctx, f.Catalog(), whole); err != nil {
		return nil, Explain(string(f), err)
	}
	if s.Blobs, err = dir.Inspect(ctx, f.Blobs(), whole, bar.Done); err != nil {
		return nil, Explain(string(f), err)
	}
	if s.States, err = statelog.Inspect(ctx, f.States(), whole, bar.Done); err != nil {
		return nil, Explain(string(f), err)
	}
	bar.End()
	if s.Apart = []string{}; whole && len(s.Catalog.Damage) == 0 {
		if err := s.compare(ctx, f, applied); err != nil {
			return nil, Explain(string(f), err)
		}
	}
	if whole {
		small, err := f.small(ctx)
		for _, file := range small {
			s.Apart = append(s.Apart, file.String())
		}
		if err := errors.Join(err, s.older(ctx, f)); err != nil {
			return nil, Explain(string(f), err)
		}
	}
	if whole {
		s.Notes = f.silent()
		if s.Backup, err = backup.Changed(ctx, string(f)); err != nil {
			return nil, Explain(string(f), err)
		}
	}
	s.OK = len(s.Store.Damage)+len(s.Catalog.Damage)+len(s.Blobs.Damage)+len(s.States.Damage)+len(s.Apart)+len(s.Backup) == 0
	return s, nil
}

// Err is what verifying a damaged folder ends with.
func (s *Survey) Err() error {
	if !s.whole || s.OK {
		return nil
	}
	return model.Errorf(model.CodeInternal, "the data folder is damaged").
		WithHint("the rest is served, and nothing was deleted; `kymogram data repair` mends the catalog and small files; for the rest restore a backup, and check the disk")
}

// compare holds the catalog beside the store and the blobs, which were read first:
// a run reaches the catalog before its points reach the store.
func (s *Survey) compare(ctx context.Context, f Folder, applied map[model.RunID]uint64) error {
	if err := s.gone(ctx, f, applied); err != nil {
		return err
	}
	lost, err := sqlite.Missing(ctx, f.Catalog(), s.Store.Known)
	if err != nil {
		return err
	}
	for _, run := range lost {
		s.Apart = append(s.Apart, fmt.Sprintf("run %s has points in the store, and the catalog does not know it", run))
	}
	named, err := sqlite.Named(ctx, f.Catalog())
	if err != nil {
		return err
	}
	for _, hash := range named {
		if there, err := dir.Has(f.Blobs(), hash); err != nil {
			return err
		} else if !there {
			s.Apart = append(s.Apart, fmt.Sprintf("blob %s is missing, and a run or an artifact names it", hash))
		}
	}
	return nil
}

// older compares catalog and mirror with what is noted apart from them.
func (s *Survey) older(ctx context.Context, f Folder) error {
	catalog, err := sqlite.Older(ctx, f.Catalog(), f.CatalogMark())
	if err != nil {
		return err
	}
	states, err := statelog.Older(ctx, f.States(), f.StateMark())
	s.Apart = append(s.Apart, slices.DeleteFunc([]string{catalog, states}, func(text string) bool { return text == "" })...)
	return err
}

// gone names runs with records that the catalog saw and the store has no more.
func (s *Survey) gone(ctx context.Context, f Folder, applied map[model.RunID]uint64) error {
	now, err := sqlite.Applied(ctx, f.Catalog())
	if err != nil {
		return err
	}
	known := map[model.RunID]bool{}
	for _, run := range s.Store.Known {
		known[run] = true
	}
	for _, run := range slices.SortedFunc(maps.Keys(applied), func(a, b model.RunID) int { return slices.Compare(a[:], b[:]) }) {
		if _, still := now[run]; !still {
			continue // deleted meanwhile
		}
		switch lsn := applied[run]; {
		case !known[run]:
			s.Apart = append(s.Apart, fmt.Sprintf("run %s was written to, and the store has nothing of it: its points are lost", run))
		case lsn > s.Store.Last:
			s.Apart = append(s.Apart, fmt.Sprintf("run %s was written to in record %d, and the store ends at record %d: points are lost", run, lsn, s.Store.Last))
		}
	}
	return nil
}

// shownRuns is how many of the largest runs a person sees.
const shownRuns = 10

// Print writes it for a person.
func (s *Survey) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, table.Printable(fmt.Sprintf(format, args...)))
	}
	st, c := s.Store, s.Catalog
	line("folder", "%s, format %s", s.Data, st.Version)
	line("points", "%d of %d runs in %d segments, %s", st.Points, len(st.Runs), st.Segments, table.Bytes(st.Bytes-st.LogBytes))
	line("written", "%s over the store's life, %.2f times the %s that were kept", table.Bytes(st.Written), float64(st.Written)/float64(max(1, st.Kept)), table.Bytes(st.Kept))
	line("log", "%d records in %d files, %s; %d points are only there", st.Records, st.LogFiles, table.Bytes(st.LogBytes), st.LogPoints)
	line("deleted", "%d runs in the store, %s are freed by the next merges", st.Deleted, table.Bytes(st.DeadBytes))
	if len(c.Damage) > 0 && c.Runs+c.Writers+c.Keys == 0 {
		line("catalog", "it is damaged, so its runs and keys are not counted, %s and %s of its mirror", table.Bytes(c.Bytes), table.Bytes(c.MirrorBytes))
	} else {
		line("catalog", "%d runs, %d of them in the trash, %d freed for good, %d writers, %d keys, %s and %s of its mirror", c.Runs, c.Trash, c.Purged, c.Writers, c.Keys, table.Bytes(c.Bytes), table.Bytes(c.MirrorBytes))
	}
	if c.Runs > 0 {
		line("oldest run", "last activity %s", table.When(c.OldestNs))
	}
	line("state", "%d signed records of %d runs, %s", s.States.Records, s.States.Runs, table.Bytes(s.States.Bytes))
	line("files", "%d blobs, %s", s.Blobs.Files, table.Bytes(s.Blobs.Bytes))
	if st.SetAside > 0 {
		line("set aside", "%d files in %s", st.SetAside, filepath.Join(s.Data, StoreFolder, "wal", "quarantine"))
	}
	for i, r := range st.Runs {
		if s.whole || i == shownRuns {
			break
		}
		line("run "+r.Run.String(), "%d points of %d series, %s", r.Points, r.Series, table.Bytes(r.Bytes))
	}
	for _, d := range st.Damage {
		if d.Run == "" && d.Offset == 0 && d.Points == 0 { // the whole file
			line("DAMAGED", "%s: %s", d.File, d.Reason)
			continue
		}
		line("DAMAGED", "%s at byte %d: %s (%d points of run %s)", d.File, d.Offset, d.Reason, d.Points, cmp.Or(d.Run, "unknown"))
	}
	for _, text := range slices.Concat(c.Notes, s.Notes) {
		line("note", "%s", text)
	}
	for _, text := range slices.Concat(c.Damage, s.Blobs.Damage, s.States.Damage, s.Backup, s.Apart) {
		line("DAMAGED", "%s", text)
	}
	if s.whole && s.OK {
		line("verified", "every byte is as it was written")
	}
	return w.Flush()
}
