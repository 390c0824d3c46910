package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/importer"
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

const (
	// importBatch points, or importRuns runs, wait in the spool for a delivery.
	importBatch = 2_000_000
	importRuns  = 64
	// updatesBytes bounds one record of updates; a record holds 1 MiB.
	updatesBytes = 256 << 10
	blockRows    = 32 << 10
)

// importing is an import at work. Points go through a spool of its own, so the
// delivery is the one of every other program.
type importing struct {
	flags  *importFlags
	io     stdio
	source string
	server *client
	report importReport

	folder  *importSpool // nil until needed
	runs    int          // in the folder
	waiting uint64       // points in the folder
}

func (w *importing) close() {
	if w.folder == nil {
		return
	}
	switch left, err := w.folder.close(); {
	case err != nil:
		fmt.Fprintf(w.io.err, "remove the spool of the import: %s\n", printable(err.Error()))
	case left.Writers > 0:
		fmt.Fprintf(w.io.err, "%s wait in %s; the next import to this server sends them\n", left, w.folder.Path)
	}
}

// run reads one run and writes it into the spool; a run that cannot be read or
// taken is reported and passed over.
func (w *importing) run(ctx context.Context, found importer.Found) error {
	line := importedRun{Run: w.flags.ref(found.Name), Key: found.Key, State: stateFailed}
	if found.Left != "" {
		line.State, line.Error = stateLeft, found.Left
		w.report.Runs = append(w.report.Runs, line)
		return nil
	}
	err := w.one(ctx, found, &line)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if code := model.CodeOf(err); code == model.CodeUnavailable || code == model.CodeUnauthenticated || code == model.CodePermission {
		return err // as it would be for every other run
	}
	if err != nil {
		line.State, line.Error = stateFailed, withHint(err)
	}
	w.report.Runs = append(w.report.Runs, line)
	w.report.Points += line.Points
	if w.waiting >= importBatch || w.runs >= importRuns {
		return w.deliver(ctx)
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

func (w *importing) one(ctx context.Context, found importer.Found, line *importedRun) error {
	run, err := found.Read(ctx)
	if err != nil {
		return err
	}
	line.Skipped, line.Damage = run.Skipped, run.Damage
	line.Series = len(run.Series)
	digest := run.Digest()
	there, err := w.server.existing(ctx, line.Run)
	if err != nil {
		return err
	}
	line.State = stateImported
	if there != nil {
		line.ID, line.State = there.id, stateUpdated
		if there.source != w.source || there.key != found.Key {
			return model.Errorf(model.CodeRunExists, "the run %s is there and does not come from this source", line.Run).
				WithHint("import it under another name with --run, or into another --project")
		}
		if there.digest == digest {
			line.State = stateUnchanged
			return nil
		}
	}
	line.Points = run.Points()
	if w.flags.dryRun {
		return nil
	}
	id, err := w.write(found, run, digest, there)
	if err != nil {
		return err
	}
	line.ID = first(line.ID, id)
	w.runs++
	w.waiting += line.Points
	return nil
}

// request opens the run. A repeated import has the job of the first, so it is a
// new attempt of it, and the source's logger, so it overwrites one that was
// killed. A first one has a job of its own: a run that was deleted for good may
// be imported again.
func (w *importing) request(found importer.Found, run *importer.Run, there *known) (model.OpenRequest, error) {
	sum := sha256.Sum256([]byte(w.source + "\x00" + found.Key))
	logger, now := binary.LittleEndian.Uint64(sum[:]), time.Now()
	r := model.OpenRequest{
		Workspace: w.flags.workspace, Project: w.flags.project, RunName: found.Name, DisplayName: run.DisplayName, Experiment: run.Experiment,
		ResumeStrategy: model.ResumeNever, LoggerID: &logger, PID: int64(os.Getpid()), OpenedNs: now.UnixNano(), SDK: "import/" + version,
	}
	var err error
	if r.Host, err = os.Hostname(); err != nil {
		r.Host = "unknown"
	}
	if _, err := rand.Read(r.Writer[:]); err != nil {
		return r, fmt.Errorf("make a writer: %w", err)
	}
	_, _ = rand.Read(r.LocalRun[6:]) // never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(r.LocalRun[:6], ms[2:])
	if there != nil {
		r.OrchestrationID = there.job
		return r, nil
	}
	r.OrchestrationID = "import/" + w.source + "/" + r.LocalRun.String()
	if run.StartedNs > 0 {
		r.OpenedNs = run.StartedNs // the run is as old as it was
	}
	return r, nil
}

func (w *importing) write(found importer.Found, run *importer.Run, digest string, there *known) (id string, err error) {
	if w.folder == nil {
		if w.folder, err = newImportSpool(w.server.base.String()); err != nil {
			return "", err
		}
	}
	request, err := w.request(found, run, there)
	if err != nil {
		return "", err
	}
	out, err := spool.Create(w.folder.Folder, w.server.base.String(), request, spool.WriterOptions{Cap: math.MaxInt64})
	if err != nil {
		return "", err
	}
	err = errors.Join(w.fill(out, found, run, digest), out.Sync())
	lost, closeErr := out.Close()
	if err := errors.Join(err, closeErr); err != nil {
		return "", err
	}
	if n := lost.Points + lost.Dropped; n > 0 {
		return "", model.Errorf(model.CodeDiskFull, "%d points found no room in %s", n, w.folder.Path).WithHint("set TMPDIR to a larger disk")
	}
	return request.LocalRun.String(), nil
}

func (w *importing) fill(out *spool.Writer, found importer.Found, run *importer.Run, digest string) error {
	if err := appendUpdates(out, w.updates(found, run)); err != nil {
		return err
	}
	for _, s := range run.Series {
		if err := appendSeries(out, s); err != nil {
			return fmt.Errorf("write %s: %w", s.Key.Metric, err)
		}
	}
	status := string(model.StatusFinished)
	if run.Failed {
		status = string(model.StatusFailed)
	}
	now := time.Now().UnixNano()
	ended := run.EndedNs // the run is as long as it was
	if ended == 0 {
		ended = now
	}
	return out.Updates([]model.Update{
		{Op: model.OpSetAttribute, TimeNs: now, Path: attributeDigest, Value: model.StringValue(digest)},
		{Op: model.OpClose, TimeNs: ended, Text: status},
	})
}

func (w *importing) updates(found importer.Found, run *importer.Run) []model.Update {
	attributes := maps.Clone(run.Attributes)
	attributes[attributeSource] = model.StringValue(w.source)
	attributes[attributeKey] = model.StringValue(found.Key)
	if run.StartedNs > 0 {
		attributes[attributeStarted] = model.TimeValue(run.StartedNs)
	}
	if run.EndedNs > 0 {
		attributes[attributeEnded] = model.TimeValue(run.EndedNs)
	}
	var out []model.Update
	for _, path := range slices.Sorted(maps.Keys(attributes)) {
		out = append(out, model.Update{Op: model.OpSetAttribute, Path: path, Value: attributes[path]})
	}
	if len(run.Tags) > 0 {
		out = append(out, model.Update{Op: model.OpSetTags, Tags: run.Tags})
	}
	if run.Description != "" {
		out = append(out, model.Update{Op: model.OpSetDescription, Text: run.Description})
	}
	for i := range out {
		out[i].TimeNs = time.Now().UnixNano()
	}
	return out
}

// appendUpdates writes updates in records that are small enough.
func appendUpdates(out *spool.Writer, updates []model.Update) error {
	from, size := 0, 0
	for i, u := range updates {
		length := 256 + len(u.Path) + len(u.Text)
		if u.Value != nil {
			length += 6 * len(u.Value.Str) // JSON may escape each byte
		}
		if size += length; size > updatesBytes && i > from {
			if err := out.Updates(updates[from:i]); err != nil {
				return err
			}
			from, size = i, length
		}
	}
	if from == len(updates) {
		return nil
	}
	return out.Updates(updates[from:])
}

func appendSeries(out *spool.Writer, s *importer.Series) error {
	series, err := out.Series(s.Kind, s.Key)
	if err != nil {
		return err
	}
	if s.Docs != nil {
		for i, doc := range s.Docs {
			if err := out.Document(series, spool.FlagStep, s.Steps[i], s.TimeNs[i], doc); err != nil {
				return err
			}
		}
		return nil
	}
	for from := 0; from < len(s.Steps); from += blockRows {
		to := min(from+blockRows, len(s.Steps))
		block := &spool.Block{
			Kind: s.Kind, Rows: to - from, Series: []uint32{series.ID}, Values: bits(s, from, to),
			Time: spool.Column{Mode: spool.ModeExplicit, Values: s.TimeNs[from:to]},
			Axes: []spool.BlockAxis{{Axis: spool.AxisStep, Column: spool.Column{Mode: spool.ModeExplicit, Values: s.Steps[from:to]}}},
		}
		if err := out.Block([]*spool.Series{series}, block); err != nil {
			return err
		}
	}
	return nil
}

func bits(s *importer.Series, from, to int) []uint64 {
	values := make([]uint64, 0, to-from)
	if s.Kind == model.KindInt {
		for _, n := range s.Ints[from:to] {
			values = append(values, uint64(n))
		}
		return values
	}
	for _, f := range s.Floats[from:to] {
		values = append(values, math.Float64bits(f))
	}
	return values
}

// deliver sends what lies in the spool.
func (w *importing) deliver(ctx context.Context) error {
	if w.runs == 0 {
		return nil
	}
	before, err := leftIn(w.folder.Folder)
	if err != nil {
		return err
	}
	d := uplink.New(w.folder.Folder, uplink.Options{
		Kind: spool.KindSync, Version: version, Server: w.server.base.String(), Key: w.server.key, Once: true, Env: w.io.env,
		Log: slog.New(slog.NewTextHandler(w.io.err, &slog.HandlerOptions{Level: slog.LevelWarn})), MaxBackoff: 2 * time.Second,
	})
	totals, err := watch(ctx, w.io, d, before, true)
	if err != nil {
		return err
	}
	after, err := leftIn(w.folder.Folder)
	if err != nil {
		return err
	}
	if after.Writers > 0 && ctx.Err() != nil {
		return errInterrupted
	}
	if after.Writers > 0 {
		return model.Errorf(model.CodeUnavailable, "%d points were not delivered: %s", after.Points, totals.Error).
			WithHint("run the import again; it goes on")
	}
	w.report.Refused += totals.Refused
	w.runs, w.waiting = 0, 0
	return nil
}
