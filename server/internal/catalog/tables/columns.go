package tables

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// scan reads rows without database/sql between: of a hundred thousand it takes half the time.
// A row is valid until the next. It ends with the context, which the driver only heeds in
// the first step.
func (r *Reads) scan(ctx context.Context, query string, args []any, each func(row []driver.Value) error) error {
	release, err := r.turn(ctx)
	if err != nil {
		return err
	}
	defer release()
	conn, err := r.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error { return scanRaw(ctx, c, query, args, each) })
}

func scanRaw(ctx context.Context, c any, query string, args []any, each func(row []driver.Value) error) error {
	queryer, ok := c.(driver.QueryerContext)
	if !ok {
		return errors.New("the driver cannot be read directly")
	}
	convert := func(v *driver.NamedValue) (err error) {
		v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
		return err
	}
	if checker, ok := c.(driver.NamedValueChecker); ok {
		convert = checker.CheckNamedValue
	}
	named := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
		if err := convert(&named[i]); err != nil {
			return err
		}
	}
	rows, err := queryer.QueryContext(ctx, query, named)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	for ctx.Err() == nil {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Columns implements [catalog.Tables].
func (d *DB) Columns(ctx context.Context, f catalog.RunFilter, names catalog.ColumnNames) (*catalog.Columns, error) {
	out, err := d.columns(ctx, f, names)
	return out, d.failure("read columns of runs", err)
}

func (d *DB) columns(ctx context.Context, f catalog.RunFilter, names catalog.ColumnNames) (*catalog.Columns, error) {
	f.Cursor = ""
	w, _, err := selected(f)
	if err != nil {
		return nil, err
	}
	c := &columnReader{db: d, out: &catalog.Columns{}}
	o := parseOrder("")
	err = d.reader.scan(ctx, `SELECT r.pk FROM runs r`+o.along(f, w)+` WHERE `+w.String(), w.args, func(row []driver.Value) error {
		pk, _ := row[0].(int64)
		c.out.Runs = append(c.out.Runs, pk)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(c.out.Runs)
	for _, name := range names.Keys {
		if err := c.key(ctx, name); err != nil {
			return nil, err
		}
	}
	return c.out, c.numbers(ctx, names.Numbers)
}

// columnReader puts what is read in the order of runs at the places of its runs.
type columnReader struct {
	db  *DB
	out *catalog.Columns
}

// along reads rows that begin with a run, in their order, for those runs that are selected.
func (c *columnReader) along(ctx context.Context, query string, args []any, take func(at int, row []driver.Value)) error {
	runs := c.out.Runs
	if len(runs) == 0 {
		return nil
	}
	args = append(args, runs[0], runs[len(runs)-1])
	at := 0
	return c.db.reader.scan(ctx, query, args, func(row []driver.Value) error {
		pk, _ := row[0].(int64)
		if at < len(runs) && runs[at] > pk { // a key of several: the rows begin anew
			at, _ = slices.BinarySearch(runs, pk)
		}
		for at < len(runs) && runs[at] < pk {
			at++
		}
		if at < len(runs) && runs[at] == pk {
			take(at, row)
		}
		return nil
	})
}

func (c *columnReader) key(ctx context.Context, name string) error {
	k := catalog.GroupKey{Values: make([]model.Value, 1), Of: make([]uint32, len(c.out.Runs)), More: map[int][]uint32{}}
	places := map[any]uint32{}
	put := func(at int, id any, value func() model.Value) {
		place, ok := places[id]
		if !ok {
			place = uint32(len(k.Values))
			places[id] = place
			k.Values = append(k.Values, value())
		}
		if k.Of[at] == 0 {
			k.Of[at] = place
		} else {
			k.More[at] = append(k.More[at], place)
		}
	}
	text := func(at int, row []driver.Value) {
		s, _ := row[1].(string)
		put(at, s, func() model.Value { return *model.StringValue(s) })
	}
	var err error
	switch name {
	case "status":
		err = c.along(ctx, `SELECT r.pk, r.status FROM runs r WHERE r.pk BETWEEN ? AND ? ORDER BY r.pk`, nil, text)
	case "tag":
		err = c.along(ctx, `SELECT t.run, t.tag FROM tags t WHERE t.run BETWEEN ? AND ? ORDER BY t.run, t.tag`, nil, text)
	default:
		err = c.along(ctx, `SELECT a.run, a.key, a.type FROM attributes a INDEXED BY attributes_key WHERE a.path = ? AND a.run BETWEEN ? AND ?`,
			[]any{name}, func(at int, row []driver.Value) {
				kind, _ := row[2].(string)
				id := keyID{class(model.ValueType(kind)), whole(c.db.key(row[1]))}
				put(at, id, func() model.Value { return keyValue(id) })
			})
	}
	c.out.Keys = append(c.out.Keys, k)
	return err
}

// keyID tells the values of a key apart: 1 and 1.0 are one, "1" is another.
type keyID struct {
	class model.ValueType
	key   any
}

// class makes one of the two types of numbers.
func class(t model.ValueType) model.ValueType {
	if t == model.TypeInt {
		return model.TypeFloat
	}
	return t
}

// whole makes an integer of a real that is one.
func whole(key any) any {
	if f, ok := key.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return key
}

// keyValue is the value that a key of an attribute stands for.
func keyValue(id keyID) model.Value {
	switch key := id.key.(type) {
	case int64:
		switch id.class {
		case model.TypeBool:
			return *model.BoolValue(key != 0)
		case model.TypeTime:
			return *model.TimeValue(key)
		}
		return *model.IntValue(key)
	case float64:
		return *model.FloatValue(key)
	case string:
		if id.class == model.TypeStringSet {
			return *model.SetValue(strings.Split(key, "\n"))
		}
		return *model.StringValue(key)
	}
	return *model.FloatValue(math.NaN()) // which has no place in an order
}

// addMember selects the runs of a group.
func (w *where) addMember(m catalog.Member) {
	none := m.Value.Type == ""
	switch {
	case m.Key == "status":
		w.add(`r.status = ?`, m.Value.Str)
	case m.Key == "tag" && none:
		w.add(`NOT EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk)`)
	case m.Key == "tag":
		w.add(`EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk AND t.tag = ?)`, m.Value.Str)
	case none:
		w.add(`NOT EXISTS (SELECT 1 FROM attributes a WHERE a.run = r.pk AND a.path = ?)`, m.Key)
	case sortKey(&m.Value).Of == nil: // NaN
		w.add(chosenIn+`SELECT a.run FROM attributes a INDEXED BY attributes_key WHERE a.path = ? AND a.key IS NULL)`, m.Key)
	default:
		types := []model.ValueType{m.Value.Type, m.Value.Type}
		if class(m.Value.Type) == model.TypeFloat {
			types = []model.ValueType{model.TypeInt, model.TypeFloat}
		}
		w.add(chosenIn+`SELECT a.run FROM attributes a INDEXED BY attributes_key WHERE a.path = ? AND a.key = ? AND a.type IN (?, ?))`,
			m.Key, sortKey(&m.Value), string(types[0]), string(types[1]))
	}
}

// numbers reads each metric once, whatever is asked of it.
func (c *columnReader) numbers(ctx context.Context, names []string) error {
	c.out.Numbers = make([][]float64, len(names))
	c.out.NaN = make([]map[int]bool, len(names))
	for i := range names {
		c.out.NaN[i] = map[int]bool{}
		c.out.Numbers[i] = make([]float64, len(c.out.Runs))
		for at := range c.out.Numbers[i] {
			c.out.Numbers[i][at] = math.NaN()
		}
	}
	metrics := map[string][]wanted{}
	for i, name := range names {
		m, ok := filter.ParseMetric(name)
		if !ok {
			if err := c.attribute(ctx, name, c.out.Numbers[i], c.out.NaN[i]); err != nil {
				return err
			}
			continue
		}
		metrics[m.Name] = append(metrics[m.Name], wanted{summaryColumn(m.Of), c.out.Numbers[i], c.out.NaN[i]})
	}
	for metric, all := range metrics {
		if err := c.metric(ctx, metric, all); err != nil {
			return err
		}
	}
	return nil
}

// wanted is a column of the summaries, and where it goes.
type wanted struct {
	column string
	into   []float64
	nan    map[int]bool
}

// metric reads no more than is wanted: a value costs as much as half a row.
func (c *columnReader) metric(ctx context.Context, name string, all []wanted) error {
	columns := make([]string, len(all))
	for i, w := range all {
		columns[i] = w.column
	}
	return c.along(ctx, `SELECT s.run, `+strings.Join(columns, ", ")+` FROM summaries s INDEXED BY summaries_metric WHERE s.metric = ? AND s.run BETWEEN ? AND ?`, []any{name}, func(at int, row []driver.Value) {
		for i, w := range all {
			if v, ok := float(c.db.number(row[i+1])); ok {
				w.into[at] = v
			} else if w.column == summaryColumn(filter.Last) { // the others are of finite values, and none of them is no value
				w.nan[at] = true
			}
		}
	})
}

func (c *columnReader) attribute(ctx context.Context, path string, into []float64, nan map[int]bool) error {
	return c.along(ctx, `SELECT a.run, a.key FROM attributes a INDEXED BY attributes_key
		WHERE a.path = ? AND a.type IN ('int64', 'float64') AND a.run BETWEEN ? AND ?`, []any{path}, func(at int, row []driver.Value) {
		if v, ok := float(c.db.key(row[1])); ok {
			into[at] = v
		} else {
			nan[at] = true
		}
	})
}

func float(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// Refs implements [catalog.Tables].
func (d *DB) Refs(ctx context.Context, runs []int64) ([]catalog.Ref, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	list, _ := json.Marshal(runs) // integers always marshal
	refs, err := Collect(ctx, d.reader, func(rows *sql.Rows) (r catalog.Ref, err error) {
		var id []byte
		err = rows.Scan(&id, &r.Name, &r.DisplayName)
		copy(r.ID[:], id)
		return r, err
	}, `SELECT r.id, coalesce(r.name, ''), coalesce(r.display_name, '') FROM json_each(?) v LEFT JOIN runs r ON r.pk = CAST(v.value AS BIGINT) ORDER BY v.key`, string(list))
	return refs, d.failure("name runs", err)
}

// Values implements [catalog.Tables].
func (d *DB) Values(ctx context.Context, runs []model.RunID, names []string, bytes int64) ([][]model.Value, error) {
	out := make([][]model.Value, len(runs))
	for i := range out {
		out[i] = make([]model.Value, len(names))
	}
	list := hexList(runs)
	left := bytes
	for i, name := range names {
		err := d.values(ctx, list, name, func(at, text int, v model.Value) error {
			out[at][i] = v
			if left -= int64(text); bytes > 0 && left < 0 {
				return catalog.ErrLarge
			}
			return nil
		})
		if err != nil {
			return nil, d.failure("read values of runs", err)
		}
	}
	return out, nil
}

const ofList = `FROM json_each(?) v CROSS JOIN runs r ON r.id = unhex(v.value) `

func (d *DB) values(ctx context.Context, list, name string, put func(at, text int, v model.Value) error) error {
	m, ok := filter.ParseMetric(name)
	if !ok {
		return d.reader.scan(ctx, `SELECT v.key, a.value `+ofList+`CROSS JOIN attributes a ON a.run = r.pk AND a.path = ?`, []any{list, name}, func(row []driver.Value) error {
			at, _ := row[0].(int64)
			text, _ := row[1].(string)
			var v model.Value
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return err
			}
			return put(int(at), len(text), v)
		})
	}
	column := summaryColumn(m.Of)
	return d.reader.scan(ctx, `SELECT v.key, s.`+column+` `+ofList+`CROSS JOIN summaries s ON s.run = r.pk AND s.metric = ?`, []any{list, m.Name}, func(row []driver.Value) error {
		at, _ := row[0].(int64)
		v := summaryValue(d.number(row[1]))
		if v.Type == "" && column == "last" {
			v = *model.FloatValue(math.NaN())
		}
		return put(int(at), 0, v)
	})
}
