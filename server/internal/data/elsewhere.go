package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

func (f Folder) elsewhere() string { return filepath.Join(string(f), ElsewhereFile) }

// Elsewhere is an error where the catalog of a folder is in a database, for what reads it in
// the folder. Without it such a start would make all runs anew, without their names.
func (f Folder) Elsewhere() error {
	place, err := os.ReadFile(f.elsewhere())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return Explain(string(f), fmt.Errorf("read where the catalog is: %w", err))
	}
	return model.Errorf(model.CodeConflict, "the catalog of %s is in %s", string(f), strings.TrimSpace(string(place))).
		WithHint("A server takes it with --catalog. Look at it, copy and repair it with PostgreSQL's tools; keys are made with `kymogram key --server`.")
}

// MayBeElsewhere says whether the catalog is in a database already, known, or may be. A folder
// that has a catalog is refused: its runs would have no names there.
func (f Folder) MayBeElsewhere(place string) (known bool, err error) {
	if _, err := os.Stat(f.Catalog()); err == nil {
		return false, model.Errorf(model.CodeConflict, "%s has a catalog, which a server with %s would not read", string(f), place).
			WithHint("Serve without --catalog, or with a new data folder and import what `kymogram export` wrote.")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, Explain(string(f), fmt.Errorf("look for a catalog: %w", err))
	}
	if _, err = os.Stat(f.elsewhere()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// SetElsewhere notes that the catalog is in a database, named without its password.
func (f Folder) SetElsewhere(place string) error {
	if err := os.WriteFile(f.elsewhere(), []byte(place+"\n"), 0o600); err != nil {
		return Explain(string(f), fmt.Errorf("note where the catalog is: %w", err))
	}
	return nil
}
