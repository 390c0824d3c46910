package row_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

func configs() []local.Config {
	return []local.Config{{}, {FlushRows: 7, FlushBytes: 4 << 10, CompactFiles: 2, PageBytes: 300}}
}

// same holds lines against rows that were sent.
func same(t *testing.T, lines [][]byte, want []plain) {
	t.Helper()
	for i := range min(len(lines), len(want)) {
		if line := want[i].line(); !loose.Equal([]byte(line), lines[i]) {
			t.Fatalf("row %d of attempt %d reads\n%s, sent was\n%s", i, want[i].attempt, lines[i], line)
		}
		seen := map[string]bool{}
		for m := range loose.Members(lines[i]) {
			if seen[string(m.Key)] {
				t.Fatalf("row %d has %q twice: %s", i, m.Key, lines[i])
			}
			seen[string(m.Key)] = true
		}
		if !row.Same([]byte(want[i].line()), lines[i]) {
			t.Fatalf("row %d is not the same as what it was stored from: %s", i, lines[i])
		}
	}
	if len(lines) != len(want) {
		t.Fatalf("%d rows, want %d", len(lines), len(want))
	}
}

func TestRowsReadBack(t *testing.T) {
	for seed := range uint64(25) {
		for _, c := range configs() {
			t.Run(fmt.Sprint(seed, c.FlushRows), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				h := randomHistory(t, r, c)
				checkRows(t, r, h)
				h.upkeep(t, r)
				checkRows(t, r, h)
			})
		}
	}
}

func checkRows(t *testing.T, r *rand.Rand, h *history) {
	t.Helper()
	ctx, src, run, want := t.Context(), h.written.src, h.written.run, h.curve()
	var all [][]byte
	for line, err := range row.AllLines(ctx, src, run, row.All()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	same(t, all, want)
	limit := 1 + r.IntN(9)
	pages := [][]byte{}
	for at := row.All(); ; {
		lines, next, err := row.Lines(ctx, src, run, at, limit)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, lines...)
		if next == nil {
			break
		}
		if n := len(lines); n == 0 || n > limit && !bytes.Contains(lines[n-1], fmt.Appendf(nil, `"_step":%d,`, want[len(pages)-n].step)) {
			t.Fatalf("a page of %d rows, limit %d", n, limit)
		}
		at.From = *next
	}
	same(t, pages, want)
	if n, err := row.Count(ctx, src, run); err != nil || n != uint64(len(want)) {
		t.Fatalf("%d rows counted (%v), want %d", n, err, len(want))
	}
	tail, err := row.Tail(ctx, src, run)
	last, err2 := row.LastStep(ctx, src, run)
	switch {
	case err != nil || err2 != nil:
		t.Fatal(err, err2)
	case len(want) == 0 && tail == nil && last == nil:
		return
	case *last != want[len(want)-1].step:
		t.Fatalf("the last step is %d, want %d", *last, want[len(want)-1].step)
	}
	same(t, [][]byte{tail}, want[len(want)-1:])
	lo, hi := want[r.IntN(len(want))].step, want[r.IntN(len(want))].step
	lo, hi = min(lo, hi), max(lo, hi)
	lines, _, err := row.Lines(ctx, src, run, row.Range{From: lo, To: hi}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	same(t, lines, slices.DeleteFunc(slices.Clone(want), func(p plain) bool { return p.step < lo || p.step > hi }))
	checkFound(t, r, h)
}

// checkFound finds rows of all attempts by their steps.
func checkFound(t *testing.T, r *rand.Rand, h *history) {
	t.Helper()
	var steps []int64
	for _, p := range h.rows {
		if r.IntN(2) == 0 {
			steps = append(steps, p.step, p.step+3)
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	found, err := row.Find(t.Context(), h.written.src, h.written.run, steps)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(h.rows)
	inOrder(all)
	for _, step := range steps {
		var lines [][]byte
		want := slices.DeleteFunc(slices.Clone(all), func(p plain) bool { return p.step != step })
		for i, row := range found[step] {
			lines = append(lines, row.Line)
			if i < len(want) && (row.Attempt != want[i].attempt || row.Writer != laneID(want[i].attempt, want[i].lane) || row.Step != step) {
				t.Fatalf("row %d of step %d is of attempt %d, writer %v, step %d", i, step, row.Attempt, row.Writer, row.Step)
			}
		}
		same(t, lines, want)
		delete(found, step)
	}
	if len(found) > 0 {
		t.Fatalf("rows at steps that were not asked for: %v", found)
	}
}

// TestPythonReadsTheSame has the client's own language read what was sent and what comes.
func TestPythonReadsTheSame(t *testing.T) {
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to read with")
	}
	var in bytes.Buffer
	for seed := range uint64(10) {
		h := randomHistory(t, rand.New(rand.NewPCG(seed, 5)), configs()[seed%2])
		want := h.curve()
		i := 0
		for line, err := range row.AllLines(t.Context(), h.written.src, h.written.run, row.All()) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&in, "%s\n%s\n", want[i].line(), line)
			i++
		}
		if i != len(want) {
			t.Fatalf("%d rows, want %d", i, len(want))
		}
	}
	c := exec.CommandContext(t.Context(), name, "testdata/rows.py")
	c.Stdin, c.Stderr = &in, t.Output()
	out, err := c.Output()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
}
