package kymogram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kept is a run that remembers what it was given.
type kept struct {
	lines  []string
	times  []time.Time
	points []string
	err    error
}

func (k *kept) LogPoint(p Point) error {
	k.lines = append(k.lines, p.Fields[0].Value.(string))
	k.times = append(k.times, p.Time)
	return k.err
}

func (k *kept) LogMap(values map[string]float64, opts ...LogOption) error {
	for _, o := range opts {
		if o.kind == optionStep {
			k.points = append(k.points, fmt.Sprint("step ", o.number))
		}
	}
	k.points = append(k.points, fmt.Sprint(values)) // in the order of names
	return k.err
}

// The next handler gets every record as slog means it.
func TestHandlerPassesOn(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		out.Reset()
		return newHandler(&kept{}, slog.NewJSONHandler(&out, nil), HandlerOptions{Level: slog.LevelInfo})
	}, func(t *testing.T) (record map[string]any) {
		if err := json.Unmarshal(out.Bytes(), &record); err != nil {
			t.Fatal(err)
		}
		return record
	})
}

// And so does the run: its lines are read here by a parser of their own.
func TestHandlerKeeps(t *testing.T) {
	var run *kept
	slogtest.Run(t, func(*testing.T) slog.Handler {
		run = &kept{}
		return newHandler(run, nil, HandlerOptions{Level: slog.LevelInfo})
	}, func(t *testing.T) map[string]any {
		if len(run.lines) != 1 {
			t.Fatalf("%d lines", len(run.lines))
		}
		record := map[string]any{}
		for _, word := range strings.Fields(run.lines[0]) { // slogtest has no spaces in values
			path, value, _ := strings.Cut(word, "=")
			at := record
			names := strings.Split(path, ".")
			for _, group := range names[:len(names)-1] {
				if at[group] == nil {
					at[group] = map[string]any{}
				}
				at = at[group].(map[string]any)
			}
			at[names[len(names)-1]] = value
		}
		if !run.times[0].IsZero() { // the point has it
			record[slog.TimeKey] = run.times[0]
		}
		return record
	})
}

func TestHandlerLogsNumbers(t *testing.T) {
	run := &kept{}
	log := slog.New(newHandler(run, nil, HandlerOptions{Level: slog.LevelInfo, Step: "step", Points: func(name string) bool { return name != "seed" }}))
	log = log.With("seed", 7, "rate", 0.1).WithGroup("train").With(slog.Group("gpu", "load", 3))
	log.Info("epoch", "step", 12, "loss", 0.5, "name", "a", "took", 1500*time.Millisecond, slog.Group("", "inline", uint8(2)))
	log.Debug("not kept", "loss", 9)
	want := []string{"step 12", "map[rate:0.1 train/gpu/load:3 train/inline:2 train/loss:0.5 train/took:1.5]"}
	if diff := cmp.Diff(want, run.points); diff != "" {
		t.Error(diff)
	}
	if len(run.lines) != 1 || run.lines[0] != "level=INFO msg=epoch seed=7 rate=0.1 train.gpu.load=3 train.step=12 train.loss=0.5 train.name=a train.took=1.5s train.inline=2" {
		t.Errorf("kept %q", run.lines)
	}
}

func TestHandlerAfterTheEndAndLongLines(t *testing.T) {
	run := &kept{err: closedError(ErrClosed)}
	h := newHandler(run, slog.DiscardHandler, HandlerOptions{Level: slog.LevelInfo})
	if err := h.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, strings.Repeat("ü", 1<<20), 0)); err != nil {
		t.Error(err)
	}
	if n := len(run.lines[0]); n > longestLine+len("…") {
		t.Errorf("a line of %d bytes", n)
	}
	run.err = errors.New("full")
	if err := h.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, "", 0)); err == nil {
		t.Error("the error is lost")
	}
}

func TestContext(t *testing.T) {
	run := &Run{}
	if got, ok := FromContext(NewContext(t.Context(), run)); !ok || got != run {
		t.Error("the run is lost")
	}
	for _, ctx := range []context.Context{t.Context(), NewContext(t.Context(), nil)} {
		if _, ok := FromContext(ctx); ok {
			t.Error("a run out of nothing")
		}
	}
}
