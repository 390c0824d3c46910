package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/read/record"
)

// logged opens a run with the Go SDK, lets do log, and delivers it.
func (k *kitchen) logged(options kymogram.Options, do func(r *kymogram.Run) error) *read.Run {
	k.t.Helper()
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	options.SpoolDir, options.NoUplink, options.Log = k.spool(), true, slog.New(slog.DiscardHandler)
	r, err := kymogram.Init(context.Background(), options)
	if err == nil {
		err = do(r)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	var left *kymogram.UndeliveredError
	if err := r.Close(context.Background()); err != nil && !errors.As(err, &left) {
		k.t.Fatal(err)
	}
	k.ok("sync", "--server", "http://"+k.address)
	client, err := read.Dial(k.env["KYMOGRAM_SERVER"], k.key())
	if err != nil {
		k.t.Fatal(err)
	}
	run, err := client.Run(k.t.Context(), "default/default/"+options.RunName)
	if err != nil {
		k.t.Fatal(err)
	}
	return run
}

// A run of 10,000 parameters and metrics is read whole, by its name and from a list; texts
// that stand first among its series take no place from the numbers.
func TestARunIsReadWhole(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	config, want, last := map[string]any{}, map[string]any{}, map[string]float64{}
	for i := range 10_000 {
		config[fmt.Sprintf("c%05d", i)], want[fmt.Sprintf("c%05d", i)] = i, int64(i)
		last[fmt.Sprintf("m%05d", i)] = float64(i) / 4
	}
	few := map[string]any{"b": true, "f": 0.5, "s": "x", "big": int64(1<<60 + 1), "nan": math.NaN(), "whole": 5.0}
	shown := map[string]any{"b": true, "f": 0.5, "s": "x", "big": "1152921504606846977", "nan": "NaN", "whole": int64(5)}
	for path, value := range few {
		config[path], want[path] = value, shown[path]
	}
	long := k.logged(kymogram.Options{RunName: "long", Config: config}, func(r *kymogram.Run) error { return r.LogMap(last) })
	short := k.logged(kymogram.Options{RunName: "short", Config: few}, func(r *kymogram.Run) error {
		for i := range 90 {
			if err := r.LogText(fmt.Sprintf("a%02d", i), "x"); err != nil {
				return err
			}
		}
		for i := range 40 {
			if err := r.Log(fmt.Sprintf("m%05d", i), float64(i)/4); err != nil {
				return err
			}
		}
		return r.LogInt("n", math.MaxInt64)
	})
	check := func(run *read.Run, want map[string]any, metrics int) {
		t.Helper()
		got, err := run.Config(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: config %v (-want +got):\n%s", run.Name, err, diff)
		}
		summary, err := run.Summary(t.Context())
		for i := range metrics {
			name := fmt.Sprintf("m%05d", i)
			if one, ok := summary[name]; err != nil || !ok || one.Float != float64(i)/4 || one.Step == nil || *one.Step != 0 {
				t.Fatalf("%s: %s is %+v, %v", run.Name, name, one, err)
			}
		}
		if run.Name == "short" && summary["n"].Int != math.MaxInt64 {
			t.Errorf("n is %+v", summary["n"])
		}
		if len(summary) != metrics+map[string]int{"long": 0, "short": 1}[run.Name] {
			t.Errorf("%s: %d last values", run.Name, len(summary))
		}
	}
	check(long, want, 10_000)
	check(short, shown, 40)
	client, err := read.Dial(k.env["KYMOGRAM_SERVER"], k.key())
	if err != nil {
		t.Fatal(err)
	}
	for run, err := range client.Runs(t.Context(), "default", "default", read.RunFilter{Sort: "name"}) {
		if err != nil {
			t.Fatal(err)
		}
		check(run, map[string]map[string]any{"long": want, "short": shown}[run.Name], map[string]int{"long": 10_000, "short": 40}[run.Name])
	}
}

// rlRow is a row of an RL environment, of the oracle and as it comes back.
type rlRow struct {
	Episode *int64
	Step    int64
	Value   float64
}

// Points, chunks and record batches of any size hold what was logged, episode by episode.
func TestReadersAgree(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	chance := rand.New(rand.NewPCG(8, 9))
	var want []rlRow
	run := k.logged(kymogram.Options{RunName: "rl"}, func(r *kymogram.Run) error {
		steps := map[int64]int64{}
		for update := range int64(300) {
			env, key := kymogram.EnvValues{Env: "e"}, int64(-1)
			if episode := chance.Int64N(6); episode < 5 {
				env.Episode, key = &episode, episode
			}
			for range 1 + chance.IntN(4) {
				value := chance.NormFloat64()
				env.Values = append(env.Values, value)
				want = append(want, rlRow{env.Episode, steps[key], value})
				steps[key]++
			}
			if err := r.LogRLEnvironmentSteps("reward", update, []kymogram.EnvValues{env}); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortStableFunc(want, func(a, b rlRow) int {
		number := func(r rlRow) []int64 {
			if r.Episode == nil {
				return []int64{-1, r.Step}
			}
			return []int64{*r.Episode, r.Step}
		}
		return slices.Compare(number(a), number(b))
	})
	ctx := t.Context()
	got := []rlRow{}
	for p, err := range run.Points(ctx, "reward") {
		if err != nil {
			t.Fatal(err)
		}
		row := rlRow{Step: p.Axes[read.StepAxis], Value: p.Float}
		if episode, ok := p.Axes[model.AxisEpisode]; ok {
			row.Episode = &episode
		}
		got = append(got, row)
	}
	agree(t, "points", want, got)
	for _, size := range []int{1, 7, 1_000_000} {
		agree(t, fmt.Sprint("chunks of ", size), want, chunked(t, run, size))
		agree(t, fmt.Sprint("batches of ", size), want, batched(t, run, size))
	}
}

func chunked(t *testing.T, run *read.Run, size int) (out []rlRow) {
	t.Helper()
	for chunk, err := range run.Chunks(t.Context(), "reward", size) {
		if err != nil || chunk.Rows() > size || chunk.Axis != model.AxisEpisode || chunk.Labels["env_id"] != "e" {
			t.Fatalf("%+v, %v", chunk, err)
		}
		episodes := chunk.Axes[model.AxisEpisode]
		for i := range chunk.Rows() {
			row := rlRow{Step: chunk.Axes[read.StepAxis].Values[i], Value: chunk.Floats[i]}
			if episodes.Has == nil || episodes.Has[i] {
				row.Episode = &episodes.Values[i]
			}
			out = append(out, row)
		}
	}
	return out
}

func batched(t *testing.T, run *read.Run, size int) (out []rlRow) {
	t.Helper()
	for batch, err := range record.Batches(run.Arrow(t.Context(), "reward", size)) {
		if err != nil {
			t.Fatal(err)
		}
		column := func(name string) arrow.Array { return batch.Column(batch.Schema().FieldIndices(name)[0]) }
		episodes, steps, values := column("episode").(*array.Int64), column("step").(*array.Int64), column("value").(*array.Float64)
		for i := range int(batch.NumRows()) {
			row := rlRow{Step: steps.Value(i), Value: values.Value(i)}
			if !episodes.IsNull(i) {
				episode := episodes.Value(i)
				row.Episode = &episode
			}
			out = append(out, row)
		}
		if writer := hex.EncodeToString(column("writer").(*array.FixedSizeBinary).Value(0)); len(writer) != 32 {
			t.Errorf("a writer %s", writer)
		}
	}
	return out
}

func agree(t *testing.T, name string, want, got []rlRow) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
