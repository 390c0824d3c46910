package main

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/importer"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

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
		Short: "Import runs of TensorBoard, W&B, MLflow, Neptune, CSV or Parquet",
		Long: `Read what another tracker left on disk and send it to the server. Configuration, tags
and names are kept, and numbers, texts and histograms with their steps and times.
kymogram import wandb reads from a W&B server instead.

An import may be repeated. A run that did not change is passed over. One that grew
becomes a new attempt whose points replace the old ones. Damaged parts of files are
named and counted, and the rest is imported. The path - of import csv and import parquet
is the standard input.`,
		RunE: func(*cobra.Command, []string) error {
			return usagef("import what? see kymogram import --help")
		},
	}
	examples := map[string]string{
		"tensorboard":   "  kymogram import tensorboard runs/ --project digits\n  kymogram import tensorboard runs/lr-3 --run lr-3 --dry-run",
		"wandb-offline": "  kymogram import wandb-offline wandb/ --project digits\n  kymogram import wandb-offline wandb/offline-run-20260102_030405-abc --run baseline",
		"mlflow":        "  kymogram import mlflow mlruns --project digits\n  kymogram import mlflow mlflow.db --project digits --json",
		"csv": "  kymogram import csv progress.csv --project digits --run lr-3\n" +
			"  kymogram import csv log.csv --step-column iter --time-column elapsed --start 2026-01-02T03:04:05Z\n" +
			"  kymogram import csv wandb_export.csv --config-column lr,batch_size   # its table of runs, or a chart\n" +
			"  kymogram import csv runs.csv --run-column trial --dry-run\n" +
			"  ssh gpu1 cat progress.csv | kymogram import csv - --project digits --run lr-3",
		"parquet": "  kymogram import parquet log.parquet --project digits --run lr-3\n  kymogram import parquet runs.parquet --run-column trial --dry-run",
		"neptune": "  kymogram import neptune exports --dry-run\n  kymogram import neptune exports/data --files-path exports/files --project digits",
	}
	cmd.AddCommand(importWandbCommand(io)) // importwandb.go
	for _, source := range importer.Sources() {
		cmd.AddCommand(importSourceCommand(io, source, examples[source.Name]))
	}
	return cmd
}

func importSourceCommand(io stdio, source importer.Source, example string) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: source.Name + " PATH…", Short: "Import " + source.About, Long: source.Help, Example: example,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return f.importAll(cmd.Context(), io, source, paths)
		},
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.Lookup("json").Usage = "print a JSON object"
	flags.StringVar(&f.workspace, "workspace", "", "where the runs go (default KYMOGRAM_WORKSPACE, else default)")
	flags.StringVar(&f.project, "project", "", "where the runs go (default KYMOGRAM_PROJECT, else the project or experiment of the source, else default)")
	flags.StringVar(&f.run, "run", "", "name of the run, when there is one only (default its name in the source)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read everything, send nothing")
	if source.Name == "neptune" {
		flags.StringVar(&f.options.Files, "files-path", "", "the folder with the files of runs (default: the folder files next to data)")
	}
	if source.Name == "csv" || source.Name == "parquet" {
		flags.StringVar(&f.options.CSV.Step, "step-column", "", "the column of the step (default step, global_step, iteration, epoch, …, else the row's number)")
		flags.StringVar(&f.options.CSV.Time, "time-column", "", "the column of the time (default timestamp, time, elapsed, …, else when the file was written)")
		flags.StringVar(&f.options.CSV.Run, "run-column", "", "the column of the run's name: each is a run (default run_id, run, sys/id, …, else the file is one run)")
		flags.StringSliceVar(&f.options.CSV.Config, "config-column", nil, "columns of the configuration, in addition to config/…, params.…, parameters/…")
		flags.StringVar(&f.start, "start", "", "when relative times begin (default they end when the file was written)")
	}
	return cmd
}

// ofStdin calls the file that holds the standard input so.
func ofStdin(err error) error {
	e := model.Shown(err)
	if e == nil {
		return err
	}
	out := *e
	out.Message = spoolPath.ReplaceAllString(out.Message, "standard input")
	return &out
}

// spoolPath is that of a file of [transfer.Spooled].
var spoolPath = regexp.MustCompile(`\S*/kymogram-stdin-\d+/` + transfer.Stdin)

// spooled are paths in which - is a file that holds the standard input.
func spooled(ctx context.Context, io stdio, source string, paths []string) (out []string, remove func(), err error) {
	remove = func() {}
	at := slices.Index(paths, "-")
	if at < 0 {
		return paths, remove, nil
	}
	if source != "csv" && source != "parquet" {
		return nil, nil, usagef("- is the standard input, which import csv and import parquet read; import %s reads files and folders (a file of that name is ./-)", source)
	}
	if slices.Contains(paths[at+1:], "-") {
		return nil, nil, usagef("- is the standard input: give it once")
	}
	out = slices.Clone(paths)
	out[at], remove, err = transfer.Spooled(ctx, io.in)
	return out, remove, err
}

func (f *importFlags) importAll(ctx context.Context, io stdio, source importer.Source, paths []string) error {
	f.workspace = cmp.Or(f.workspace, io.env("KYMOGRAM_WORKSPACE"), "default")
	f.project = cmp.Or(f.project, io.env("KYMOGRAM_PROJECT"))
	if err := model.CheckPlace(f.workspace, cmp.Or(f.project, "default")); err != nil {
		return usageError{err}
	}
	if f.start != "" {
		when, err := time.Parse(time.RFC3339, f.start)
		if err != nil {
			return usagef("--start %q is no time such as 2026-01-02T03:04:05Z", f.start)
		}
		f.options.CSV.Start = when
	}
	paths, remove, err := spooled(ctx, io, source.Name, paths)
	if err != nil {
		return err
	}
	defer remove()
	found, err := transfer.Find(ctx, source, paths, f.run, f.options)
	if name := (transfer.NameError{}); errors.As(err, &name) {
		return usageError{err}
	} else if err != nil {
		return ofStdin(err)
	}
	for _, one := range found.Runs {
		if one.Key == transfer.Stdin && f.run == "" {
			return usagef("the standard input has no name: give --run NAME")
		}
	}
	server, err := f.dial(io)
	if err != nil {
		return err
	}
	work := &transfer.Import{
		Server: server, Process: io.delivery(), Source: source.Name, Workspace: f.workspace, Project: f.project, DryRun: f.dryRun,
	}
	defer work.Close()
	if err := work.All(ctx, found); err != nil {
		return err
	}
	if f.json {
		err = printJSON(io.out, &work.Report)
	} else {
		work.Report.Print(io.out, io.err)
	}
	return cmp.Or(err, work.Report.Err())
}
