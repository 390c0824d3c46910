// Command train fits a line by gradient descent and logs every step: the least
// that a Go program needs to keep and show a run.
//
//	kymogram serve --data /tmp/kymogram &
//	go run ./examples/train -steps 2000 -rate 0.05
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/kymogram/kymogram"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	name := flags.String("run", "", "name of the run; made up when empty")
	steps := flags.Int("steps", 500, "steps of gradient descent")
	rate := flags.Float64("rate", 0.05, "learning rate")
	seed := flags.Uint64("seed", 1, "seed of the data")
	pause := flags.Duration("pause", 5*time.Millisecond, "time between steps, so that the page can be watched")
	if err := flags.Parse(args); err != nil {
		return err
	}
	run, err := kymogram.Init(ctx, kymogram.Options{
		RunName: *name, Tags: []string{"example", "go"}, Description: "A line through noisy points",
		Config: map[string]any{"steps": *steps, "rate": *rate, "seed": *seed},
	})
	if err != nil {
		return err
	}
	fmt.Printf("run %s (%s) goes to %s\n", run.Name(), run.ID(), run.Server())
	err = train(ctx, run, *steps, *rate, *seed, *pause)
	// The run is ended in any case: as failed when training failed.
	ended := run.Fail(context.WithoutCancel(ctx), err)
	var left *kymogram.UndeliveredError
	if errors.As(ended, &left) {
		fmt.Fprintln(os.Stderr, "train:", left)
		ended = nil // nothing is lost
	}
	return errors.Join(err, ended)
}

// line is the model y = slope·x + offset.
type line struct{ slope, offset float64 }

type sample struct{ x, y float64 }

func train(ctx context.Context, run *kymogram.Run, steps int, rate float64, seed uint64, pause time.Duration) error {
	random := rand.New(rand.NewPCG(seed, 0))
	var model line
	for step := range steps {
		loss, slope, offset := gradient(model, batch(random))
		model.slope -= rate * slope
		model.offset -= rate * offset
		err := run.LogMap(map[string]float64{
			"train/loss": loss, "gradient/slope": slope, "gradient/offset": offset,
			"model/slope": model.slope, "model/offset": model.offset,
		}, kymogram.Step(int64(step)))
		if err != nil {
			return err
		}
		if step%50 == 49 {
			loss, _, _ := gradient(model, batch(random))
			if err := run.Log("eval/loss", loss, kymogram.Step(int64(step)), kymogram.Evaluation()); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

// batch draws points around y = 3x − 1.
func batch(random *rand.Rand) []sample {
	out := make([]sample, 32)
	for i := range out {
		x := random.Float64()*2 - 1
		out[i] = sample{x, 3*x - 1 + 0.1*random.NormFloat64()}
	}
	return out
}

// gradient is the mean squared error of a batch and its slope in the model.
func gradient(m line, samples []sample) (loss, slope, offset float64) {
	n := float64(len(samples))
	for _, s := range samples {
		miss := m.slope*s.x + m.offset - s.y
		loss += miss * miss / n
		slope += 2 * miss * s.x / n
		offset += 2 * miss / n
	}
	return loss, slope, offset
}
