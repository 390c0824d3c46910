package tables

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// seeWriter records a sign of life; a writer that was only thought gone because
// it was silent is open again.
func seeWriter(ctx context.Context, tx Tx, w model.WriterID, ns int64) error {
	return Exec(ctx, tx, `UPDATE writers SET seen_ns = `+greater("seen_ns", "?1")+`,
		state = CASE WHEN expired = 1 AND ?1 > seen_ns THEN 'open' ELSE state END,
		expired = CASE WHEN ?1 > seen_ns THEN 0 ELSE expired END
		WHERE id = ?2`, ns, w[:])
}

// Seen implements [catalog.Liveness].
func (d *DB) Seen(ctx context.Context, seen map[model.WriterID]time.Time) (revived []model.RunChange, err error) {
	writers := slices.SortedFunc(maps.Keys(seen), func(a, b model.WriterID) int { return bytes.Compare(a[:], b[:]) })
	for some := range slices.Chunk(writers, seenAtOnce) {
		var back []model.RunChange
		err := d.write(ctx, "record last activity", func(tx Tx) (err error) {
			back, err = seeAll(ctx, tx, some, seen)
			return err
		})
		if err != nil {
			return revived, err
		}
		revived = append(revived, back...)
	}
	return revived, nil
}

// seenAtOnce bounds a transaction of [DB.Seen]: a long one meets others that write to its runs.
const seenAtOnce = 200

func seeAll(ctx context.Context, tx Tx, writers []model.WriterID, seen map[model.WriterID]time.Time) (revived []model.RunChange, err error) {
	for _, w := range writers {
		ns := seen[w].UnixNano()
		run, err := expiredIn(ctx, tx, w, ns)
		if err != nil {
			return nil, err
		}
		if err := seeWriter(ctx, tx, w, ns); err != nil {
			return nil, err
		}
		if err := seeRun(ctx, tx, w, ns, len(run) > 0); err != nil {
			return nil, err
		}
		revived = append(revived, run...)
	}
	return revived, nil
}

// expiredIn is the run of a writer that a sign of life at ns opens again; none
// when it is open or was ended.
func expiredIn(ctx context.Context, tx Tx, w model.WriterID, ns int64) ([]model.RunChange, error) {
	return Collect(ctx, tx, scanChange, `SELECT r.id, p.workspace, p.name
		FROM writers w JOIN runs r ON r.id = w.run JOIN projects p ON p.id = r.project
		WHERE w.id = ? AND w.expired = 1 AND w.seen_ns < ?`, w[:], ns)
}

func seeRun(ctx context.Context, tx Tx, w model.WriterID, ns int64, revived bool) error {
	err := Exec(ctx, tx, `UPDATE runs SET seen_ns = `+greater("seen_ns", "?1")+`, last_ns = CASE status WHEN ?2 THEN `+greater("last_ns", "?1")+` ELSE last_ns END
		WHERE id = (SELECT run FROM writers WHERE id = ?3)`, ns, model.StatusRunning, w[:])
	if err != nil || !revived {
		return err
	}
	return deriveRun(ctx, tx, `id = (SELECT run FROM writers WHERE id = ?)`, w[:])
}

// Expire implements [catalog.Liveness].
func (d *DB) Expire(ctx context.Context, before time.Time) (lost []model.RunChange, err error) {
	err = d.write(ctx, "expire silent writers", func(tx Tx) error {
		lost, err = Collect(ctx, tx, scanChange, `SELECT DISTINCT r.id, p.workspace, p.name
			FROM writers w JOIN runs r ON r.id = w.run JOIN projects p ON p.id = r.project
			WHERE w.state = 'open' AND w.seen_ns < ?`, before.UnixNano())
		if err != nil || len(lost) == 0 {
			return err
		}
		err = Exec(ctx, tx, `UPDATE writers SET state = 'gone', expired = 1 WHERE state = 'open' AND seen_ns < ?`, before.UnixNano())
		if err != nil {
			return err
		}
		for _, run := range lost {
			if err := deriveRun(ctx, tx, `id = ?`, run.Run[:]); err != nil {
				return err
			}
		}
		return nil
	})
	return lost, err
}

