package ledger

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// Stream is what the writer with a place added to a series in one attempt.
type Stream struct {
	Writer  uint32
	Attempt uint32
	curve.Tally
}

// StreamOf is a stream of a series.
type StreamOf struct {
	Series uint32
	Stream
}

// streamColumns are those of a stream, in the order of streamFields and streamRow.
const streamColumns = `writer, attempt, count, rules, some_axes, every_axes, low, high, min_time, max_time, again_from, again_to, end_step, end_time, end_seq, end_arrival, value, least, greatest, valued`

// streamRow is a row on its way out of the ledger.
type streamRow struct {
	writer, attempt, count, rules, some, every, low, high, minTime, maxTime, from, to, step, time, seq, arrival, value, least, greatest, valued *int64
}

func (r *streamRow) into() []any {
	return []any{&r.writer, &r.attempt, &r.count, &r.rules, &r.some, &r.every, &r.low, &r.high, &r.minTime, &r.maxTime, &r.from, &r.to, &r.step, &r.time, &r.seq, &r.arrival, &r.value, &r.least, &r.greatest, &r.valued}
}

// stream is false for a row of an outer join that has none.
func (r *streamRow) stream() (s Stream, has bool) {
	if r.writer == nil {
		return s, false
	}
	s = Stream{Writer: uint32(*r.writer), Attempt: uint32(*r.attempt), Tally: curve.Tally{
		Count: uint64(*r.count), Rules: uint8(*r.rules), Some: uint16(*r.some), Every: uint16(*r.every),
		Low: *r.low, High: *r.high, MinTime: *r.minTime, MaxTime: *r.maxTime,
		End: curve.End{Step: *r.step, Time: *r.time, Seq: uint64(*r.seq), Arrival: uint64(*r.arrival), Value: uint64(*r.value)},
	}}
	if r.from != nil {
		s.Again = &curve.Interval{From: *r.from, To: *r.to}
	}
	if r.valued != nil && *r.valued == *r.count {
		s.Values = &curve.Interval{From: *r.least, To: *r.greatest}
	}
	return s, true
}

// queueStreams writes streams as they stand now.
func (l *Ledger) queueStreams(b *pgx.Batch, changes []*Change) {
	var runs [][]byte
	var list [16][]int64
	var from, to, least, greatest, valued []*int64
	for _, c := range changes {
		for i := range c.Streams {
			s := &c.Streams[i]
			runs = append(runs, c.Run[:])
			for k, v := range [16]int64{
				int64(s.Series), int64(s.Writer), int64(s.Attempt), int64(s.Count), int64(s.Rules), int64(s.Some), int64(s.Every), s.Low, s.High, s.MinTime, s.MaxTime,
				s.End.Step, s.End.Time, int64(s.End.Seq), int64(s.End.Arrival), int64(s.End.Value),
			} {
				list[k] = append(list[k], v)
			}
			var again [2]*int64
			if a := s.Again; a != nil {
				again = [2]*int64{&a.From, &a.To}
			}
			from, to = append(from, again[0]), append(to, again[1])
			var values [3]*int64
			if v, n := s.Values, int64(s.Count); v != nil {
				values = [3]*int64{&v.From, &v.To, &n}
			}
			least, greatest, valued = append(least, values[0]), append(greatest, values[1]), append(valued, values[2])
		}
	}
	if len(runs) == 0 {
		return
	}
	args := []any{runs}
	for _, column := range list {
		args = append(args, column)
	}
	b.Queue(writeStreams, slices.Concat(args, []any{from, to, least, greatest, valued})...)
}

const writeStreams = `INSERT INTO ledger_streams (run, series, writer, attempt, count, rules, some_axes, every_axes, low, high, min_time, max_time, end_step, end_time, end_seq, end_arrival, value, again_from, again_to, least, greatest, valued)
	SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
		$13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[])
	ON CONFLICT (run, series, writer, attempt) DO UPDATE SET count = excluded.count, rules = excluded.rules, some_axes = excluded.some_axes, every_axes = excluded.every_axes,
		low = excluded.low, high = excluded.high, min_time = excluded.min_time, max_time = excluded.max_time, again_from = excluded.again_from, again_to = excluded.again_to,
		end_step = excluded.end_step, end_time = excluded.end_time, end_seq = excluded.end_seq, end_arrival = excluded.end_arrival, value = excluded.value, least = excluded.least, greatest = excluded.greatest, valued = excluded.valued`
