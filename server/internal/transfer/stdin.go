package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Stdin is the name of what comes from the standard input, whose path is "-".
const Stdin = "stdin"

// Spooled copies what comes from in to a file named [Stdin], for readers that go to and fro. The
// caller removes it.
func Spooled(ctx context.Context, in io.Reader) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "kymogram-stdin-*")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the standard input: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	f, err := os.OpenFile(filepath.Join(dir, Stdin), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("make a file for the standard input: %w", err)
	}
	done := make(chan error, 1)
	// Nothing ends a read of a terminal or a pipe: the process ends it, which was interrupted.
	go func() {
		_, err := io.Copy(f, in)
		done <- errors.Join(err, f.Close())
	}()
	select {
	case <-ctx.Done():
		return "", nil, ErrInterrupted
	case err = <-done:
	}
	if err != nil {
		return "", nil, fmt.Errorf("copy the standard input: %w", err)
	}
	return f.Name(), remove, nil
}
