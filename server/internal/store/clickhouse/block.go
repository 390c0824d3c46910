package clickhouse

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// pack is the rows as a block of the log: names of columns, then each column, compressed. Log
// positions are left out: rows get theirs when they are drained.
func (r *rows) pack() ([]byte, error) {
	names, values := r.columns()
	at := slices.Index(names, "lsn")
	names, values = slices.Delete(names, at, at+1), slices.Delete(values, at, at+1)
	var plain bytes.Buffer
	out := gob.NewEncoder(&plain)
	if err := out.Encode(names); err != nil {
		return nil, fmt.Errorf("pack rows: %w", err)
	}
	for i := range values {
		if err := out.Encode(values[i]); err != nil {
			return nil, fmt.Errorf("pack column %s: %w", names[i], err)
		}
	}
	return s2.Encode(nil, plain.Bytes()), nil
}

// unpack is what pack was given. An axis that the block does not know has no row.
func unpack(block []byte) (*rows, error) {
	plain, err := s2.Decode(nil, block)
	if err != nil {
		return nil, fmt.Errorf("unpack a block of the log: %w", err)
	}
	var names []string
	in := gob.NewDecoder(bytes.NewReader(plain))
	if err := in.Decode(&names); err != nil {
		return nil, fmt.Errorf("unpack a block of the log: %w", err)
	}
	r := &rows{}
	into := r.byName()
	for _, name := range names {
		to := into[name]
		if to == nil {
			return nil, model.Errorf(model.CodeInternal, "a block of the log has the column %s, which this version does not know", name).
				WithHint("Give all servers the newest version that one of them has.")
		}
		if err := in.Decode(to); err != nil {
			return nil, fmt.Errorf("unpack column %s: %w", name, err)
		}
	}
	n := len(r.run)
	for a := range r.axes {
		if len(r.axes[a]) == 0 {
			r.axes[a] = make([]int64, n)
		}
	}
	return r, nil
}

// byName are the columns of a block, to be filled.
func (r *rows) byName() map[string]any {
	out := map[string]any{
		"run": &r.run, "series": &r.series, "arrival": &r.arrival, "writer": &r.writer, "seq": &r.seq, "attempt": &r.attempt, "logger": &r.logger, "logged": &r.logged,
		"rule": &r.rule, "has": &r.has, "time": &r.time, "kind": &r.kind, "float": &r.float, "int": &r.int, "doc": &r.doc,
	}
	for i, a := range model.Axes() {
		out[string(a)] = &r.axes[i]
	}
	return out
}

// part is a range of the rows.
func (r *rows) part(from, to int) *rows {
	out := &rows{
		run: r.run[from:to], writer: r.writer[from:to], series: r.series[from:to], attempt: r.attempt[from:to], lsn: r.lsn[from:to], arrival: r.arrival[from:to],
		seq: r.seq[from:to], logger: r.logger[from:to], logged: r.logged[from:to], rule: r.rule[from:to], has: r.has[from:to], time: r.time[from:to], kind: r.kind[from:to],
		float: r.float[from:to], int: r.int[from:to], doc: r.doc[from:to],
	}
	for a := range column.NumAxes {
		out.axes[a] = r.axes[a][from:to]
	}
	return out
}

// join adds rows of other ones, those of some runs, and counts them.
func (r *rows) join(o *rows, runs []model.RunID, counts map[model.RunID]uint64) {
	wanted := make(map[string]bool, len(runs))
	for _, run := range runs {
		wanted[string(run[:])] = true
	}
	for from := 0; from < len(o.run); {
		to := from + 1
		for to < len(o.run) && o.run[to] == o.run[from] {
			to++
		}
		if run := o.run[from]; wanted[run] {
			r.append(o, from, to)
			counts[model.RunID([]byte(run))] += uint64(to - from)
		}
		from = to
	}
}

func (r *rows) append(o *rows, from, to int) {
	r.run, r.writer = append(r.run, o.run[from:to]...), append(r.writer, o.writer[from:to]...)
	r.series, r.attempt = append(r.series, o.series[from:to]...), append(r.attempt, o.attempt[from:to]...)
	r.arrival, r.seq, r.logger = append(r.arrival, o.arrival[from:to]...), append(r.seq, o.seq[from:to]...), append(r.logger, o.logger[from:to]...)
	r.logged, r.rule, r.kind = append(r.logged, o.logged[from:to]...), append(r.rule, o.rule[from:to]...), append(r.kind, o.kind[from:to]...)
	r.has, r.time = append(r.has, o.has[from:to]...), append(r.time, o.time[from:to]...)
	r.float, r.int, r.doc = append(r.float, o.float[from:to]...), append(r.int, o.int[from:to]...), append(r.doc, o.doc[from:to]...)
	for a := range r.axes {
		r.axes[a] = append(r.axes[a], o.axes[a][from:to]...)
	}
}

// runs are those that the rows are of.
func (r *rows) runs() (out []model.RunID) {
	seen, last := map[string]bool{}, ""
	for _, run := range r.run {
		if run != last && !seen[run] {
			out = append(out, model.RunID([]byte(run)))
		}
		seen[run], last = true, run
	}
	return out
}
