package server

import (
	"context"
	"errors"
	"time"
)

// Within gives work some time to return after ctx ended.
func Within(ctx context.Context, limit time.Duration, work func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return errors.New("the server did not stop in time and was cut; the next start recovers what was acknowledged")
	}
}
