package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/importer"
)

// The states of a run of an import.
const (
	stateImported  = "imported"
	stateUpdated   = "updated"   // its source changed since the last import
	stateUnchanged = "unchanged" // it was imported before
	stateFailed    = "failed"
	stateLeft      = "left out"
)

const csvHelp = `Read CSV files, separated by commas, semicolons, tabs or bars. Where no comma separates,
it may be the decimal point. NA, null, None and the like are no values. The first line
names the columns; what each row is follows from it:

  a step          a column is a metric, numbers or texts; empty cells are no points
  a value         columns metric and value (and step, time_ns, labels, kind), as
                  kymogram export --format csv writes them, or attribute_path,
                  attribute_type and float_value, …, as Neptune's exporter does
  a run           W&B's table of runs, MLflow's search_runs, Neptune's table of runs:
                  state, created, runtime, tags, notes and texts become those of the
                  run, numbers its metrics, params.…, config/… its configuration
  runs side by    W&B's export of a chart: columns "RUN - METRIC" with
  side            "RUN - METRIC__MIN" and "…__MAX"

Times are dates, Unix seconds, ms, µs or ns (told by their size), or relative:
seconds below 3 years, or 1:02:03.5; an empty one is that of the row before. A run's
duration is that of its times.`

// importFlags are the flags of every `kymogram import SOURCE`.
type importFlags struct {
	connection
	workspace, project, run string
	start                   string
	dryRun                  bool
	options                 importer.Options
}

// importReport is what import --json prints.
type importReport struct {
	Source  string        `json:"source"`
	DryRun  bool          `json:"dry_run"`
	Runs    []importedRun `json:"runs"`
	Points  uint64        `json:"points"`
	Refused uint64        `json:"points_refused"`
}

// importedRun says what became of one run.
type importedRun struct {
	Run     string            `json:"run"` // workspace/project/name
	ID      string            `json:"id,omitempty"`
	Key     string            `json:"key"`
	State   string            `json:"state"`
	Series  int               `json:"series"`
	Points  uint64            `json:"points"`
	Skipped map[string]uint64 `json:"skipped,omitempty"`
	Damage  []importer.Damage `json:"damage,omitempty"`
	Error   string            `json:"error,omitempty"`
}

func importCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import runs of TensorBoard, W&B, MLflow or CSV",
		Long: `Read what another tracker left on disk and send it to the server: numbers, texts
and histograms with their steps and times, configuration, tags and names.

An import may be repeated: a run that did not change is passed over, one that
grew becomes a new attempt whose points replace the old ones. Damaged parts of
files are named and counted, and the rest is imported.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("import what? see kymogram import --help")
		},
	}
	about := map[string][2]string{
		"tensorboard": {
			"Import TensorBoard's event files; every folder of them is a run",
			"  kymogram import tensorboard runs/ --project digits\n  kymogram import tensorboard runs/lr-3 --run lr-3 --dry-run",
		},
		"wandb-offline": {
			"Import run-ID.wandb files of W&B, offline or not",
			"  kymogram import wandb-offline wandb/ --project digits\n  kymogram import wandb-offline wandb/offline-run-20260102_030405-abc --run baseline",
		},
		"mlflow": {
			"Import an MLflow file store (mlruns) or SQLite store (mlflow.db)",
			"  kymogram import mlflow mlruns --project digits\n  kymogram import mlflow mlflow.db --project digits --json",
		},
		"csv": {
			"Import CSV files of loggers, and exports of W&B, MLflow, Neptune and Kymogram",
			"  kymogram import csv progress.csv --project digits --run lr-3\n" +
				"  kymogram import csv log.csv --step-column iter --time-column elapsed --start 2026-01-02T03:04:05Z\n" +
				"  kymogram import csv wandb_export.csv --config-column lr,batch_size   # its table of runs, or a chart\n" +
				"  kymogram import csv runs.csv --run-column trial --dry-run",
		},
	}
	for _, source := range importer.Sources() {
		cmd.AddCommand(importSourceCommand(io, source, about[source.Name]))
	}
	return cmd
}

func importSourceCommand(io stdio, source importer.Source, about [2]string) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: source.Name + " PATH…", Short: about[0], Example: about[1], Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			return f.importAll(cmd.Context(), io, source, paths)
		},
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.Lookup("json").Usage = "print a JSON object"
	flags.StringVar(&f.workspace, "workspace", "", "where the runs go (default KYMOGRAM_WORKSPACE, else default)")
	flags.StringVar(&f.project, "project", "", "where the runs go (default KYMOGRAM_PROJECT, else default)")
	flags.StringVar(&f.run, "run", "", "name of the run, when there is one only (default its name in the source)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read everything, send nothing")
	if source.Name == "csv" {
		cmd.Long = csvHelp
		flags.StringVar(&f.options.CSV.Step, "step-column", "", "the column of the step (default step, global_step, iteration, epoch, …, else the row's number)")
		flags.StringVar(&f.options.CSV.Time, "time-column", "", "the column of the time (default timestamp, time, elapsed, …, else when the file was written)")
		flags.StringVar(&f.options.CSV.Run, "run-column", "", "the column of the run's name: each is a run (default run_id, run, sys/id, …, else the file is one run)")
		flags.StringSliceVar(&f.options.CSV.Config, "config-column", nil, "columns of the configuration, besides config/…, params.…, parameters/…")
		flags.StringVar(&f.start, "start", "", "when relative times begin (default they end when the file was written)")
	}
	return cmd
}

func (f *importFlags) importAll(ctx context.Context, io stdio, source importer.Source, paths []string) error {
	f.workspace = first(f.workspace, io.env("KYMOGRAM_WORKSPACE"), "default")
	f.project = first(f.project, io.env("KYMOGRAM_PROJECT"), "default")
	if err := model.CheckPlace(f.workspace, f.project); err != nil {
		return usageError{err}
	}
	if f.start != "" {
		when, err := time.Parse(time.RFC3339, f.start)
		if err != nil {
			return usagef("--start %q is no time such as 2026-01-02T03:04:05Z", f.start)
		}
		f.options.CSV.Start = when
	}
	var bar *progressbar.ProgressBar
	f.options.Progress = func(bytes int) {
		if bar != nil {
			_ = bar.Add(bytes)
		}
	}
	found, err := f.find(ctx, source, paths)
	if err != nil {
		return err
	}
	server, err := f.dial(io)
	if err != nil {
		return err
	}
	work := &importing{flags: f, io: io, source: source.Name, server: server, report: importReport{Source: source.Name, DryRun: f.dryRun, Runs: []importedRun{}}}
	defer work.close()
	if !f.dryRun {
		if err := work.resume(ctx); err != nil {
			return err
		}
	}
	var each int
	bar, each = importBar(io, found)
	for _, one := range found {
		if err := work.run(ctx, one); err != nil {
			return err
		}
		_ = bar.Add(each)
	}
	_ = bar.Finish()
	if err := work.deliver(ctx); err != nil {
		return err
	}
	return work.report.print(io, f.json)
}

// importBar shows a person how much is read, and how long it will take: by bytes,
// or where these are not known by runs, each so much.
func importBar(io stdio, found []importer.Found) (bar *progressbar.ProgressBar, each int) {
	total := int64(0)
	for _, one := range found {
		total += one.Bytes
	}
	options := []progressbar.Option{progressbar.OptionSetWriter(io.err), progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish()}
	switch {
	case !isTerminal(io.err):
		return progressbar.DefaultSilent(max(total, 1)), 0
	case total > 0:
		return progressbar.NewOptions64(total, append(options, progressbar.OptionSetDescription("reading"), progressbar.OptionShowBytes(true))...), 0
	default: // a database, or many small files
		return progressbar.NewOptions(len(found), append(options, progressbar.OptionSetDescription("runs"), progressbar.OptionShowCount())...), 1
	}
}

// find lists the runs of all paths, each with a name of its own.
func (f *importFlags) find(ctx context.Context, source importer.Source, paths []string) ([]importer.Found, error) {
	var all []importer.Found
	for _, path := range paths {
		found, err := source.Find(ctx, path, f.options)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, model.Errorf(model.CodeNotFound, "there is no run of %s in %s", source.Name, path).
				WithHint("see kymogram import %s --help for what it reads", source.Name)
		}
		all = append(all, found...)
	}
	if f.run != "" {
		wanted := slices.DeleteFunc(all, func(one importer.Found) bool { return one.Left != "" })
		if len(wanted) != 1 {
			return nil, usagef("--run names one run, and there are %d", len(wanted))
		}
		all = wanted
		all[0].Name = f.run
	}
	names := map[string]string{}
	for i := range all {
		one := &all[i]
		if err := model.CheckRunName(one.Name); err != nil && f.run != "" {
			return nil, usageError{err}
		}
		one.Name = importer.CleanRunName(one.Name)
		if one.Left != "" {
			continue
		}
		if other, taken := names[one.Name]; taken {
			return nil, model.Errorf(model.CodeConflict, "two runs are called %q (%s and %s)", one.Name, other, one.Key).
				WithHint("import the folder above both, or one after the other with --run")
		}
		names[one.Name] = one.Key
	}
	return all, nil
}

// known is a run that the server has under the name that an import wants.
type known struct{ id, job, source, key, digest string }

// existing looks a run up; nil when there is none.
func (c *client) existing(ctx context.Context, ref string) (*known, error) {
	id, err := c.runID(ctx, ref)
	if model.CodeOf(err) == model.CodeNotFound {
		return nil, nil //nolint:nilnil // no run is no error
	}
	if err != nil {
		return nil, err
	}
	body, err := c.document(ctx, http.MethodGet, runPath(id), nil)
	if err != nil {
		return nil, err
	}
	var doc struct {
		OrchestrationID string `json:"orchestration_id"`
		Attributes      []struct {
			Path  string          `json:"path"`
			Value json.RawMessage `json:"value"`
		} `json:"attributes"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("read the run %s: %w", ref, err)
	}
	out := &known{id: id, job: doc.OrchestrationID}
	for _, a := range doc.Attributes {
		switch a.Path {
		case attributeSource:
			out.source = compact(a.Value)
		case attributeKey:
			out.key = compact(a.Value)
		case attributeDigest:
			out.digest = compact(a.Value)
		}
	}
	return out, nil
}

