package kymogram_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kymogram/kymogram"
)

func Example() {
	ctx := context.Background()
	run, err := kymogram.Init(ctx, kymogram.Options{
		Project: "digits", RunName: "lr-0.1",
		Config: map[string]any{"lr": 0.1},
	})
	if err != nil {
		log.Fatal(err)
	}
	for step := range int64(1000) {
		run.Log("train/loss", 1/float64(step+1))
		if step%100 == 0 {
			run.LogMap(map[string]float64{"eval/loss": 0.5, "eval/accuracy": 0.9}, kymogram.Step(step))
		}
	}
	// Close waits for the server while it answers. Points that it does not get
	// now are safe in the spool.
	var left *kymogram.UndeliveredError
	if err := run.Close(ctx); errors.As(err, &left) {
		fmt.Println(left.Points, "points are delivered later")
	}
}

func ExampleRun_Series() {
	run, err := kymogram.Init(context.Background(), kymogram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close(context.Background())
	loss, err := run.Series("train/loss", kymogram.Labels(map[string]string{"rank": "0"}))
	if err != nil {
		log.Fatal(err)
	}
	loss.Log(0.5) // without a look-up: the fastest way
}
