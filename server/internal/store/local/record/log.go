package record

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
)

// Log is the log of records, with the group commit of package wal. Its errors are
// those that a caller of the store sees.
type Log struct{ *wal.Log }

// Append writes a record; it is durable after wait.
func (l Log) Append(e *Encoder) (lsn uint64, err error) {
	if lsn, err = l.Write(e.Buf); err != nil {
		return 0, Refusing(err)
	}
	return lsn, nil
}

// Wait returns when a record is on disk: many callers share one fsync. There is
// nothing to wait for when lsn is 0.
func (l Log) Wait(ctx context.Context, lsn uint64) error {
	if lsn == 0 {
		return nil
	}
	if err := l.Log.Wait(ctx, lsn); err != nil {
		return Refusing(err)
	}
	return nil
}

// Refusing turns a failure of the log into the error that a caller sees.
func Refusing(err error) error {
	switch {
	case errors.Is(err, wal.ErrDiskFull):
		return model.Errorf(model.CodeDiskFull, "the disk of the data folder is full%s", reason(err)).WithHint("free space; writers keep their points and send them again")
	case errors.Is(err, wal.ErrPoisoned):
		return model.Errorf(model.CodeUnavailable, "the store takes no writes after a failure of the disk%s", reason(err)).WithHint("check the disk and restart the server; writers keep their points")
	case errors.Is(err, wal.ErrClosed):
		return model.Errorf(model.CodeUnavailable, "the store is closed")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return model.Errorf(model.CodeTimeout, "the write was not waited for: %v", err)
	}
	return fmt.Errorf("write to the log: %w", err)
}

// reason is what the system said, without the paths that the error names: callers
// over the network see it.
func reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return ": " + number.Error()
	}
	return ""
}
