package spool

import (
	"errors"
	"fmt"
	"os"

	"github.com/kymogram/kymogram/internal/platform"
)

// Lock is a held file lock. It ends with the process, however that dies.
type Lock struct{ f *os.File }

// tryLock takes the lock of a file, making the file; ok is false when another
// holds it.
func tryLock(path string) (l *Lock, ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|platform.NoFollow, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open lock: %w", err)
	}
	ok, err = platform.TryLock(f)
	if err != nil {
		err = fmt.Errorf("lock %s: %w", path, err)
	}
	if err != nil || !ok {
		f.Close()
		return nil, false, err
	}
	return &Lock{f}, true, nil
}

// held reports whether anyone has the lock of a file.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	free, err := platform.TryShare(f)
	if err != nil {
		return false, fmt.Errorf("probe lock %s: %w", path, err)
	}
	return !free, nil
}

// Release gives the lock up.
func (l *Lock) Release() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("release lock: %w", err)
	}
	return nil
}
