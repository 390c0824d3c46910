package curve

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-faster/city"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Sum is how many points there are, and the sum of a hash of each. The hash takes all that a row
// has but its place: run, series and log position. So the order of points does not matter.
type Sum struct{ Count, Check uint64 }

// Row is a row of the table of points.
type Row struct {
	Series  store.SeriesID
	Arrival uint64
	Writer  model.WriterID
	Seq     uint64
	Attempt uint32
	Rule    uint8
	Has     uint16
	Axes    []int64 // all of model.Axes()
	Time    int64
	Kind    model.Kind
	Float   float64
	Int     int64
	Doc     string
}

// spread is an odd number without a pattern.
const spread = 0x9E3779B97F4A7C15

// mix takes a number into a hash. It is intHash64 of ClickHouse, of which each is the key.
func mix(h, v uint64) uint64 {
	x := (h*spread + v) ^ 0x4CF2D2BAAE6DA887
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Shared hashes what the points of a row share.
func (r *Row) Shared() (h uint64) {
	for _, v := range []uint64{
		r.Arrival, binary.LittleEndian.Uint64(r.Writer[:8]), binary.LittleEndian.Uint64(r.Writer[8:]), r.Seq, uint64(r.Attempt), uint64(r.Rule), uint64(r.Has), uint64(r.Time),
	} {
		h = mix(h, v)
	}
	for _, v := range r.Axes {
		h = mix(h, uint64(v))
	}
	return h
}

// Add counts a point: what its row shares, its kind, the bits of its number and its document.
func (s *Sum) Add(shared uint64, kind model.Kind, float, whole uint64, doc []byte) {
	h := mix(mix(mix(shared, uint64(kind)), float), whole)
	s.Count++
	s.Check += mix(h, city.CH64(doc))
}

// checksum is the same in ClickHouse's words.
func checksum() string {
	list := []string{
		"arrival", "reinterpretAsUInt64(substring(writer, 1, 8))", "reinterpretAsUInt64(substring(writer, 9, 8))", "seq", "attempt", "rule", "has", "time",
	}
	for _, a := range model.Axes() {
		list = append(list, quote(string(a)))
	}
	list = append(list, "kind", "reinterpretAsUInt64(reinterpretAsString(float))", "int", "cityHash64(doc)")
	h := "toUInt64(0)"
	for _, v := range list {
		h = fmt.Sprintf("intHash64(%s * %d + toUInt64(%s))", h, uint64(spread), v)
	}
	return "sum(" + h + ")"
}

// Sums sums up the series of some runs in a table, of each of some log positions by itself.
func Sums(ctx context.Context, db driver.Conn, table string, runs []model.RunID, lsns []uint64, take func(run model.RunID, lsn uint64, series store.SeriesID, s Sum)) error {
	keys := joined(runs, func(r model.RunID) string { return bytes16(r) })
	rows, err := db.Query(bounded(ctx), "SELECT run, lsn, series, count(), "+checksum()+" FROM "+table+" WHERE run IN ("+keys+") AND has("+array("UInt64", lsns)+", lsn) GROUP BY run, lsn, series")
	if err != nil {
		return failed(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var run string
		var lsn uint64
		var series uint32
		var s Sum
		if err := rows.Scan(&run, &lsn, &series, &s.Count, &s.Check); err != nil {
			return failed(ctx, err)
		}
		take(model.RunID([]byte(run)), lsn, store.SeriesID(series), s)
	}
	return failed(ctx, rows.Err())
}

// bounded lets ClickHouse sort and group on its disk.
func bounded(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_bytes_before_external_group_by": groupBytes, "max_bytes_before_external_sort": groupBytes, "max_query_size": StatementBytes,
	}))
}

// Sums sums up the points of a run that count, by series.
func (r *Reader) Sums(ctx context.Context, run model.RunID) (map[store.SeriesID]Sum, error) {
	out := map[store.SeriesID]Sum{}
	facts, err := r.source.Facts(ctx, run)
	if err != nil {
		return nil, err
	}
	statement := fmt.Sprintf("SELECT series, count(), %s FROM %s WHERE %s AND (%s) GROUP BY series", checksum(), r.place(&facts), OfRun(run), Visible(facts.Spans))
	return out, r.each(ctx, statement, func(rows driver.Rows) error {
		var series uint32
		var s Sum
		err := rows.Scan(&series, &s.Count, &s.Check)
		out[store.SeriesID(series)] = s
		return err
	})
}

// Rows gives the rows of a run that count and arrived at a number or later, by arrival and series.
func (r *Reader) Rows(ctx context.Context, run model.RunID, from uint64, take func(*Row) error) error {
	facts, err := r.source.Facts(ctx, run)
	if err != nil {
		return err
	}
	names := []string{"series", "arrival", "writer", "seq", "attempt", "rule", "has", "time", "kind", "float", "int", "doc"}
	row := &Row{Axes: make([]int64, len(model.Axes()))}
	var series uint32
	var writer string
	var kind uint8
	into := []any{&series, &row.Arrival, &writer, &row.Seq, &row.Attempt, &row.Rule, &row.Has, &row.Time, &kind, &row.Float, &row.Int, &row.Doc}
	for i, a := range model.Axes() {
		names, into = append(names, string(a)), append(into, &row.Axes[i])
	}
	for i := range names {
		names[i] = quote(names[i])
	}
	statement := fmt.Sprintf("SELECT %s FROM %s WHERE %s AND arrival >= %d AND (%s) ORDER BY arrival, series", strings.Join(names, ", "), r.place(&facts), OfRun(run), from, Visible(facts.Spans))
	rows, err := r.db.Query(bounded(ctx), statement)
	if err != nil {
		return failed(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return failed(ctx, err)
		}
		row.Series, row.Kind = store.SeriesID(series), model.Kind(kind)
		copy(row.Writer[:], writer)
		if err := take(row); err != nil {
			return err
		}
	}
	return failed(ctx, rows.Err())
}
