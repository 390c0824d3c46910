package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/delivery"
	"github.com/kymogram/kymogram/server/internal/importer"
	"github.com/kymogram/kymogram/server/internal/table"
)

// By these attributes a later import knows a run again. The digest is written
// last: a run of an import that was killed has none.
const (
	attributeSource  = "import/source"
	attributeKey     = "import/key"
	attributeDigest  = "import/digest"
	attributeStarted = "import/started"
	attributeEnded   = "import/ended"
)

// importBatch points, or importRuns runs, wait in the spool for a delivery.
const (
	importBatch = 2_000_000
	importRuns  = 64
)

// manyPoints of one run are announced before they are sent: a small file may hold them.
const manyPoints = 1_000_000

// Import is an import at work. Points go through a spool of its own, so the
// delivery is the one of every other program.
type Import struct {
	Server             *remote.Client
	Process            delivery.Process
	Source             string // its name
	Workspace, Project string // no project: that of the source, else default
	DryRun             bool   // read everything, send nothing
	Report             Report

	folder  *importSpool                 // nil until needed
	runs    int                          // in the folder
	waiting uint64                       // points in the folder
	byKey   map[string]map[string]string // by project: runs of this source by their keys
	uploads []upload
	taken   map[string]string // names of runs that wait in the folder, and their keys
}

// Close removes the spool, or says what waits in it for the next import.
func (w *Import) Close() {
	if w.folder == nil {
		return
	}
	switch left, err := w.folder.close(); {
	case err != nil:
		fmt.Fprintf(w.Process.Err, "remove the spool of the import: %s\n", table.Printable(err.Error()))
	case left.Writers > 0:
		fmt.Fprintf(w.Process.Err, "%s wait in %s; the next import to this server sends them\n", left, w.folder.Path)
	}
}

// All imports what was found, after what earlier imports left.
func (w *Import) All(ctx context.Context, found *Found) error {
	w.Report = Report{Source: w.Source, DryRun: w.DryRun, Runs: []Run{}}
	if !w.DryRun {
		if err := w.Resume(ctx); err != nil {
			return err
		}
	}
	each := found.show(w.Process.Err)
	for _, one := range found.Runs {
		if err := w.Run(ctx, one); err != nil {
			return err
		}
		found.bar.Done(each)
	}
	found.bar.End()
	if err := w.Deliver(ctx); err != nil {
		return err
	}
	return w.uploadAll(ctx)
}

// Run reads one run and writes it into the spool; a run that cannot be read or
// taken is reported and passed over.
func (w *Import) Run(ctx context.Context, found importer.Found) error {
	project := w.project(found)
	line := Run{Run: w.ref(project, found.Name), Key: found.Key, State: Failed}
	if found.Left != "" {
		line.State, line.Error = LeftOut, found.Left
		w.Report.Runs = append(w.Report.Runs, line)
		return nil
	}
	err := w.one(ctx, project, found, &line)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	if code := model.CodeOf(err); code == model.CodeUnavailable || code == model.CodeUnauthenticated || code == model.CodePermission {
		return err // as it would be for every other run
	}
	if err != nil {
		line.State, line.Error = Failed, withHint(err)
	}
	w.Report.Runs = append(w.Report.Runs, line)
	w.Report.Points += line.Points
	if w.waiting >= importBatch || w.runs >= importRuns {
		return w.Deliver(ctx)
	}
	return nil
}

func withHint(err error) string {
	var e *model.Error
	if errors.As(err, &e) && e.Hint != "" {
		return e.Message + ": " + e.Hint
	}
	return err.Error()
}

func (w *Import) one(ctx context.Context, project string, found importer.Found, line *Run) (err error) {
	run, err := found.Read(ctx)
	if err != nil {
		return err
	}
	line.Skipped, line.Damage = run.Skipped, run.Damage
	line.Series = len(run.Series)
	if len(run.Files) > 0 && !w.DryRun {
		defer func() {
			if err == nil {
				w.uploads = append(w.uploads, upload{len(w.Report.Runs), run.Files})
			}
		}()
	}
	digest := run.Digest()
	there, err := w.find(ctx, project, &found)
	line.Run = w.ref(project, found.Name)
	if err != nil {
		return err
	}
	line.State = Imported
	if there != nil {
		line.ID, line.State = there.id, Updated
		if there.digest == digest {
			line.State = Unchanged
			return nil
		}
	}
	line.Points = run.Points()
	if w.DryRun {
		line.Files = len(run.Files)
		return nil
	}
	if line.Points >= manyPoints {
		fmt.Fprintf(w.Process.Err, "%s: %s points in %s series are sent\n", table.Printable(line.Run), table.Count(line.Points), table.Count(uint64(line.Series)))
	}
	id, err := w.write(project, found, run, digest, there)
	if err != nil {
		return err
	}
	line.ID = cmp.Or(line.ID, id)
	w.taken[line.Run] = found.Key
	w.runs++
	w.waiting += line.Points
	return nil
}

