package tables

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// A run that the catalog had lost goes through these states; only the first two
// are of this file's making:
//
//	Recover                    settle                         describeWriter
//	recovered/recovered/ULID ─▶ the project and name of an ─▶ each writer, as its own
//	status lost, no job         open by one of its writers     open says
//
// A recovered run belongs to no job: its orchestration_id is empty, which no open
// makes. The open that moves it to its place gives it one. Its points never move:
// they are the store's, by the run's id.

// recoveredText describes a recovered run until it is moved.
const recoveredText = "The catalog had lost this run; its points were still in the store. Its name, attributes, tags and events are not known."

// Recover implements [catalog.Opener].
func (d *DB) Recover(ctx context.Context, kept iter.Seq[model.KeptRun], now time.Time) (back []model.RunID, err error) {
	// The engine's come first: a run reaches the catalog before the engine.
	all := slices.Collect(kept)
	known, err := Collect(ctx, d.reader, scanRunID, `SELECT id FROM ids`)
	if err != nil {
		return nil, d.failure("compare with the store", err)
	}
	lost := missing(all, known)
	if len(lost) == 0 {
		return nil, nil
	}
	err = d.write(ctx, "recover runs", func(tx Tx) error {
		back = back[:0]
		for i := range lost {
			if err := recoverRun(ctx, tx, &lost[i], now.UnixNano()); err != nil {
				return err
			}
			back = append(back, lost[i].ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return back, nil
}

// missing are the runs that no known id means, by rising id.
func missing(kept []model.KeptRun, known []model.RunID) (lost []model.KeptRun) {
	ids := make(map[model.RunID]bool, len(known))
	for _, id := range known {
		ids[id] = true
	}
	for _, k := range kept {
		if !ids[k.ID] {
			lost = append(lost, k)
		}
	}
	slices.SortFunc(lost, func(a, b model.KeptRun) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return lost
}

func recoverRun(ctx context.Context, tx Tx, k *model.KeptRun, nowNs int64) error {
	k.Attempts = wholeAttempts(k, nowNs)
	project, err := projectID(ctx, tx, catalog.Recovered, catalog.Recovered)
	if err != nil {
		return err
	}
	name, err := freeName(ctx, tx, project, k.ID.String())
	if err != nil {
		return err
	}
	first, last := k.Attempts[0], k.Attempts[0]
	for _, a := range k.Attempts {
		if a.OpenedNs < first.OpenedNs {
			first = a
		}
		if a.Precedence >= last.Precedence {
			last = a
		}
	}
	var pk int64
	err = tx.QueryRowContext(ctx, `INSERT INTO runs (id, project, name, description, status, created_ns, last_ns, seen_ns, attempt, orchestration_id, writers)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, '', ?9) RETURNING pk`,
		k.ID[:], project, name, recoveredText, model.StatusLost, first.OpenedNs, last.OpenedNs, last.Number, len(k.Writers)).Scan(&pk)
	if err != nil {
		return err
	}
	if err := Exec(ctx, tx, `INSERT INTO ids (id, run) VALUES (?, ?) ON CONFLICT DO NOTHING`, k.ID[:], k.ID[:]); err != nil {
		return err
	}
	return recoverParts(ctx, tx, k, pk, nowNs)
}

func recoverParts(ctx context.Context, tx Tx, k *model.KeptRun, pk, nowNs int64) error {
	opened := map[uint32]int64{}
	for _, a := range k.Attempts {
		opened[a.Number] = a.OpenedNs
		err := Exec(ctx, tx, `INSERT INTO attempts (run, number, precedence, opened_ns, resume_from, orchestration_id) VALUES (?, ?, ?, ?, ?, '')`,
			pk, a.Number, a.Precedence, a.OpenedNs, a.ResumeFrom)
		if err != nil {
			return err
		}
	}
	for _, w := range k.Writers {
		// Silent, so that a sign of life opens it again.
		err := Exec(ctx, tx, `INSERT INTO writers (id, run, attempt, state, expired, host, pid, hotkey, sdk, logger_id, opened_ns, seen_ns)
			VALUES (?1, ?2, ?3, ?4, 1, '', 0, '', '', ?5, ?6, ?6) ON CONFLICT DO NOTHING`,
			w.ID[:], k.ID[:], w.Attempt, model.WriterGone, signed(w.LoggerID), opened[w.Attempt])
		if err != nil {
			return err
		}
	}
	c := &change{tx: tx, pk: pk, run: k.ID, nowNs: nowNs}
	if err := c.addEvent(ctx, &model.Update{Path: "recovered", Text: recoveredText}); err != nil {
		return err
	}
	if err := refreshRun(ctx, tx, pk, 0); err != nil {
		return err
	}
	// Its latest attempt may have no writer that is known.
	return Exec(ctx, tx, `UPDATE runs SET status = ? WHERE pk = ?`, model.StatusLost, pk)
}

// wholeAttempts adds the attempts that writers name and damage took.
func wholeAttempts(k *model.KeptRun, nowNs int64) []model.Attempt {
	out := slices.Clone(k.Attempts)
	has := func(n uint32) bool {
		return slices.ContainsFunc(out, func(a model.Attempt) bool { return a.Number == n })
	}
	for _, w := range k.Writers {
		if !has(w.Attempt) {
			out = append(out, model.Attempt{Number: w.Attempt, Precedence: nowNs + int64(w.Attempt), OpenedNs: nowNs})
		}
	}
	if len(out) == 0 {
		out = append(out, model.Attempt{Number: 1, Precedence: nowNs, OpenedNs: nowNs})
	}
	return out
}

// Nameless implements [catalog.Opener].
func (d *DB) Nameless(ctx context.Context) (n int, err error) {
	err = d.reader.row(ctx, `SELECT count(*) FROM runs r JOIN projects p ON p.id = r.project
		WHERE p.workspace = ?1 AND p.name = ?1 AND r.deleted_ns = 0 AND r.orchestration_id = '' AND r.display_name = ''`, catalog.Recovered)(&n)
	return n, d.failure("count the recovered runs", err)
}

// settle moves a recovered run to where the open says it belongs. Another run
// may have its name by now: then it is linked, as offline ones are.
func (o *opening) settle(ctx context.Context, run *runRow) error {
	if !run.nameless {
		return nil
	}
	project, err := o.project(ctx)
	if err != nil {
		return err
	}
	if run.name, err = freeName(ctx, o.tx, project, o.r.RunName); err != nil {
		return err
	}
	run.project, run.nameless = project, false
	linked := ""
	if run.name != o.r.RunName {
		linked = o.r.RunName
	}
	err = Exec(ctx, o.tx, `UPDATE runs SET project = ?2, name = ?3, orchestration_id = ?4, parent_run = ?5, fork_step = ?6, linked_from = ?7,
		display_name = CASE display_name WHEN '' THEN ?8 ELSE display_name END,
		description = CASE description WHEN ?9 THEN '' ELSE description END WHERE pk = ?1`,
		run.pk, project, run.name, o.r.OrchestrationID, o.r.ForkFromRun, o.r.ForkAtStep, linked, o.r.DisplayName, recoveredText)
	if err != nil {
		return err
	}
	if err := Exec(ctx, o.tx, `UPDATE attempts SET orchestration_id = ? WHERE run = ? AND orchestration_id = ''`, o.r.OrchestrationID, run.pk); err != nil {
		return err
	}
	for _, asked := range []string{run.name, o.r.RunName} {
		if err := Exec(ctx, o.tx, `INSERT INTO identities (project, name, orchestration_id, run) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			project, asked, o.r.OrchestrationID, run.id[:]); err != nil {
			return err
		}
	}
	return o.initialise(ctx, run)
}

// describeWriter fills in what a recovered writer's open says of it.
func (o *opening) describeWriter(ctx context.Context) error {
	return Exec(ctx, o.tx, `UPDATE writers SET host = ?2, pid = ?3, rank = ?4, hotkey = ?5, sdk = ?6, opened_ns = ?7, initial = ?8 WHERE id = ?1 AND sdk = '' AND host = ''`,
		o.r.Writer[:], o.r.Host, o.r.PID, o.r.Rank, o.r.Hotkey, o.r.SDK, o.openedNs, o.heard)
}
