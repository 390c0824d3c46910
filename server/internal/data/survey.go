package data

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Survey is what a folder holds and what of it is damaged.
type Survey struct {
	Data    string            `json:"data"`
	Store   *local.Inventory  `json:"store"`
	Catalog *sqlite.Inventory `json:"catalog"`
	Blobs   *dir.Inventory    `json:"blobs"`
	Backup  []string          `json:"backup,omitempty"` // files of a backup that are not what they were
	OK      bool              `json:"ok"`
}

// Survey reads a folder; with whole set every byte of it. Its progress goes to shown.
func (f Folder) Survey(ctx context.Context, whole bool, shown io.Writer) (*Survey, error) {
	store, err := local.OpenFolder(ctx, wal.OS{}, f.Store())
	if err != nil {
		return nil, Explain(string(f), err)
	}
	defer store.Close()
	s := &Survey{Data: string(f)}
	bar := progress.Bytes(shown, store.Bytes()+SizeOf(f.Blobs()), "verify")
	if s.Store, err = store.Inspect(ctx, whole, bar.Done); err != nil {
		return nil, Explain(string(f), err)
	}
	if s.Catalog, err = sqlite.Inspect(ctx, f.Catalog(), whole); err != nil {
		return nil, Explain(string(f), err)
	}
	if s.Blobs, err = dir.Inspect(ctx, f.Blobs(), whole, bar.Done); err != nil {
		return nil, Explain(string(f), err)
	}
	bar.End()
	s.OK = len(s.Store.Damage)+len(s.Catalog.Damage)+len(s.Blobs.Damage) == 0
	return s, nil
}

// shownRuns is how many of the largest runs a person sees.
const shownRuns = 10

// Print writes it for a person.
func (s *Survey) Print(out io.Writer, verified bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, table.Printable(fmt.Sprintf(format, args...)))
	}
	st, c := s.Store, s.Catalog
	line("folder", "%s, format %s", s.Data, st.Version)
	line("points", "%d of %d runs in %d segments, %s", st.Points, len(st.Runs), st.Segments, table.Bytes(st.Bytes-st.LogBytes))
	line("log", "%d records in %d files, %s", st.Records, st.LogFiles, table.Bytes(st.LogBytes))
	line("deleted", "%d runs in the store, %s are freed by the next merges", st.Deleted, table.Bytes(st.DeadBytes))
	line("catalog", "%d runs, %d of them in the trash, %d freed for good, %d writers, %d keys, %s", c.Runs, c.Trash, c.Purged, c.Writers, c.Keys, table.Bytes(c.Bytes))
	if c.Runs > 0 {
		line("oldest run", "last sign of life %s", table.When(c.OldestNs))
	}
	line("files", "%d blobs, %s", s.Blobs.Files, table.Bytes(s.Blobs.Bytes))
	if st.SetAside > 0 {
		line("set aside", "%d files in %s", st.SetAside, filepath.Join(s.Data, StoreFolder, "wal", "quarantine"))
	}
	for i, r := range st.Runs {
		if verified || i == shownRuns {
			break
		}
		line("run "+r.Run.String(), "%d points of %d series, %s", r.Points, r.Series, table.Bytes(r.Bytes))
	}
	for _, d := range st.Damage {
		line("DAMAGED", "%s at byte %d: %s (%d points of run %s)", d.File, d.Offset, d.Reason, d.Points, cmp.Or(d.Run, "unknown"))
	}
	for _, text := range append(append(c.Damage, s.Blobs.Damage...), s.Backup...) {
		line("DAMAGED", "%s", text)
	}
	if verified && s.OK {
		line("verified", "every byte is as it was written")
	}
	return w.Flush()
}
