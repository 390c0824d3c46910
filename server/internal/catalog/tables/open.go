package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// opening is one Open in its transaction.
type opening struct {
	tx       Tx
	r        model.OpenRequest
	now      time.Time
	openedNs int64 // when the client opened, never after now
	heard    bool  // the run takes what init said of it
	before   situation
}

// runRow is what an open needs of a run.
type runRow struct {
	pk        int64
	id        model.RunID
	project   int64
	name      string
	createdNs int64
	deletedNs int64
	job       string // orchestration id
	nameless  bool   // recovered, see recover.go
	created   bool   // by this open
	whole     bool   // its row says already what follows from its writer
}

// Open implements [catalog.Opener].
func (d *DB) Open(ctx context.Context, r model.OpenRequest, now time.Time) (*catalog.Opened, error) {
	r, err := normalised(r)
	if err != nil {
		return nil, err
	}
	openedNs := now.UnixNano()
	if r.OpenedNs > 0 && r.OpenedNs < openedNs {
		openedNs = r.OpenedNs
	}
	var opened *catalog.Opened
	err = d.write(ctx, "open a run", func(tx Tx) error {
		o := &opening{tx: tx, r: r, now: now, openedNs: openedNs}
		opened, err = o.do(context.WithoutCancel(ctx)) // begun, it ends: a watch over each statement costs more than many of them
		return err
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// normalised checks a request and fills what a client may leave out.
func normalised(r model.OpenRequest) (model.OpenRequest, error) {
	if r.Writer.IsZero() {
		return r, model.Errorf(model.CodeInvalid, "the open has no writer id").WithHint("A writer id is 32 hex characters of randomness.")
	}
	if err := model.CheckPlace(r.Workspace, r.Project); err != nil {
		return r, err
	}
	if err := model.CheckRunName(r.RunName); err != nil {
		return r, err
	}
	switch r.ResumeStrategy {
	case "":
		r.ResumeStrategy = model.ResumeNever
	case model.ResumeNever, model.ResumeAllow:
	default:
		return r, model.Errorf(model.CodeInvalid, "the resume strategy %q is not known", model.Clip(string(r.ResumeStrategy))).
			WithHint("It is never or allow.")
	}
	if r.OrchestrationID == "" {
		// Without a job to belong to, a writer is a job of its own.
		r.OrchestrationID = r.Writer.String()
	}
	return r, nil
}

func (o *opening) do(ctx context.Context) (*catalog.Opened, error) {
	var err error
	if o.before, err = readSituation(ctx, o.tx, &o.r); err != nil {
		return nil, err
	}
	if known := o.before.ofWriter; known != nil {
		return o.again(ctx, known, o.before.attempt)
	}
	if o.before.opened { // its run is gone
		return nil, errDeleted(o.r.RunName)
	}
	run := o.before.recovered
	if run != nil {
		err = o.settle(ctx, run)
	} else {
		run, err = o.findOrMake(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := addAlias(ctx, o.tx, o.r.LocalRun, run.id); err != nil {
		return nil, err
	}
	if err := o.endWriters(ctx, run); err != nil {
		return nil, err
	}
	if err := o.decideFork(ctx, run); err != nil {
		return nil, err
	}
	if err := o.mergeConfig(ctx, run); err != nil {
		return nil, err
	}
	a, err := o.resolveAttempt(ctx, run)
	if err != nil {
		return nil, err
	}
	if err := o.addWriter(ctx, run, a.Number); err != nil {
		return nil, err
	}
	if !run.whole {
		if err := refreshRun(ctx, o.tx, run.pk, o.now.UnixNano()); err != nil {
			return nil, err
		}
	}
	return o.result(run, a), nil
}

// endWriters takes the word of the client for writers of its folder whose
// processes are over. A close that is delivered later still wins.
func (o *opening) endWriters(ctx context.Context, run *runRow) error {
	for _, w := range o.r.Ended {
		_, err := o.tx.ExecContext(ctx, `UPDATE writers SET state = ?, expired = 0 WHERE id = ? AND run = ? AND state = ?`,
			model.WriterGone, w[:], run.id[:], model.WriterOpen)
		if err != nil {
			return fmt.Errorf("end writer %s: %w", w, err)
		}
	}
	return nil
}

func (o *opening) result(run *runRow, a model.Attempt) *catalog.Opened {
	out := &catalog.Opened{AttemptInfo: a, Deleted: run.deletedNs > 0, OpenResult: model.OpenResult{
		Run: run.id, Workspace: o.r.Workspace, Project: o.r.Project, RunName: run.name, Attempt: a.Number,
		Created: run.created, CreatedNs: run.createdNs, OrchestrationID: o.r.OrchestrationID,
	}}
	if run.name != o.r.RunName {
		out.LinkedFrom = o.r.RunName
	}
	return out
}

func errDeleted(name string) *model.Error {
	return model.Errorf(model.CodeRunDeleted, "the run %q was deleted", model.Clip(name)).
		WithHint("Restore it within 7 days, or log into a run with another name.")
}

// again answers the repeated open of a writer; it is also a sign of life.
func (o *opening) again(ctx context.Context, run *runRow, attempt uint32) (*catalog.Opened, error) {
	if err := o.settle(ctx, run); err != nil {
		return nil, err
	}
	var same bool
	err := o.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM projects WHERE id = ? AND workspace = ? AND name = ?)`,
		run.project, o.r.Workspace, o.r.Project).Scan(&same)
	if err != nil {
		return nil, err
	}
	if !same {
		// Rights were checked for the project that the request names.
		return nil, model.Errorf(model.CodeConflict, "the writer %s belongs to another project", o.r.Writer)
	}
	if err := o.describeWriter(ctx); err != nil {
		return nil, err
	}
	if err := seeWriter(ctx, o.tx, o.r.Writer, o.now.UnixNano()); err != nil {
		return nil, err
	}
	a, err := readAttempt(ctx, o.tx, run.pk, attempt)
	if err != nil {
		return nil, err
	}
	if err := refreshRun(ctx, o.tx, run.pk, o.now.UnixNano()); err != nil {
		return nil, err
	}
	return o.result(run, a), nil
}

// findOrMake finds the run by (project, name, orchestration id), then by name
// where the strategy lets it join, else makes one.
func (o *opening) findOrMake(ctx context.Context) (*runRow, error) {
	project, err := o.project(ctx)
	if err != nil {
		return nil, err
	}
	run, err := o.ownRun()
	if run != nil || err != nil {
		return run, err
	}
	taken := o.before.ofName
	switch {
	case taken == nil:
		return o.makeRun(ctx, project, o.r.RunName)
	case taken.deletedNs == 0 && o.r.ResumeStrategy == model.ResumeAllow:
		return taken, o.putIdentity(ctx, project, o.r.RunName, taken.id)
	case o.r.Offline:
		name, err := freeName(ctx, o.tx, project, o.r.RunName)
		if err != nil {
			return nil, err
		}
		return o.makeRun(ctx, project, name)
	}
	return nil, o.errTaken(taken)
}

// errTaken names both jobs: two starts of one job whose ids differ are a common
// mistake, and seen at once.
func (o *opening) errTaken(run *runRow) error {
	since := time.Unix(0, run.createdNs).UTC().Format(time.DateTime)
	e := model.Errorf(model.CodeRunExists, "the run %q of %s/%s exists since %s UTC and belongs to the job %q, this is the job %q",
		run.name, o.r.Workspace, o.r.Project, since, model.Clip(run.job), model.Clip(o.r.OrchestrationID))
	if run.deletedNs > 0 {
		return e.WithHint("It is in the trash: free it with `kymogram runs delete --now %s`, or choose another name.", run.id)
	}
	return e.WithHint("Choose another run_name, or join it with resume_strategy=allow.")
}

// project finds or makes the request's project.
func (o *opening) project(ctx context.Context) (int64, error) {
	if o.before.project != 0 {
		return o.before.project, nil
	}
	return projectID(ctx, o.tx, o.r.Workspace, o.r.Project)
}

func projectID(ctx context.Context, tx Tx, workspace, name string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT id FROM projects WHERE workspace = ? AND name = ?`, workspace, name).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO projects (workspace, name) VALUES (?, ?) RETURNING id`, workspace, name).Scan(&id)
	return id, err
}

// ownRun is the run that the request's orchestration already has under this
// name, nil when there is none.
func (o *opening) ownRun() (*runRow, error) {
	s := &o.before
	switch {
	case !s.identity, s.purgedNs > 0 && o.openedNs > s.purgedNs:
		return nil, nil
	case s.purgedNs > 0: // a spool from before the deletion: its points are late, not a new run
		return nil, errDeleted(o.r.RunName)
	case s.own != nil && s.own.deletedNs > 0:
		return nil, errDeleted(o.r.RunName)
	}
	return s.own, nil
}

func (o *opening) putIdentity(ctx context.Context, project int64, name string, run model.RunID) error {
	return Exec(ctx, o.tx, `INSERT INTO identities (project, name, orchestration_id, run) VALUES (?, ?, ?, ?)
		ON CONFLICT (project, name, orchestration_id) DO UPDATE SET run = excluded.run, purged_ns = 0`, project, name, o.r.OrchestrationID, run[:])
}

func (o *opening) makeRun(ctx context.Context, project int64, name string) (*runRow, error) {
	id := o.r.LocalRun // the one that its client made, when nobody has it
	if id.IsZero() || o.before.idTaken {
		id = newRunID(o.now)
	}
	run := &runRow{id: id, project: project, name: name, createdNs: o.openedNs, created: true}
	linked := ""
	if name != o.r.RunName {
		linked = o.r.RunName
	}
	err := o.tx.QueryRowContext(ctx, `INSERT INTO runs (id, project, name, display_name, status, created_ns, last_ns, seen_ns, attempt, orchestration_id, parent_run, fork_step, linked_from, writers, search)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1, ?8, ?9, ?10, ?11, 1, ?12) RETURNING pk`,
		id[:], project, name, o.r.DisplayName, model.StatusRunning, o.openedNs, o.now.UnixNano(), o.r.OrchestrationID, o.r.ForkFromRun, o.r.ForkAtStep, linked, searchText(name, o.r.DisplayName)).Scan(&run.pk)
	if err != nil {
		return nil, err
	}
	if err := Exec(ctx, o.tx, `INSERT INTO ids (id, run) VALUES (?, ?)`, id[:], id[:]); err != nil {
		return nil, err
	}
	if err := o.putIdentity(ctx, project, name, id); err != nil {
		return nil, err
	}
	if linked != "" {
		if err := o.putIdentity(ctx, project, linked, id); err != nil {
			return nil, err
		}
	}
	return run, o.initialise(ctx, run)
}

// initialise applies what only the creating open says of a run.
func (o *opening) initialise(ctx context.Context, run *runRow) error {
	if err := o.tie(ctx, run); err != nil {
		return err
	}
	updates := o.r.Initial
	if o.r.Experiment != "" {
		updates = append([]model.Update{{Op: model.OpSetAttribute, Path: "sys/experiment", Value: model.StringValue(o.r.Experiment)}}, updates...)
	}
	o.heard = true
	// What is left to follow from a writer that is open and no observer is in the row.
	run.whole = run.created && len(updates) == 0 && !model.IsObserver(o.sdk())
	c := &change{tx: o.tx, pk: run.pk, run: run.id, writer: o.r.Writer, nowNs: o.now.UnixNano()}
	return c.applyAll(ctx, updates)
}

func (o *opening) addWriter(ctx context.Context, run *runRow, attempt uint32) error {
	err := Exec(ctx, o.tx, `INSERT INTO writers (id, run, attempt, state, host, pid, rank, hotkey, sdk, logger_id, opened_ns, seen_ns, initial)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		o.r.Writer[:], run.id[:], attempt, model.WriterOpen, o.r.Host, o.r.PID, o.r.Rank, o.r.Hotkey, o.sdk(), signed(o.r.LoggerID), o.openedNs, o.now.UnixNano(), o.heard)
	if err != nil || run.created { // with one writer
		return err
	}
	return Exec(ctx, o.tx, `UPDATE runs SET writers = writers + 1 WHERE pk = ?`, run.pk)
}

// sdk is what the writer calls itself, and whether it is a worker.
func (o *opening) sdk() string {
	if o.r.ParentAttempt == nil || model.IsObserver(o.r.SDK) {
		return o.r.SDK
	}
	return model.WorkerSDK + o.r.SDK
}

// signed is the same 64 bits: SQLite has no unsigned integers.
func signed(id *uint64) *int64 {
	if id == nil {
		return nil
	}
	v := int64(*id)
	return &v
}
