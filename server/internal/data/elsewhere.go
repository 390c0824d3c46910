package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
)

// Where the catalog of a folder is follows from two files:
//
//	catalog.db   catalog.elsewhere
//	there        –                   in the folder
//	–            there               in a database
//	there        there               in both, whole and the same: a move was cut. No server starts
//	–            –                   nowhere: the folder is new

func (f Folder) elsewhere() string { return filepath.Join(string(f), ElsewhereFile) }

// whereabouts says which of the two files are there.
func (f Folder) whereabouts() (file, noted bool, err error) {
	if file, err = exists(f.Catalog()); err == nil {
		noted, err = exists(f.elsewhere())
	}
	return file, noted, Explain(string(f), err)
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (f Folder) errCut() error {
	return model.Errorf(model.CodeConflict, "a move of the catalog of %s was not finished: it is in its file and in a database", string(f)).
		WithHint("Run the same `kymogram migrate` again. Both are whole; with --back the file stays, without it the database.")
}

// Elsewhere is an error where the points or the catalog of a folder are in a database, for what
// reads them in the folder. Without it such a start would make all runs anew, without their names.
func (f Folder) Elsewhere() error {
	if err := f.StoreElsewhere(); err != nil {
		return err
	}
	file, noted, err := f.whereabouts()
	if err != nil || !noted {
		return err
	}
	if file {
		return f.errCut()
	}
	place, err := os.ReadFile(f.elsewhere())
	if err != nil {
		return Explain(string(f), fmt.Errorf("read where the catalog is: %w", err))
	}
	return model.Errorf(model.CodeConflict, "the catalog of %s is in %s", string(f), strings.TrimSpace(string(place))).
		WithHint("A server takes it with --catalog, and `kymogram migrate --back` moves it into the folder. Look at it, copy and repair it with PostgreSQL's tools; keys are made with `kymogram key --server`.")
}

// MayBeElsewhere says whether the catalog is in a database already, known, or may be. A folder
// that has a catalog is refused: its runs would have no names there.
func (f Folder) MayBeElsewhere(place string) (known bool, err error) {
	file, noted, err := f.whereabouts()
	switch {
	case err != nil:
		return false, err
	case file && noted:
		return false, f.errCut()
	case file:
		return false, model.Errorf(model.CodeConflict, "%s has a catalog, which a server with %s would not read", string(f), place).
			WithHint("Move it there with `kymogram migrate --data %s --catalog postgres://…`, or serve without --catalog.", string(f))
	}
	return noted, nil
}

// SetElsewhere notes that the catalog is in a database, named without its password. The note is
// durable, and there whole or not at all.
func (f Folder) SetElsewhere(place string) error {
	if err := note(f.elsewhere(), place); err != nil {
		return Explain(string(f), fmt.Errorf("note where the catalog is: %w", err))
	}
	return nil
}

func note(path, place string) error {
	text := []byte(place + "\n")
	if was, err := os.ReadFile(path); err == nil && string(was) == string(text) {
		return nil
	}
	return replace(path, text)
}

func replace(path string, content []byte) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return wal.OS{}.SyncDir(folder)
}
