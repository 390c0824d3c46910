// Command gomlx trains a network of GoMLX to tell two spirals apart, and keeps the training
// in a run: loss and accuracy of every step, the evaluation, the weights as histograms, and
// the program's log lines.
//
//	kymogram serve --data /tmp/kymogram &
//	cd examples/gomlx && go run . -steps 2000 -rate 0.01
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"

	"github.com/gomlx/gomlx/backends"
	_ "github.com/gomlx/gomlx/backends/simplego" // in Go alone; other back ends need C
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	mlctx "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/datasets"
	"github.com/gomlx/gomlx/pkg/ml/layers"
	"github.com/gomlx/gomlx/pkg/ml/layers/activations"
	"github.com/gomlx/gomlx/pkg/ml/train"
	"github.com/gomlx/gomlx/pkg/ml/train/losses"
	"github.com/gomlx/gomlx/pkg/ml/train/metrics"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"

	"github.com/kymogram/kymogram"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gomlx:", err)
		os.Exit(1)
	}
}

type settings struct {
	Steps    int
	Batch    int
	Examples int
	Hidden   int
	Rate     float64
	Seed     uint64
}

func run(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	var s settings
	flags := flag.NewFlagSet("gomlx", flag.ContinueOnError)
	name := flags.String("run", "", "name of the run; made up when empty")
	flags.IntVar(&s.Steps, "steps", 1000, "training steps")
	flags.IntVar(&s.Batch, "batch", 64, "examples of a step")
	flags.IntVar(&s.Examples, "examples", 2000, "examples of the training set; a fifth as many are for evaluation")
	flags.IntVar(&s.Hidden, "hidden", 32, "width of the two hidden layers")
	flags.Float64Var(&s.Rate, "rate", 0.01, "learning rate of Adam")
	flags.Uint64Var(&s.Seed, "seed", 1, "seed of the data")
	if err := flags.Parse(args); err != nil {
		return err
	}
	run, err := kymogram.Init(ctx, kymogram.Options{
		Project: "spirals", RunName: *name, Tags: []string{"example", "gomlx"}, Config: map[string]any{
			"steps": s.Steps, "batch": s.Batch, "examples": s.Examples, "hidden": s.Hidden, "rate": s.Rate, "seed": s.Seed,
		},
	})
	if err != nil {
		return err
	}
	fmt.Printf("run %s (%s) goes to %s\n", run.Name(), run.ID(), run.Server())
	err = fit(ctx, run, s)
	// The run is ended in any case: as failed when training failed.
	ended := run.Fail(context.WithoutCancel(ctx), err)
	var left *kymogram.UndeliveredError
	if errors.As(ended, &left) {
		fmt.Fprintln(os.Stderr, "gomlx:", left)
		ended = nil // nothing is lost
	}
	return errors.Join(err, ended)
}

// fit trains and logs.
func fit(ctx context.Context, run *kymogram.Run, s settings) error {
	backend, err := backends.New()
	if err != nil {
		return err
	}
	log := slog.New(kymogram.NewHandler(run, slog.NewTextHandler(os.Stderr, nil), kymogram.HandlerOptions{}))
	log.Info("training begins", "backend", backend.Name())
	training, err := spirals(backend, "training", s.Examples, s.Seed)
	if err != nil {
		return err
	}
	training.Infinite(true).Shuffle().BatchSize(s.Batch, true)
	evaluation, err := spirals(backend, "evaluation", s.Examples/5, s.Seed+1)
	if err != nil {
		return err
	}
	evaluation.BatchSize(s.Examples/5, false)

	model := mlctx.New()
	model.SetParam(optimizers.ParamLearningRate, s.Rate)
	accuracy := func() metrics.Interface { return metrics.NewMeanBinaryLogitsAccuracy("accuracy", "accuracy") }
	trainer := train.NewTrainer(backend, model, network(s.Hidden), losses.BinaryCrossentropyLogits, optimizers.Adam().Done(),
		nil, []metrics.Interface{accuracy()})
	loop := train.NewLoop(trainer)
	loop.OnStep("kymogram", 0, func(loop *train.Loop, values []*tensors.Tensor) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		step := int64(loop.LoopStep)
		if err := run.Log("loss", number(values[0]), kymogram.Step(step)); err != nil {
			return err
		}
		if loop.LoopStep%50 != 0 {
			return nil
		}
		if err := weights(run, model, step); err != nil {
			return err
		}
		return evaluate(run, log, trainer, evaluation, step)
	})
	if _, err := loop.RunSteps(training, s.Steps); err != nil {
		return err
	}
	return evaluate(run, log, trainer, evaluation, int64(s.Steps))
}

