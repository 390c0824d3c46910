package main

import (
	"context"
	"errors"
	"fmt"
	goio "io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/table"
)

// folder holds the flags of commands that work on a data folder.
type folder struct {
	data string
	json bool
}

func (f *folder) addTo(cmd *cobra.Command, io stdio) {
	cmd.Flags().StringVar(&f.data, "data", first(io.env("KYMOGRAM_DATA"), config.Default(io.env).Data), "the server's data folder (KYMOGRAM_DATA)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON object")
}

func (f *folder) store() string   { return filepath.Join(f.data, storeFolder) }
func (f *folder) catalog() string { return filepath.Join(f.data, catalogFile) }
func (f *folder) blobs() string   { return filepath.Join(f.data, blobFolder) }

func dataCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Look after a server's data folder: stats, verify, compact, backup, restore",
		Long: "Look after a server's data folder, on the server's machine and as its user.\n" +
			"All but compact and restore work while the server runs.",
		Example: `  kymogram data stats --data /var/lib/kymogram
  kymogram data verify --data /var/lib/kymogram
  kymogram data backup --data /var/lib/kymogram --to /backup/monday
  kymogram data restore --from /backup/monday --data /var/lib/kymogram`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("which one? see kymogram data --help")
		},
	}
	cmd.AddCommand(dataStatsCommand(io), dataVerifyCommand(io), dataCompactCommand(io), dataBackupCommand(io), dataRestoreCommand(io))
	return cmd
}

// survey is what data stats and data verify tell.
type survey struct {
	Data    string            `json:"data"`
	Store   *local.Inventory  `json:"store"`
	Catalog *sqlite.Inventory `json:"catalog"`
	Blobs   *dir.Inventory    `json:"blobs"`
	Backup  []string          `json:"backup,omitempty"` // files of a backup that are not what they were
	OK      bool              `json:"ok"`
}

func dataStatsCommand(io stdio) *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "stats",
		Short:   "Say what the folder holds and what takes its space",
		Example: "  kymogram data stats --data /var/lib/kymogram\n  kymogram data stats --json | jq .store.points",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.survey(cmd.Context(), io, false)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(io.out, s)
			}
			return s.print(io.out, false)
		},
	}
	f.addTo(cmd, io)
	return cmd
}

func dataVerifyCommand(io stdio) *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read every byte and say what is damaged",
		Long: "Read every byte of a data folder or of a backup and compare it with its checksum:\n" +
			"points and their summaries, the log, the catalog, files. Nothing is changed. Ends\n" +
			"with 1 when something is damaged.",
		Example: "  kymogram data verify --data /var/lib/kymogram\n  kymogram data verify --data /backup/monday --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.survey(cmd.Context(), io, true)
			if err != nil {
				return err
			}
			if f.json {
				err = printJSON(io.out, s)
			} else {
				err = s.print(io.out, true)
			}
			if err == nil && !s.OK {
				err = model.Errorf(model.CodeInternal, "the data folder is damaged").
					WithHint("the rest is served, and nothing was deleted; restore a backup, or keep what is left and check the disk")
			}
			return err
		},
	}
	f.addTo(cmd, io)
	return cmd
}

// survey reads a folder; with whole set every byte of it.
func (f *folder) survey(ctx context.Context, io stdio, whole bool) (*survey, error) {
	store, err := local.OpenFolder(ctx, wal.OS{}, f.store())
	if err != nil {
		return nil, explainFault(f.data, err)
	}
	defer store.Close()
	s := &survey{Data: f.data}
	shown := goio.Discard
	if whole {
		shown = io.err
	}
	bar := progress.Bytes(shown, store.Bytes()+sizeOf(f.blobs()), "verify")
	if s.Store, err = store.Inspect(ctx, whole, bar.Done); err != nil {
		return nil, explainFault(f.data, err)
	}
	if s.Catalog, err = sqlite.Inspect(ctx, f.catalog(), whole); err != nil {
		return nil, explainFault(f.data, err)
	}
	if s.Blobs, err = dir.Inspect(ctx, f.blobs(), whole, bar.Done); err != nil {
		return nil, explainFault(f.data, err)
	}
	if whole {
		if s.Backup, err = backup.Changed(ctx, f.data); err != nil {
			return nil, err
		}
	}
	bar.End()
	s.OK = len(s.Store.Damage)+len(s.Catalog.Damage)+len(s.Blobs.Damage)+len(s.Backup) == 0
	return s, nil
}

