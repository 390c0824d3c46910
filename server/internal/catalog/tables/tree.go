package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

func (c *change) setTree(ctx context.Context, u *model.Update) error {
	if u.Text == "" {
		return Exec(ctx, c.tx, `DELETE FROM trees WHERE run = ? AND name = ?`, c.pk, u.Path)
	}
	return Exec(ctx, c.tx, `INSERT INTO trees (run, name, changed_ns, text, version) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (run, name) DO UPDATE SET changed_ns = excluded.changed_ns, text = excluded.text, version = excluded.version`, c.pk, u.Path, cmp.Or(u.TimeNs, c.nowNs), u.Text, rand.Int64())
}

func checkTreeNames(names []string) error {
	if len(names) > catalog.MaxTreeNames {
		return model.Errorf(model.CodeInvalid, "%d trees at once, at most %d", len(names), catalog.MaxTreeNames)
	}
	return nil
}

// Trees implements [catalog.Trees].
func (d *DB) Trees(ctx context.Context, run model.RunID, names ...string) (map[string]string, error) {
	if err := checkTreeNames(names); err != nil {
		return nil, err
	}
	pk, err := d.rowOf(ctx, run)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("encode names: %w", err)
	}
	out := make(map[string]string, len(names))
	_, err = Collect(ctx, d.reader, func(rows *sql.Rows) (none struct{}, err error) {
		var name, text string
		if err = rows.Scan(&name, &text); err == nil {
			out[name] = text
		}
		return none, err
	}, `SELECT name, text FROM trees WHERE run = ? AND name IN (SELECT value FROM json_each(?))`, pk, string(list))
	if err != nil {
		return nil, d.failure("read trees", err)
	}
	return out, nil
}

const (
	// treesPage is how many runs are read at a time: so long others wait for a turn.
	treesPage = 500
	// treesBytes ends a page of runs with their trees.
	treesBytes = 4 << 20
)

