package kymogram

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// Interrupt ends the run as interrupted by SIGINT or SIGTERM; else it is like [Run.Close].
// Another signal ends it as failed.
func (r *Run) Interrupt(ctx context.Context, sig os.Signal) error {
	return r.end(ctx, model.StatusFailed, signalName(sig))
}

// signalName is the name of a signal that interrupts; "" of any other.
func signalName(sig os.Signal) string {
	switch sig {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return ""
}

// signalOf is the signal that cancelled a context of [signal.NotifyContext], by its
// cause, which has no type of its own.
func signalOf(cause error) string {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if cause.Error() == sig.String()+" signal received" {
			return signalName(sig)
		}
	}
	return ""
}

// caught are the signals that end a program, from now on.
func caught() chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// endOnSignal waits for the signal that ends the run and the program.
func (r *Run) endOnSignal(ctx context.Context, signals chan os.Signal) {
	select {
	case <-ctx.Done():
		signal.Stop(signals)
		select { // one that came while the run closed is the program's
		case sig := <-signals:
			platform.Raise(sig)
		default:
		}
	case sig := <-signals:
		signal.Stop(signals) // a second one ends the program at once
		if err := r.Interrupt(context.Background(), sig); err != nil {
			r.opts.Log.Warn("the run ends by a signal", "signal", sig, "error", err)
		}
		platform.Raise(sig)
	}
}
