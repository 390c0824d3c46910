package auth

import (
	"os"

	"github.com/kymogram/kymogram/internal/platform"
)

// lockFile holds an exclusive lock until unlock: several servers of one user may
// start at once and merge into one file.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := platform.Lock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