func scanChange(rows *sql.Rows) (c model.RunChange, err error) {
	var id []byte
	err = rows.Scan(&id, &c.Workspace, &c.Project)
	copy(c.Run[:], id)
	return c, err
}

// noObserver leaves out writers that only watch the machine, closes those that
// cannot end.
const (
	noObserver = `sdk NOT LIKE '` + model.ObserverSDK + `%'`
	closes     = `sdk NOT LIKE '` + model.ReceiverSDK + `%'`
	decides    = `sdk NOT LIKE '` + model.WorkerSDK + `%'` // in an index, word for word
)

// statusOf derives a run's status from its writers (model.RunStatus), as an
// expression over the row of runs.
const statusOf = `CASE
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.state = 'open' AND w.` + noObserver + `) THEN 'running'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'failed' AND w.` + decides + ` AND w.` + noObserver + `) THEN 'failed'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'gone' AND w.` + decides + ` AND w.` + closes + ` AND w.` + noObserver + `) THEN 'lost'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'gone' AND w.` + decides + ` AND w.` + noObserver + `) THEN 'silent'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'interrupted' AND w.` + decides + ` AND w.` + noObserver + `) THEN 'interrupted'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.` + decides + ` AND w.` + noObserver + `) THEN 'finished'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'failed' AND w.` + noObserver + `) THEN 'failed'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'gone' AND w.` + noObserver + `) THEN 'lost'
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.attempt = runs.attempt AND w.state = 'interrupted' AND w.` + noObserver + `) THEN 'interrupted'
	ELSE 'finished' END`

// lastOf derives a run's last time: a sign of life, as is seen, while a writer is open, else
// the latest end of its writers, which those that closed named themselves.
func lastOf(seen string) string {
	return `CASE
	WHEN EXISTS (SELECT 1 FROM writers w WHERE w.run = runs.id AND w.state = 'open' AND w.` + noObserver + `) THEN ` + seen + `
	ELSE coalesce((SELECT max(CASE w.ended_ns WHEN 0 THEN w.seen_ns ELSE w.ended_ns END) FROM writers w WHERE w.run = runs.id AND w.state <> 'open' AND w.` + noObserver + `), ` + seen + `) END`
}

// deriveRun renews what a run's row keeps of its writers.
func deriveRun(ctx context.Context, tx Tx, which string, arg any) error {
	return Exec(ctx, tx, `UPDATE runs SET status = `+statusOf+`, last_ns = `+lastOf(`seen_ns`)+` WHERE `+which, arg)
}

// refreshRun renews what a run's row keeps of its other tables, in one change of the row:
// it is in the index of each order.
func refreshRun(ctx context.Context, tx Tx, pk, nowNs int64) error {
	var name, display string
	tags := []string{}
	_, err := Collect(ctx, tx, func(rows *sql.Rows) (none struct{}, err error) {
		var tag *string
		if err = rows.Scan(&name, &display, &tag); err == nil && tag != nil {
			tags = append(tags, *tag)
		}
		return none, err
	}, `SELECT r.name, r.display_name, t.tag FROM runs r LEFT JOIN tags t ON t.run = r.pk WHERE r.pk = ? ORDER BY t.tag`, pk)
	if err != nil {
		return err
	}
	list, err := json.Marshal(tags)
	if err != nil {
		return err
	}
	search := searchText(append([]string{name, display}, tags...)...)
	seen := greater("seen_ns", "?3")
	return Exec(ctx, tx, `UPDATE runs SET tags = ?1, search = ?2, seen_ns = `+seen+`, status = `+statusOf+`, last_ns = `+lastOf(seen)+` WHERE pk = ?4`, string(list), search, nowNs, pk)
}

// searchText is what searches of runs look at. No word of a query holds a line feed, so it
// keeps the parts apart. It is in the indexes of the orders, where all that a search passes
// is read: so it has only the beginning.
func searchText(parts ...string) string {
	return beginning(strings.ToLower(strings.Join(parts, "\n")), searchBytes)
}