// shownRuns is how many of the largest runs a person sees.
const shownRuns = 10

func (s *survey) print(out goio.Writer, verified bool) error {
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
		line("set aside", "%d files in %s", st.SetAside, filepath.Join(s.Data, storeFolder, "wal", "quarantine"))
	}
	for i, r := range st.Runs {
		if verified || i == shownRuns {
			break
		}
		line("run "+r.Run.String(), "%d points of %d series, %s", r.Points, r.Series, table.Bytes(r.Bytes))
	}
	for _, d := range st.Damage {
		line("DAMAGED", "%s at byte %d: %s (%d points of run %s)", d.File, d.Offset, d.Reason, d.Points, first(d.Run, "unknown"))
	}
	for _, text := range append(append(c.Damage, s.Blobs.Damage...), s.Backup...) {
		line("DAMAGED", "%s", text)
	}
	if verified && s.OK {
		line("verified", "every byte is as it was written")
	}
	return w.Flush()
}

// compaction is what data compact tells.
type compaction struct {
	Before  int64   `json:"bytes_before"`
	After   int64   `json:"bytes_after"`
	Seconds float64 `json:"seconds"`
}

func dataCompactCommand(io stdio) *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Merge all segments into one and free what was deleted",
		Long: "Merge all segments into one, in today's format, and free the bytes of deleted\n" +
			"runs. The server does this by itself when it pays; it must be stopped for this\n" +
			"command, and the disk needs room for a second copy of the points.",
		Example: "  kymogram data compact --data /var/lib/kymogram",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := f.compact(cmd.Context(), io)
			if err != nil {
				return explainFault(f.data, err)
			}
			if f.json {
				return printJSON(io.out, done)
			}
			_, err = fmt.Fprintf(io.out, "%s are %s now\n", table.Bytes(done.Before), table.Bytes(done.After))
			return err
		},
	}
	f.addTo(cmd, io)
	return cmd
}

func (f *folder) compact(ctx context.Context, io stdio) (*compaction, error) {
	began := time.Now()
	if _, err := os.Stat(filepath.Join(f.store(), "VERSION")); err != nil {
		return nil, model.Errorf(model.CodeNotFound, "%s is no data folder", f.data).WithHint("name the folder that was given to `kymogram serve --data`")
	}
	out := &compaction{Before: sizeOf(f.store())}
	e, err := local.Open(ctx, local.Config{Dir: f.store(), Logger: newLog(io, "warn")})
	if err != nil {
		return nil, err
	}
	bar := progress.Bytes(io.err, out.Before, "compact")
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go watchWriting(watched, f.store(), bar)
	if err = e.Flush(ctx); err == nil {
		err = e.Compact(ctx, true)
	}
	err = errors.Join(err, e.Close())
	bar.End()
	out.After, out.Seconds = sizeOf(f.store()), time.Since(began).Seconds()
	return out, err
}

// watchWriting shows how far the new segment is.
func watchWriting(ctx context.Context, store string, bar progress.Bar) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		found, _ := filepath.Glob(filepath.Join(store, "segments", "*.tmp"))
		for _, name := range found {
			if info, err := os.Stat(name); err == nil {
				bar.Reach(info.Size())
			}
		}
	}
}

// sizeOf adds up the files below a folder; what comes and goes meanwhile may be
// missed.
func sizeOf(folder string) (n int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that is gone has no size
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
