package curve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	testserver "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// tables is a server with a table of points.
type tables struct {
	db   driver.Conn
	name string
}

func open(t testing.TB) *tables {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine works here, and takes most of a minute")
	}
	server := testserver.Any(t)
	database := server.Database(t)
	db, err := clickhouse.Open(&clickhouse.Options{Addr: server.Addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	out := &tables{db, database + ".points"}
	if err := db.Exec(t.Context(), curve.Create(out.name, curve.Form{})); err != nil {
		t.Fatal(err)
	}
	return out
}

// fixture writes runs by chance.
type fixture struct {
	*rand.Rand
	tables  *tables
	batch   driver.Batch
	run     *history
	arrival uint64
}

// fill makes a run: batches of which some are committed, and the others must not be seen.
func (f *fixture) fill(t testing.TB, id model.RunID, points int) *history {
	t.Helper()
	f.run = &history{facts: curve.Facts{Run: id}, points: map[store.SeriesID][]point{}, loggers: map[model.WriterID]*uint64{}}
	f.attempts()
	f.someSeries()
	var err error
	if f.batch, err = f.tables.db.PrepareBatch(t.Context(), "INSERT INTO "+f.tables.name+" ("+strings.Join(curve.Columns(), ", ")+")"); err != nil {
		t.Fatal(err)
	}
	lsn := uint64(f.IntN(3))<<40 + 1
	for left := points; left > 0; {
		size := 1 + f.IntN(min(left, 12))
		arrival := f.arrival
		if f.IntN(5) > 0 {
			left -= size
			f.commit(lsn)
			for range size {
				f.point(t, lsn, true)
			}
			lsn++
			continue
		}
		for range size {
			f.point(t, lsn, false)
		}
		f.arrival = arrival // what goes again has the same numbers, of another epoch
		lsn = lsn>>40<<40 + (1+uint64(f.IntN(2)))<<40 + 1
	}
	if err := f.batch.Send(); err != nil {
		t.Fatal(err)
	}
	f.pin()
	for i := range f.run.series {
		if s := &f.run.series[i]; !s.Plain || f.IntN(2) == 0 {
			s.Known, s.Plain, s.Streams = f.IntN(4) > 0, false, f.run.streams(s.ID)
		}
	}
	return f.run
}

func (f *fixture) commit(lsn uint64) {
	spans := &f.run.facts.Spans
	if n := len(*spans); n > 0 && (*spans)[n-1].Last == lsn-1 {
		(*spans)[n-1].Last = lsn
		return
	}
	*spans = append(*spans, curve.Span{First: lsn, Last: lsn})
}

func (f *fixture) attempts() {
	for number := range uint32(1 + f.IntN(4)) {
		a := model.Attempt{Number: number + 1, Precedence: int64(f.IntN(3))}
		if f.IntN(2) == 0 {
			from := f.place()
			a.ResumeFrom = &from
		}
		f.run.facts.Attempts = append(f.run.facts.Attempts, a)
	}
}

// place is a number from a small range, or rarely a far one.
func (f *fixture) place() int64 {
	switch f.IntN(60) {
	case 0:
		return math.MaxInt64
	case 1:
		return math.MinInt64
	case 2:
		return f.Int64() - math.MaxInt64/2
	}
	return int64(f.IntN(12)) - 1
}

func (f *fixture) someSeries() {
	for i, kind := range []model.Kind{model.KindFloat, model.KindInt, model.KindText, model.KindHistogram, model.KindFloat, model.KindFloat} {
		scale := []string{model.ScaleStep, model.ScaleEnvironment, model.ScaleEpisode}[f.IntN(3)]
		key := model.NewSeriesKey(fmt.Sprintf("m%d", i), scale, nil)
		if i%2 == 0 {
			key = model.NewSeriesKey("shared", scale, map[string]string{model.LabelEnv: fmt.Sprintf("e%d", i/3), "n": fmt.Sprint(i)})
		}
		f.run.series = append(f.run.series, curve.Series{ID: store.SeriesID(i + 3), Key: key, Text: key.String(), Kind: kind, Plain: i == 4})
	}
}

// point adds one to a series by chance; the last series is plain.
func (f *fixture) point(t testing.TB, lsn uint64, committed bool) {
	t.Helper()
	s := &f.run.series[f.IntN(len(f.run.series))]
	f.arrival++
	p := point{axes: map[model.Axis]int64{}, time: f.place(), attempt: 1 + uint32(f.IntN(len(f.run.facts.Attempts))), arrival: f.arrival, value: f.value(s.Kind)}
	f.origin(&p)
	switch {
	case s.Plain:
		f.rise(s, &p)
	case s.Key.Metric == restarted:
		f.restart(s, &p)
	default:
		f.shape(s, &p)
	}
	if committed {
		f.run.points[s.ID] = append(f.run.points[s.ID], p)
	}
	f.insert(t, s, &p, lsn)
}

func (f *fixture) origin(p *point) {
	n := f.IntN(4)
	p.writer = model.WriterID{f.run.facts.Run[0], byte(n)}
	if n%2 == 0 {
		p.seq = uint64(1 + f.IntN(3))
	}
	if _, known := f.run.loggers[p.writer]; !known {
		f.run.loggers[p.writer] = nil
		if n > 0 {
			id := uint64(n / 2)
			f.run.loggers[p.writer] = &id
		}
	}
}

// rise goes on where the plain series ends, in the latest attempt.
func (f *fixture) rise(s *curve.Series, p *point) {
	last := int64(-1)
	if list := f.run.points[s.ID]; len(list) > 0 {
		last = list[len(list)-1].axes[model.AxisStep]
	}
	p.axes[model.AxisStep] = last + 1 + int64(f.IntN(2))
	p.writer, p.seq, p.attempt = model.WriterID{f.run.facts.Run[0], 9}, p.arrival, 1
	for _, a := range f.run.facts.Attempts {
		if f.run.later(a.Number, p.attempt) {
			p.attempt = a.Number
		}
	}
}

// restarted is a series that rises in each writer and attempt by itself.
const restarted = "m5"

// restart goes on where the writer ends in an attempt, or rarely before.
func (f *fixture) restart(s *curve.Series, p *point) {
	at := int64(p.attempt)*6 + int64(p.writer[1])
	for _, q := range f.run.points[s.ID] {
		if q.writer == p.writer && q.attempt == p.attempt {
			at = max(at, q.axes[model.AxisStep]+1)
		}
	}
	if f.IntN(30) == 0 {
		at -= 2
	}
	p.axes[model.AxisStep], p.rule = at, model.Uniqueness(f.run.facts.Run[1]%2)*model.UniqueStep
}

// shape gives axes and a rule. Some series keep to one, so that every form of a query is asked.
func (f *fixture) shape(s *curve.Series, p *point) {
	shapes := [][]model.Axis{
		{model.AxisStep},
		{model.AxisStep, model.AxisRLStep, model.AxisEpisode},
		{},
		{model.AxisStep, model.AxisWindow},
		{model.AxisRLStep, model.AxisEpisode, model.AxisEnvStep},
		{model.AxisStep, model.AxisEpisode},
	}
	strict := uint64(f.run.facts.Run[1]+byte(s.ID)) % 4
	kind, rule := f.IntN(len(shapes)), model.Uniqueness(f.IntN(3))
	switch strict {
	case 1:
		kind, rule = int(f.run.facts.Run[1])%2, 0
	case 2:
		kind, rule = 0, model.Uniqueness(f.run.facts.Run[1]%3)
	case 3:
		kind = kind / 2 * 2 % 4
	}
	for _, a := range shapes[kind] {
		p.axes[a] = f.place()
	}
	p.rule = rule
}

func (f *fixture) value(kind model.Kind) (v store.Number) {
	switch kind {
	case model.KindFloat:
		v.Float = f.NormFloat64()
		if f.IntN(12) == 0 {
			v.Float = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64}[f.IntN(6)]
		}
	case model.KindInt:
		v.Int = f.place()
	default:
		v.Doc = []byte(fmt.Sprintf("\x00'\\ %d", f.IntN(1000)))
	}
	return v
}

func (f *fixture) insert(t testing.TB, s *curve.Series, p *point, lsn uint64) {
	t.Helper()
	var has uint16
	var logger uint64
	var logged uint8
	if id := f.run.loggers[p.writer]; id != nil {
		logger, logged = *id, 1
	}
	list := []any{}
	for i, a := range model.Axes() {
		x, ok := p.axes[a]
		if ok {
			has |= 1 << i
		}
		list = append(list, x)
	}
	run := f.run.facts.Run
	row := append([]any{string(run[:]), uint32(s.ID), lsn, p.arrival, string(p.writer[:]), p.seq, p.attempt, logger, logged, uint8(p.rule), has}, list...)
	row = append(row, p.time, uint8(s.Kind), p.value.Float, p.value.Int, string(p.value.Doc))
	if err := f.batch.Append(row...); err != nil {
		t.Fatal(err)
	}
}

// pin gives a writer another logger id.
func (f *fixture) pin() {
	w := model.WriterID{f.run.facts.Run[0], 2}
	if _, known := f.run.loggers[w]; !known || f.IntN(2) == 0 {
		return
	}
	id := uint64(0)
	f.run.loggers[w] = &id
	f.run.facts.Pinned = []curve.Pin{{Writer: w, Logger: &id}}
}
