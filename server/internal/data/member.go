package data

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
)

// Points are in a folder, or in a database that several servers share. A folder of the second
// kind is a member: it has a name, and nothing that its server cannot do without.

func (f Folder) storeElsewhere() string { return filepath.Join(string(f), StoreElsewhereFile) }

// StoreElsewhere is an error where the points of a folder are in a database, for what looks for
// them in the folder.
func (f Folder) StoreElsewhere() error {
	place, err := os.ReadFile(f.storeElsewhere())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return Explain(string(f), fmt.Errorf("read where the points are: %w", err))
	}
	return model.Errorf(model.CodeConflict, "the points of %s are in %s", string(f), strings.TrimSpace(string(place))).
		WithHint("A server takes them with --store and --catalog, and `kymogram migrate --back` moves them into the folder. Copy and repair them with the tools of ClickHouse and PostgreSQL; keys are made with `kymogram key --server`.")
}

// SetStoreElsewhere notes that the points are in a database, named without its password.
func (f Folder) SetStoreElsewhere(place string) error {
	if err := note(f.storeElsewhere(), place); err != nil {
		return Explain(string(f), fmt.Errorf("note where the points are: %w", err))
	}
	return nil
}

// Join makes a folder a member, and holds it until lock is closed. A folder that has points of
// its own is refused: a server with place would not read them.
func (f Folder) Join(place string) (name string, lock io.Closer, err error) {
	own, err := exists(filepath.Join(f.Store(), "VERSION"))
	if err == nil && own {
		err = model.Errorf(model.CodeConflict, "%s has points, which a server with %s would not read", string(f), place).
			WithHint("Move them there with `kymogram migrate --data %s --store clickhouse://… --catalog postgres://…`, name a new folder with --data, or serve without --store.", string(f))
	}
	if err == nil {
		err = os.MkdirAll(f.Store(), 0o700)
	}
	if err != nil {
		return "", nil, Explain(string(f), err)
	}
	lock, err = f.Lock()
	if errors.Is(err, wal.ErrLocked) {
		return "", nil, model.Errorf(model.CodeUnavailable, "the data folder %s is in use by another process", string(f)).
			WithHint("Each server has a data folder of its own: name one with --data DIR.")
	}
	if err != nil {
		return "", nil, Explain(string(f), err)
	}
	name, err = f.node()
	if err != nil {
		return "", nil, errors.Join(Explain(string(f), fmt.Errorf("name the data folder: %w", err)), lock.Close())
	}
	return name, lock, nil
}

// node is the name of a member, which its first start makes. A file that is cut short is
// replaced: a new name costs nothing.
func (f Folder) node() (string, error) {
	path := filepath.Join(string(f), NodeFile)
	text, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(text)); err == nil && len(name) == len(rand.Text()) {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name := rand.Text()
	return name, replace(path, []byte(name+"\n"))
}
