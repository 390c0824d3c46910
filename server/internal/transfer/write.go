package transfer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/importer"
)

const (
	// updatesBytes bounds one record of updates; a record holds 1 MiB.
	updatesBytes = 256 << 10
	blockRows    = 32 << 10
)

// request opens the run. A repeated import has the job of the first, so it is a
// new attempt of it, and the source's logger, so it overwrites one that was
// killed. A first one has a job of its own: a run that was deleted for good may
// be imported again.
func (w *Import) request(project string, found importer.Found, run *importer.Run, there *known) (model.OpenRequest, error) {
	sum := sha256.Sum256([]byte(w.Source + "\x00" + found.Key))
	logger, now := binary.LittleEndian.Uint64(sum[:]), time.Now()
	r := model.OpenRequest{
		Workspace: w.Workspace, Project: project, RunName: found.Name, DisplayName: run.DisplayName, Experiment: run.Experiment,
		ResumeStrategy: model.ResumeNever, LoggerID: &logger, PID: int64(os.Getpid()), OpenedNs: now.UnixNano(), SDK: "import/" + w.Process.Version,
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
	if run.ForkFrom != "" {
		r.ForkFromRun, r.ForkAtStep = run.ForkFrom, &run.ForkAt
	}
	r.OrchestrationID = "import/" + w.Source + "/" + r.LocalRun.String()
	if run.StartedNs > 0 {
		r.OpenedNs = run.StartedNs // the run is as old as it was
	}
	return r, nil
}

func (w *Import) write(project string, found importer.Found, run *importer.Run, digest string, there *known) (id string, err error) {
	if w.folder == nil {
		if w.folder, err = newImportSpool(w.Server.Base); err != nil {
			return "", err
		}
	}
	request, err := w.request(project, found, run, there)
	if err != nil {
		return "", err
	}
	out, err := spool.Create(w.folder.Folder, w.Server.Base, request, spool.WriterOptions{Cap: math.MaxInt64})
	if err != nil {
		return "", err
	}
	err = errors.Join(w.fill(out, found, run, digest), out.Sync())
	lost, closeErr := out.Close()
	if err := errors.Join(err, closeErr); err != nil {
		return "", err
	}
	if n := lost.Points + lost.Dropped; n > 0 {
		return "", model.Errorf(model.CodeDiskFull, "%d points did not fit into %s", n, w.folder.Path).WithHint("set TMPDIR to a larger disk")
	}
	return request.LocalRun.String(), nil
}

func (w *Import) fill(out *spool.Writer, found importer.Found, run *importer.Run, digest string) error {
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

func (w *Import) updates(found importer.Found, run *importer.Run) []model.Update {
	attributes := maps.Clone(run.Attributes)
	attributes[attributeSource] = model.StringValue(w.Source)
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
