package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/store/local"
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
	bar := bytesBar(io, whole, store.Bytes()+sizeOf(f.blobs()), "verify")
	count := func(n int64) { _ = bar.Add64(n) }
	if s.Store, err = store.Inspect(ctx, whole, count); err != nil {
		return nil, explainFault(f.data, err)
	}
	if s.Catalog, err = sqlite.Inspect(ctx, f.catalog(), whole); err != nil {
		return nil, explainFault(f.data, err)
	}
	if s.Blobs, err = dir.Inspect(ctx, f.blobs(), whole, count); err != nil {
		return nil, explainFault(f.data, err)
	}
	if whole {
		if s.Backup, err = changedSince(ctx, f.data); err != nil {
			return nil, err
		}
	}
	_ = bar.Finish()
	s.OK = len(s.Store.Damage)+len(s.Catalog.Damage)+len(s.Blobs.Damage)+len(s.Backup) == 0
	return s, nil
}

// shownRuns is how many of the largest runs a person sees.
const shownRuns = 10

func (s *survey) print(out io.Writer, verified bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	st, c := s.Store, s.Catalog
	line("folder", "%s, format %s", s.Data, st.Version)
	line("points", "%d of %d runs in %d segments, %s", st.Points, len(st.Runs), st.Segments, bytesText(st.Bytes-st.LogBytes))
	line("log", "%d records in %d files, %s", st.Records, st.LogFiles, bytesText(st.LogBytes))
	line("deleted", "%d runs in the store, %s are freed by the next merges", st.Deleted, bytesText(st.DeadBytes))
	line("catalog", "%d runs, %d of them in the trash, %d freed for good, %d writers, %d keys, %s", c.Runs, c.Trash, c.Purged, c.Writers, c.Keys, bytesText(c.Bytes))
	if c.Runs > 0 {
		line("oldest run", "last sign of life %s", when(c.OldestNs))
	}
	line("files", "%d blobs, %s", s.Blobs.Files, bytesText(s.Blobs.Bytes))
	if st.SetAside > 0 {
		line("set aside", "%d files in %s", st.SetAside, filepath.Join(s.Data, storeFolder, "wal", "quarantine"))
	}
	for i, r := range st.Runs {
		if verified || i == shownRuns {
			break
		}
		line("run "+r.Run.String(), "%d points of %d series, %s", r.Points, r.Series, bytesText(r.Bytes))
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
			_, err = fmt.Fprintf(io.out, "%s are %s now\n", bytesText(done.Before), bytesText(done.After))
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
	bar := bytesBar(io, true, out.Before, "compact")
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go watchWriting(watched, f.store(), bar)
	if err = e.Flush(ctx); err == nil {
		err = e.Compact(ctx, true)
	}
	err = errors.Join(err, e.Close())
	_ = bar.Finish()
	out.After, out.Seconds = sizeOf(f.store()), time.Since(began).Seconds()
	return out, err
}

// watchWriting shows how far the new segment is.
func watchWriting(ctx context.Context, store string, bar *progressbar.ProgressBar) {
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
				_ = bar.Set64(min(info.Size(), bar.GetMax64()))
			}
		}
	}
}

// bytesBar shows a bar to a person, and nothing to a pipe.
func bytesBar(io stdio, show bool, total int64, what string) *progressbar.ProgressBar {
	if !show || !isTerminal(io.err) {
		return progressbar.DefaultSilent(max(total, 1))
	}
	return progressbar.NewOptions64(max(total, 1), progressbar.OptionSetWriter(io.err), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
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

func bytesText(n int64) string {
	if n < 1<<20 {
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}
