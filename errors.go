package kymogram

import (
	"errors"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// Error is an error with a machine-readable code and a hint what to do.
type Error = model.Error

// ErrClosed is returned by log calls after Close.
var ErrClosed = errors.New("the run is closed")

// ErrQueueFull is returned by log calls under [BackpressureRaise].
var ErrQueueFull = errors.New("the queue is full: the server has not acked as many points as Options.QueueCapacity")

// ErrNoEncoder is returned by LogRendering where no encoder is installed.
var ErrNoEncoder = errors.New("LogRendering encodes with ffmpeg (libx264), and it is not installed: install ffmpeg, or name it in Options.Rendering.FFmpeg")

// UndeliveredError says that points are still on this machine.
type UndeliveredError struct {
	Points uint64 // in the spool, not acked by the server
	Lost   uint64 // dropped because the spool was full
	Folder string
	Reason string // of the last failure, may be empty
}

func (e *UndeliveredError) Error() string {
	text := fmt.Sprintf("%d points wait in the spool %s; `kymogram sync` delivers them", e.Points, e.Folder)
	if e.Lost > 0 {
		text += fmt.Sprintf("; %d points are lost because the spool was full", e.Lost)
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// SenderErrors gives the errors of the delivery since the last call, oldest
// first: of those that were not asked for the newest 1,000 are kept.
func (r *Run) SenderErrors() []error { return r.errors.Take() }

// listen sets up what becomes of the delivery's errors.
func (r *Run) listen() {
	r.errors.Hear = r.opts.OnError
	switch r.opts.ErrorStrategy {
	case ErrorsWarn, ErrorsRaiseOnClose:
		r.errors.Warn = func(text string) { r.opts.Log.Warn(text) }
	case ErrorsRaiseOnLog:
		r.errors.Raise = true
	}
}

// failedDelivery is what Close joins to its own error.
func (r *Run) failedDelivery() error {
	if r.opts.ErrorStrategy != ErrorsRaiseOnClose {
		return nil
	}
	return r.errors.First()
}

func invalidf(format string, args ...any) error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

func closedError(err error) error {
	if errors.Is(err, spool.ErrClosed) {
		return ErrClosed
	}
	return err
}
