package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/importer"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/transfer"
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

func importCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import runs of TensorBoard, W&B, MLflow or CSV",
		Long: `Read what another tracker left on disk and send it to the server: numbers, texts
and histograms with their steps and times, configuration, tags and names.

An import may be repeated: a run that did not change is passed over, one that
grew becomes a new attempt whose points replace the old ones. Damaged parts of
files are named and counted, and the rest is imported.`,
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
		Use: source.Name + " PATH…", Short: about[0], Example: about[1],
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
	f.workspace = cmp.Or(f.workspace, io.env("KYMOGRAM_WORKSPACE"), "default")
	f.project = cmp.Or(f.project, io.env("KYMOGRAM_PROJECT"), "default")
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
	var bar progress.Bar
	f.options.Progress = func(bytes int) {
		if bar.ProgressBar != nil {
			bar.Done(int64(bytes))
		}
	}
	found, err := transfer.Find(ctx, source, paths, f.run, f.options)
	if name := (transfer.NameError{}); errors.As(err, &name) {
		return usageError{err}
	} else if err != nil {
		return err
	}
	server, err := f.dial(io)
	if err != nil {
		return err
	}
	work := &transfer.Import{
		Server: server, Process: io.delivery(), Source: source.Name, Workspace: f.workspace, Project: f.project, DryRun: f.dryRun,
		Report: transfer.Report{Source: source.Name, DryRun: f.dryRun, Runs: []transfer.Run{}},
	}
	defer work.Close()
	if !f.dryRun {
		if err := work.Resume(ctx); err != nil {
			return err
		}
	}
	var each int64
	bar, each = importBar(io, found)
	for _, one := range found {
		if err := work.Run(ctx, one); err != nil {
			return err
		}
		bar.Done(each)
	}
	bar.End()
	if err := work.Deliver(ctx); err != nil {
		return err
	}
	if f.json {
		err = printJSON(io.out, &work.Report)
	} else {
		work.Report.Print(io.out, io.err)
	}
	return cmp.Or(err, work.Report.Err())
}

// importBar shows a person how much is read, and how long it will take: by bytes,
// or where these are not known by runs, each so much.
func importBar(io stdio, found []importer.Found) (bar progress.Bar, each int64) {
	total := int64(0)
	for _, one := range found {
		total += one.Bytes
	}
	if total > 0 {
		return progress.Bytes(io.err, total, "reading"), 0
	}
	return progress.Count(io.err, int64(len(found)), "runs"), 1 // a database, or many small files
}