// project is where a run goes.
func (w *Import) project(found importer.Found) string {
	return cmp.Or(w.Project, importer.CleanProject(found.Project), "default")
}

// find looks for the run that an earlier import made, by the key that its tracker gave it,
// else by its names. A new run whose name another one has gets a name of its own where its
// tracker tells them apart.
func (w *Import) find(ctx context.Context, project string, found *importer.Found) (*known, error) {
	if w.byKey == nil {
		w.byKey, w.taken = map[string]map[string]string{}, map[string]string{}
	}
	if found.ByKey {
		if w.byKey[project] == nil {
			runs, err := imports(ctx, w.Server, w.Workspace, project, w.Source)
			if err != nil {
				return nil, err
			}
			w.byKey[project] = runs
		}
		if id := w.byKey[project][found.Key]; id != "" {
			there, err := existing(ctx, w.Server, id)
			if there != nil {
				found.Name = there.name
			}
			return there, err
		}
	}
	wanted := found.Name
	names := []string{wanted}
	if found.Also != "" {
		names = append(names, found.Also)
	} else if found.Short != "" {
		names = append(names, distinct(found))
	}
	free := ""
	for _, name := range names {
		ref := w.ref(project, name)
		there, err := existing(ctx, w.Server, ref)
		if err != nil {
			return nil, err
		}
		if there != nil && there.source == w.Source && there.key == found.Key {
			found.Name = name
			return there, nil
		}
		if other, waits := w.taken[ref]; there == nil && free == "" && (!waits || other == found.Key) && (name == wanted || found.Short != "") {
			free = name
		}
	}
	if free == "" {
		return nil, model.Errorf(model.CodeRunExists, "the run %s is there and does not come from this source", w.ref(project, wanted)).
			WithHint("import it under another name with --run, or into another --project")
	}
	found.Name = free
	return nil, nil //nolint:nilnil // no run is no error
}

// Deliver sends what lies in the spool.
func (w *Import) Deliver(ctx context.Context) error {
	if w.runs == 0 {
		return nil
	}
	before, err := delivery.LeftIn(w.folder.Folder)
	if err != nil {
		return err
	}
	totals, err := w.Process.Once(ctx, w.folder.Folder, w.Server.Base, w.Server.Key, before)
	if err != nil {
		return err
	}
	after, err := delivery.LeftIn(w.folder.Folder)
	if err != nil {
		return err
	}
	if after.Writers > 0 && ctx.Err() != nil {
		return ErrInterrupted
	}
	if after.Writers > 0 {
		return model.Errorf(model.CodeUnavailable, "%d points were not delivered: %s", after.Points, totals.Error).
			WithHint("run the import again; it goes on")
	}
	w.Report.Refused += totals.Refused
	w.runs, w.waiting = 0, 0
	return nil
}

// Resume delivers what earlier imports to this server left. What cannot be delivered
// stays, and keeps nothing back.
func (w *Import) Resume(ctx context.Context) error {
	paths, err := filepath.Glob(filepath.Join(os.TempDir(), importSpoolName(w.Server.Base)+"*"))
	if err != nil {
		return fmt.Errorf("look for the spools of earlier imports: %w", err)
	}
	for _, path := range paths {
		folder, err := openImportSpool(path)
		if err != nil || folder == nil {
			continue // of somebody else, or at work
		}
		w.folder, w.runs = folder, 1
		err = w.Deliver(ctx)
		if _, closing := folder.close(); err == nil {
			err = closing
		}
		w.folder, w.runs = nil, 0
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		if err != nil {
			fmt.Fprintf(w.Process.Err, "what an earlier import left in %s is not delivered: %s\n", path, table.Printable(withHint(err)))
		}
	}
	return nil
}

// ErrInterrupted is an import that its context ended; what it wrote is kept.
var ErrInterrupted = model.Errorf(model.CodeUnavailable, "interrupted").WithHint("run the import again; it goes on")

// ref is workspace/project/name.
func (w *Import) ref(project, name string) string {
	return strings.Join([]string{w.Workspace, project, name}, "/")
}
