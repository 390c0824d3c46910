package delivery

import (
	"errors"
	"os"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// View is the folder that a flag names, else the first that is there.
func View(env func(string) string, path string) (*spool.Folder, error) {
	paths := []string{path}
	if path == "" {
		paths = spool.Candidates(env)
	}
	for _, path := range paths {
		folder, err := spool.ViewFolder(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return folder, err
		}
	}
	return nil, missing(paths[0])
}

// Open opens the folder that a flag names, which must be there, or the one that
// programs use.
func Open(env func(string) string, path string) (*spool.Folder, error) {
	if path == "" {
		return spool.Resolve(env)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, missing(path)
	}
	return spool.OpenFolder(path)
}

func missing(path string) error {
	return model.Errorf(model.CodeNotFound, "there is no spool at %s", path).
		WithHint("programs print where theirs is; `kymogram doctor` shows the default")
}