// network has two hidden layers, and one logit as its result.
func network(hidden int) func(model *mlctx.Context, spec any, inputs []*graph.Node) []*graph.Node {
	return func(model *mlctx.Context, _ any, inputs []*graph.Node) []*graph.Node {
		x := inputs[0]
		for layer := range 2 {
			x = activations.Apply(activations.TypeTanh, layers.Dense(model.In(fmt.Sprintf("hidden_%d", layer)), x, true, hidden))
		}
		return []*graph.Node{layers.Dense(model.In("logit"), x, true, 1)}
	}
}

// evaluate logs loss and accuracy over the evaluation set.
func evaluate(run *kymogram.Run, log *slog.Logger, trainer *train.Trainer, set *datasets.InMemoryDataset, step int64) error {
	set.Reset()
	values, err := trainer.Eval(set)
	if err != nil {
		return err
	}
	// The loss of the last batch, its mean over all, then the trainer's metrics.
	got := map[string]float64{"loss": number(values[1]), "accuracy": number(values[2])}
	log.Info("evaluated", "step", step, "loss", got["loss"], "accuracy", got["accuracy"])
	return run.LogMap(got, kymogram.Step(step), kymogram.Evaluation())
}

// weights logs every variable that is trained as a histogram.
func weights(run *kymogram.Run, model *mlctx.Context, step int64) (err error) {
	model.EnumerateVariables(func(v *mlctx.Variable) {
		if err != nil || !v.Trainable || v.Shape().Size() < 2 {
			return
		}
		var value *tensors.Tensor
		if value, err = v.Value(); err != nil {
			return
		}
		var values []float32
		if values, err = tensors.CopyFlatData[float32](value); err == nil {
			err = run.LogHistogram("weights"+v.ScopeAndName(), histogram(values), kymogram.Step(step))
		}
	})
	return err
}

// histogram has 32 bins between the least and the greatest value.
func histogram(values []float32) kymogram.Histogram {
	const bins = 32
	lo, hi := float64(slices.Min(values)), float64(slices.Max(values))
	if lo == hi {
		hi = lo + 1
	}
	h := kymogram.Histogram{BinEdges: make([]float64, bins+1), Counts: make([]float64, bins)}
	for i := range h.BinEdges {
		h.BinEdges[i] = lo + (hi-lo)*float64(i)/bins
	}
	for _, v := range values {
		h.Counts[min(bins-1, int(bins*(float64(v)-lo)/(hi-lo)))]++
	}
	return h
}

func number(t *tensors.Tensor) float64 { return float64(tensors.ToScalar[float32](t)) }

// spirals are points of two spirals with noise, and which of the two each is of.
func spirals(backend backends.Backend, name string, n int, seed uint64) (*datasets.InMemoryDataset, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	points, labels := make([][]float32, n), make([][]float32, n)
	for i := range points {
		side := i % 2
		r := random.Float64()
		angle := 1.5*2*math.Pi*r + math.Pi*float64(side)
		points[i] = []float32{float32(r*math.Cos(angle) + 0.02*random.NormFloat64()), float32(r*math.Sin(angle) + 0.02*random.NormFloat64())}
		labels[i] = []float32{float32(side)}
	}
	return datasets.InMemoryFromData(backend, name, []any{points}, []any{labels})
}