// RunsWithTrees implements [catalog.Trees].
func (d *DB) RunsWithTrees(ctx context.Context, q catalog.TreeQuery) iter.Seq2[catalog.RunTrees, error] {
	return func(yield func(catalog.RunTrees, error) bool) {
		if err := checkTreeNames(q.Names); err != nil {
			yield(catalog.RunTrees{}, err)
			return
		}
		if q.Newest && q.After == (catalog.RunPlace{}) {
			q.After = catalog.RunPlace{CreatedNs: math.MaxInt64, Number: math.MaxInt64}
		} else if q.After == (catalog.RunPlace{}) {
			q.After.CreatedNs = math.MinInt64
		}
		if q.IDs != nil && len(q.IDs) == 0 {
			return
		}
		r := &treeReader{query: d.treeQuery(&q), TreeQuery: q, space: make([]catalog.RunTrees, 0, treesPage)}
		for more := true; more; {
			var page []catalog.RunTrees
			var err error
			if page, more, err = r.page(ctx, d); err != nil {
				yield(catalog.RunTrees{}, d.failure("read runs with their trees", err))
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

// treeQuery is the query of a page; there are few of them, so that they are kept.
func (d *DB) treeQuery(q *catalog.TreeQuery) string {
	var columns, joins strings.Builder
	for i := range q.Names {
		n := strconv.Itoa(i)
		columns.WriteString(`, t` + n + `.rowid, t` + n + `.version`)
		joins.WriteString(` LEFT JOIN trees t` + n + ` INDEXED BY trees_version ON t` + n + `.run = r.pk AND t` + n + `.name = ?`)
	}
	const project = `r.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?) AND r.deleted_ns = 0`
	from := ` FROM runs r INDEXED BY runs_created` + joins.String() + ` WHERE ` + project
	switch {
	case q.IDs != nil: // json_each keeps the order of the list, and a cross join begins with what is left
		from = ` FROM json_each(?) j CROSS JOIN runs r ON r.id = unhex(j.value)` + joins.String() + ` WHERE ` + project + d.inOrder
	case q.Newest:
		from += ` AND (r.created_ns, r.pk) < (?, ?) ORDER BY r.created_ns DESC, r.pk DESC`
	default:
		from += ` AND (r.created_ns, r.pk) > (?, ?) ORDER BY r.created_ns, r.pk`
	}
	rest := `, r.description, r.tags, r.attempt, r.orchestration_id, r.parent_run, r.parent, r.fork_step, r.linked_from, r.writers`
	if q.Brief {
		rest = ``
	}
	return `SELECT r.pk, r.id, r.name, r.display_name, r.status, r.created_ns, r.last_ns` + rest + columns.String() + from + ` LIMIT ` + strconv.Itoa(treesPage) // with a variable, SQLite would parse the query anew for each page
}

type treeReader struct {
	catalog.TreeQuery
	query string
	space []catalog.RunTrees // of one page after the other
}

// treeRef is a text of a page that is still to be read.
type treeRef struct {
	run            int // its place in the page
	rowid, version int64
	into           *string
	note           **catalog.Note
}

// page reads the next runs, at least one where there is one. Runs and texts are of one moment.
func (r *treeReader) page(ctx context.Context, d *DB) (page []catalog.RunTrees, more bool, err error) {
	release, err := d.reader.turn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer release()
	tx, err := d.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback()
	page, asked, more, err := r.runs(ctx, d, tx)
	if err != nil {
		return nil, false, err
	}
	missing := d.trees.find(asked)
	done, err := r.texts(ctx, d, tx, missing)
	if err != nil {
		return nil, false, err
	}
	d.trees.keep(missing[:done])
	if done < len(missing) {
		page, more = page[:missing[done].run], true
	}
	if n := len(page); n > 0 {
		r.After = page[n-1].Place
		r.IDs = r.IDs[1+slices.Index(r.IDs, page[n-1].ID):]
	}
	return page, more, nil
}

// runs reads the runs of a page, with the places of their texts.
func (r *treeReader) runs(ctx context.Context, d *DB, tx *sql.Tx) (page []catalog.RunTrees, asked []treeRef, more bool, err error) {
	args, err := r.args()
	if err != nil {
		return nil, nil, false, err
	}
	query, err := d.reader.prepare(ctx, r.query)
	if err != nil {
		return nil, nil, false, err
	}
	rows, err := tx.StmtContext(ctx, query).QueryContext(ctx, args...) //nolint:sqlclosecheck // with the transaction
	if err != nil {
		return nil, nil, false, err
	}
	defer rows.Close()
	scan := r.scanner()
	page = r.space[:0]
	for bytes := 0; bytes < treesBytes && rows.Next(); {
		run, refs, err := scan(rows)
		if err != nil {
			return nil, nil, false, err
		}
		for i := range refs {
			refs[i].run = len(page)
		}
		page, asked = append(page, run), append(asked, refs...)
		bytes += len(run.Description)
		more = bytes >= treesBytes || len(page) == treesPage
	}
	return page, asked, more, rows.Err()
}

// args are those of [treeQuery].
func (r *treeReader) args() ([]any, error) {
	args := make([]any, 0, len(r.Names)+4)
	if r.IDs != nil {
		list := make([]string, len(r.IDs))
		for i := range r.IDs {
			list[i] = hex.EncodeToString(r.IDs[i][:])
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, fmt.Errorf("encode the ids of runs: %w", err)
		}
		args = append(args, string(text))
	}
	for _, name := range r.Names {
		args = append(args, name)
	}
	args = append(args, r.Workspace, r.Project)
	if r.IDs == nil {
		args = append(args, r.After.CreatedNs, r.After.Number)
	}
	return args, nil
}

// textsInOrder reads texts by their places, in the order of the list: json_each keeps it, and a
// cross join begins with what is left. To sort them SQLite would hold all.
const textsInOrder = `SELECT j.key, t.text FROM json_each(?) j CROSS JOIN trees t ON t.rowid = CAST(j.value AS BIGINT)`

// textsWithin is the same for a database that sends all rows of a query, whether they are read
// or not: it ends with the run that makes a page full. ?2 are the runs of the texts. The length of
// a text is known without reading it.
const textsWithin = `SELECT key, text FROM (SELECT key, text, min(before) OVER (PARTITION BY run) AS before FROM
	(SELECT j.key, t.text, g.value AS run, sum(octet_length(t.text)) OVER (ORDER BY j.key) - octet_length(t.text) AS before
	FROM json_each(?1) j JOIN json_each(?2) g ON g.key = j.key JOIN trees t ON t.rowid = CAST(j.value AS BIGINT)) x) y WHERE before < ?3 ORDER BY key`

// texts reads texts until a page has enough of them, those of its first run at least, and
// says how many.
func (r *treeReader) texts(ctx context.Context, d *DB, tx *sql.Tx, missing []treeRef) (done int, err error) {
	if len(missing) == 0 {
		return 0, nil
	}
	rowids, runs := make([]int64, len(missing)), make([]int, len(missing))
	for i := range missing {
		rowids[i], runs[i] = missing[i].rowid, missing[i].run
	}
	list, _ := json.Marshal(rowids) // integers always marshal
	text, args := textsInOrder, []any{string(list)}
	if d.inOrder != "" {
		list, _ := json.Marshal(runs)
		text, args = textsWithin, append(args, string(list), treesBytes)
	}
	query, err := d.reader.prepare(ctx, text)
	if err != nil {
		return 0, err
	}
	rows, err := tx.StmtContext(ctx, query).QueryContext(ctx, args...) //nolint:sqlclosecheck // with the transaction
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for bytes, key := 0, 0; rows.Next(); done++ {
		if bytes >= treesBytes && missing[done].run > 0 && missing[done].run != missing[done-1].run {
			return done, rows.Err()
		}
		if err := rows.Scan(&key, missing[done].into); err != nil {
			return 0, err
		}
		if key != done {
			return 0, fmt.Errorf("text %d of %d is not where it was", done, len(missing))
		}
		bytes += len(*missing[done].into)
	}
	ended := d.inOrder != "" && done > 0 && done < len(missing) && missing[done].run != missing[done-1].run
	if err := rows.Err(); err != nil || done == len(missing) || ended {
		return done, err
	}
	return 0, fmt.Errorf("%d of %d texts are where they were", done, len(missing))
}

// scanner reads rows of [treeQuery].
func (r *treeReader) scanner() func(rows *sql.Rows) (run catalog.RunTrees, refs []treeRef, err error) {
	var id, parent, tags sql.RawBytes
	var run catalog.RunTrees
	into := []any{&run.Place.Number, &id, &run.Name, &run.DisplayName, &run.Status, &run.CreatedNs, &run.LastNs}
	if !r.Brief {
		into = append(into, &run.Description, &tags, &run.Attempt, &run.OrchestrationID, &run.ParentRun, &parent, &run.ForkStep, &run.LinkedFrom, &run.Writers)
	}
	places := make([]struct{ rowid, version sql.NullInt64 }, len(r.Names))
	for i := range places {
		into = append(into, &places[i].rowid, &places[i].version)
	}
	refs := make([]treeRef, 0, len(r.Names))
	texts, notes := make([]string, treesPage*len(places)), make([]*catalog.Note, treesPage*len(places))
	return func(rows *sql.Rows) (catalog.RunTrees, []treeRef, error) {
		run = catalog.RunTrees{Run: catalog.Run{Workspace: r.Workspace, Project: r.Project}}
		if err := rows.Scan(into...); err != nil {
			return run, nil, err
		}
		copy(run.ID[:], id)
		copy(run.Parent[:], parent)
		run.Place.CreatedNs = run.CreatedNs
		run.Texts, texts, refs = texts[:len(places):len(places)], texts[len(places):], refs[:0]
		run.Notes, notes = notes[:len(places):len(places)], notes[len(places):]
		for i := range places {
			if places[i].rowid.Valid {
				refs = append(refs, treeRef{rowid: places[i].rowid.Int64, version: places[i].version.Int64, into: &run.Texts[i], note: &run.Notes[i]})
			}
		}
		if r.Brief || string(tags) == `[]` {
			return run, refs, nil
		}
		return run, refs, json.Unmarshal(tags, &run.Tags)
	}
}

// CountRuns implements [catalog.Trees].
func (d *DB) CountRuns(ctx context.Context, workspace, project string) (n int, err error) {
	err = d.reader.row(ctx, `SELECT count(*) FROM runs r INDEXED BY runs_status
		WHERE r.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?) AND r.deleted_ns = 0`, workspace, project)(&n)
	return n, d.failure("count runs", err)
}
