package console

import (
	"errors"
	"log/slog"

	"github.com/kymogram/kymogram/internal/spool"
)

// Run needs descriptors that a process inherits by number.
func Run(int, string, *slog.Logger) (*spool.Folder, error) {
	return nil, errors.New("the console of a program cannot be kept on Windows")
}