var errNotAll = errors.New("not every run was imported")

func (r *importReport) print(io stdio, asJSON bool) error {
	failed := slices.ContainsFunc(r.Runs, func(one importedRun) bool { return one.State == stateFailed })
	if asJSON {
		if err := printJSON(io.out, r); err != nil {
			return err
		}
	} else {
		r.table(io)
	}
	if failed || r.Refused > 0 {
		return errNotAll
	}
	return nil
}

func (r *importReport) table(io stdio) {
	for _, one := range r.Runs {
		verb := one.State
		if verb == stateLeft {
			fmt.Fprintf(io.err, "%s: %s, %s\n", printable(one.Run), verb, one.Error)
			continue
		}
		if r.DryRun && verb != stateFailed && verb != stateUnchanged {
			verb = "would be " + verb
		}
		fmt.Fprintf(io.out, "%s: %s, %d series, %d points\n", printable(one.Run), verb, one.Series, one.Points)
		if one.Error != "" {
			fmt.Fprintf(io.err, "  %s\n", printable(one.Error))
		}
		for _, why := range slices.Sorted(maps.Keys(one.Skipped)) {
			fmt.Fprintf(io.err, "  not imported: %d %s\n", one.Skipped[why], printable(why))
		}
		for _, d := range one.Damage {
			fmt.Fprintf(io.err, "  damaged: %s%s: %s\n", printable(d.File), at(d.Offset), printable(d.Text))
		}
	}
	if r.Refused > 0 {
		fmt.Fprintf(io.err, "the server refused %d points\n", r.Refused)
	}
}

func at(offset int64) string {
	if offset < 0 {
		return ""
	}
	return fmt.Sprintf(" at byte %d", offset)
}

// ref is workspace/project/name.
func (f *importFlags) ref(name string) string {
	return strings.Join([]string{f.workspace, f.project, name}, "/")
}
