package importer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"

	_ "modernc.org/sqlite" // the driver

	"github.com/kymogram/kymogram/internal/model"
)

// openSQLite opens a database for reading: nothing in it is changed.
func openSQLite(path string) (*sql.DB, error) {
	address := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)"}
	return sql.Open("sqlite", address.String())
}

func findMLflowSQLite(ctx context.Context, path string) ([]Found, error) {
	db, err := openSQLite(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer db.Close()
	if err := onlyTables(ctx, db, path); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, `SELECT r.run_uuid, coalesce(r.name, ''), coalesce(r.status, ''), coalesce(r.start_time, 0),
		coalesce(r.end_time, 0), coalesce(r.user_id, ''), coalesce(e.name, ''), coalesce(r.lifecycle_stage, '')
		FROM runs r LEFT JOIN experiments e ON e.experiment_id = r.experiment_id ORDER BY r.run_uuid`)
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "%s is no MLflow store: %v", path, err).
			WithHint("give the folder mlruns, or the SQLite file that the tracking URI names")
	}
	defer rows.Close()
	var runs []mlflowRun
	for rows.Next() {
		var r mlflowRun
		if err := rows.Scan(&r.id, &r.name, &r.status, &r.startMs, &r.endMs, &r.userTag, &r.experiment, &r.lifecycle); err != nil {
			return nil, fmt.Errorf("read the runs of %s: %w", path, err)
		}
		runs = append(runs, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the runs of %s: %w", path, err)
	}
	store, err := newMLflowStore(ctx, db, path)
	if err != nil {
		return nil, fmt.Errorf("read the tables of %s: %w", path, err)
	}
	return named(runs, func(r mlflowRun) func(context.Context) (*Run, error) {
		return func(ctx context.Context) (*Run, error) { return store.read(ctx, r) }
	}), nil
}

// onlyTables refuses views under the names of MLflow's tables: one may have rows without end.
func onlyTables(ctx context.Context, db *sql.DB, path string) error {
	var view string
	err := db.QueryRowContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'view' AND lower(name) IN ('runs', 'experiments', 'params', 'tags', 'metrics')`).Scan(&view)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s is a view", view)
	}
	return model.Errorf(model.CodeInvalid, "%s is no MLflow store: %v", path, err).
		WithHint("give the folder mlruns, or the SQLite file that the tracking URI names")
}

// mlflowStore are the tables of a database with the rows of all runs.
type mlflowStore struct{ params, tags, metrics *mlflowTable }

func newMLflowStore(ctx context.Context, db *sql.DB, path string) (*mlflowStore, error) {
	s := &mlflowStore{
		&mlflowTable{path: path, name: "params", columns: "key, coalesce(value, '')", order: "key"},
		&mlflowTable{path: path, name: "tags", columns: "key, coalesce(value, '')", order: "key"},
		&mlflowTable{path: path, name: "metrics", columns: "key, value, timestamp, step, is_nan", order: "key, timestamp, step"},
	}
	for _, t := range []*mlflowTable{s.params, s.tags, s.metrics} {
		const indexes = `SELECT count(*) FROM pragma_index_list(?) l JOIN pragma_index_info(l.name) i WHERE i.seqno = 0 AND i.name = 'run_uuid' AND NOT l.partial`
		if err := db.QueryRowContext(ctx, indexes, t.name).Scan(&t.indexes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *mlflowStore) read(ctx context.Context, r mlflowRun) (*Run, error) {
	b := newBuilder()
	b.head(r)
	err := s.params.pairs(ctx, r.id, func(name, value string) { b.attribute("config/"+name, model.StringValue(value)) })
	if err == nil {
		err = s.tags.pairs(ctx, r.id, b.mlflowTag)
	}
	if err == nil {
		err = b.metricRows(ctx, s.metrics, r.id)
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s of %s: %w", r.id, s.params.path, err)
	}
	run := b.done()
	run.spanPoints()
	return run, nil
}

func (t *mlflowTable) pairs(ctx context.Context, id string, use func(name, value string)) error {
	return t.each(ctx, id, func(scan func(to ...any) error) error {
		var name, value string
		err := scan(&name, &value)
		if err == nil {
			use(name, value)
		}
		return err
	})
}

func (b *builder) metricRows(ctx context.Context, t *mlflowTable, id string) error {
	n := int64(-1)
	return t.each(ctx, id, func(scan func(to ...any) error) error {
		n++
		var name string
		var value float64
		var time, step int64
		var nan bool
		if err := scan(&name, &value, &time, &step, &nan); err != nil {
			b.damage("metrics", n, "a row is not KEY VALUE TIMESTAMP STEP IS_NAN: %v", err)
			return nil
		}
		if nan {
			value = math.NaN()
		}
		b.float(name, step, milliseconds(time), value)
		return nil
	})
}
