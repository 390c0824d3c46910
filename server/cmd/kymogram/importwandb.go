package main

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/migration"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

const wandbServer = "https://api.wandb.ai"

// wandbFlags are the flags of `kymogram import wandb`.
type wandbFlags struct {
	connection
	source, keyFile string
	project, entity string
	to              string
	runs            []string
	filter          string
	files, dryRun   bool
}

func importWandbCommand(io stdio) *cobra.Command {
	var f wandbFlags
	cmd := &cobra.Command{
		Use: "wandb", Short: "Import runs from a W&B server",
		Long: `Copy runs from a W&B server: each row of the history, system metrics, configuration,
summary, tags, notes, names, state and times, and with --files the files of the runs.
A copied run looks as if its program had logged here, also to the public API of W&B's SDK.

The import may be stopped at any time and run again: it resumes where it stopped. Runs
that did not change are passed over, and a run that still grows gets its new rows.
A run of the same name that came from elsewhere is never touched.

W&B's key is the one of --key-file, else WANDB_API_KEY, else the server's in ~/.netrc.
Artifacts and console output are not copied; output.log is one of the files.`,
		Example: `  kymogram import wandb --project my-team/digits --dry-run      what would come
  kymogram import wandb --project my-team/digits --files
  kymogram import wandb --project my-team/digits --to lab/digits --run 3x1a2b4c
  kymogram import wandb --project my-team/digits --filter '{"state": "finished", "config.lr": {"$lt": 0.1}}'
  kymogram import wandb --entity my-team                         all of its projects
  kymogram import wandb --server https://wandb.example.com --project my-team/digits --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.copy(cmd.Context(), io) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "server", "", "address of the W&B server (default WANDB_BASE_URL, else "+wandbServer+")")
	flags.StringVar(&f.keyFile, "key-file", "", "file with the key of the W&B server (default WANDB_API_KEY, else ~/.netrc)")
	flags.StringVar(&f.project, "project", "", "what to copy: ENTITY/PROJECT")
	flags.StringVar(&f.entity, "entity", "", "copy all projects of this entity")
	flags.StringVar(&f.to, "to", "", "where the runs go: WORKSPACE/PROJECT, or WORKSPACE with --entity (default the names of the source)")
	flags.StringSliceVar(&f.runs, "run", nil, "ids of the runs (default all)")
	flags.StringVar(&f.filter, "filter", "", "W&B's filter of runs, a JSON object (default all)")
	flags.BoolVar(&f.files, "files", false, "copy the files of the runs, too")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list what would be copied, copy nothing")
	flags.StringVar(&f.connection.server, "kymogram", "", "address of the Kymogram server (default KYMOGRAM_SERVER, else "+defaultServer+")")
	flags.StringVar(&f.key, "key", "", "API key of the Kymogram server (default KYMOGRAM_API_KEY, else the one in credentials.json)")
	flags.BoolVar(&f.json, "json", false, "print a JSON object")
	return cmd
}

func (f *wandbFlags) copy(ctx context.Context, io stdio) error {
	if err := f.check(); err != nil {
		return err
	}
	base, err := f.base(io)
	if err != nil {
		return err
	}
	server, err := f.dial(io)
	if err != nil {
		return err
	}
	own, err := url.Parse(server.Base)
	if err != nil {
		return err
	}
	key, from, err := migration.Key(io.env, f.keyFile, base)
	if err != nil {
		return usageError{err}
	}
	shown := migration.NewProgress(io.err)
	source := &migration.Source{Client: migration.NewClient(base, "the W&B server at "+base.String(), key, from, shown.Tell)}
	pairs, left, err := f.pairs(ctx, source)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		if base.Host == own.Host && pair.From == pair.To {
			return usagef("%s is the source and the destination: name another W&B server with --server, or another project with --to", pair.From)
		}
	}
	work := &migration.Work{
		Source: source,
		Target: &migration.Target{Client: migration.NewClient(own, "the Kymogram server at "+server.Base, server.Key, "KYMOGRAM_API_KEY, --key or credentials.json", shown.Tell)},
		Origin: base.String(), Names: f.runs, Filter: cmp.Or(f.filter, "{}"), Files: f.files, DryRun: f.dryRun, Left: left,
	}
	err = work.All(ctx, pairs, shown)
	if f.json {
		err = cmp.Or(err, printJSON(io.out, &work.Report))
	} else {
		work.Report.Print(io.out, io.err)
	}
	return cmp.Or(err, work.Report.Err())
}

// check refuses flags that do not go together.
func (f *wandbFlags) check() error {
	switch {
	case (f.project == "") == (f.entity == ""):
		return usagef("import what? --project ENTITY/PROJECT, or --entity ENTITY for all of its projects")
	case f.project != "" && (strings.Count(f.project, "/") != 1 || strings.HasPrefix(f.project, "/") || strings.HasSuffix(f.project, "/")):
		return usagef("--project %q is no ENTITY/PROJECT", f.project)
	case f.entity != "" && len(f.runs) > 0:
		return usagef("--run names runs of a project: give --project, too")
	case f.filter != "" && len(f.runs) > 0:
		return usagef("give --run or --filter, not both")
	case slices.Contains(f.runs, ""):
		return usagef("--run names no run")
	}
	if f.filter == "" {
		return nil
	}
	if err := migration.CheckFilter(f.filter); err != nil {
		return usageError{err}
	}
	return nil
}

// base is the address of the W&B server. The address of W&B's pages stands for its API.
func (f *wandbFlags) base(io stdio) (*url.URL, error) {
	text := cmp.Or(f.source, io.env("WANDB_BASE_URL"), wandbServer)
	base, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, usagef("%q is no address of a W&B server such as %s", text, wandbServer)
	}
	if host := base.Hostname(); host == "wandb.ai" || host == "www.wandb.ai" || host == "app.wandb.ai" {
		return url.Parse(wandbServer)
	}
	return base, nil
}

// pairs says which project goes where. Of an entity's projects those are left whose names
// Kymogram does not take.
func (f *wandbFlags) pairs(ctx context.Context, source *migration.Source) (pairs []migration.Pair, left []migration.Run, err error) {
	workspace, project, _ := strings.Cut(f.to, "/")
	from := []migration.Place{}
	if f.entity != "" {
		if project != "" {
			return nil, nil, usagef("--to %q names a project, and --entity copies several: give the workspace alone", f.to)
		}
		names, err := source.Projects(ctx, f.entity)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range names {
			from = append(from, migration.Place{Entity: f.entity, Project: name})
		}
	} else {
		entity, name, _ := strings.Cut(f.project, "/")
		from = append(from, migration.Place{Entity: entity, Project: name})
	}
	for _, at := range from {
		pair := migration.Pair{From: at, To: migration.Place{Entity: cmp.Or(workspace, at.Entity), Project: cmp.Or(project, at.Project)}}
		err := model.CheckPlace(pair.To.Entity, pair.To.Project)
		switch {
		case err == nil:
			pairs = append(pairs, pair)
		case f.entity == "":
			return nil, nil, usageError{model.Errorf(model.CodeInvalid, "%s cannot keep its name: %v", at, err).WithHint("choose another with --to")}
		default:
			left = append(left, migration.Run{
				Run: pair.To.String(), Key: at.String(), State: transfer.LeftOut,
				Error: err.Error() + "; import it alone with --project and --to",
			})
		}
	}
	return pairs, left, nil
}
