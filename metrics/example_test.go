package metrics_test

import (
	"context"
	"fmt"
	"os"

	"github.com/kymogram/kymogram/metrics"
)

func Example() {
	reg := metrics.New(metrics.Options{})
	reg.Configure(metrics.HandlerFunc(func(d metrics.Data) error {
		_, err := fmt.Fprintf(os.Stdout, "%s: %s=%v\n", d.Group, d.Name, d.Value)
		return err
	}), "my_app")

	ctx := metrics.NewContext(context.Background(), reg)
	metrics.PutMetric(ctx, "restarts", 1, "my_app")
	metrics.PutMetric(ctx, "nobody", 1, "listens")
	if err := reg.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: my_app: restarts=1
}

func ExampleStart() {
	reg := metrics.New(metrics.Options{})
	ctx := metrics.NewContext(context.Background(), reg)
	load := func() (err error) {
		// Publishes Trainer.load, its .duration.ms and .count, and .success or .failure.
		defer metrics.Start(ctx, "Trainer.load", "my_app").End(&err)
		return nil
	}
	fmt.Println(load())
	// Output: <nil>
}
