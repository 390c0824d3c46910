package data

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
)

// Guest is the catalog of a folder, open beside the server that owns it. Where none
// runs it keeps others out.
type Guest struct {
	*sqlite.DB
	lock io.Closer // nil beside a server
}

// Guest opens the catalog of a folder that is there.
func (f Folder) Guest(ctx context.Context, log *slog.Logger) (*Guest, error) {
	if err := f.Elsewhere(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(f.Catalog()); errors.Is(err, fs.ErrNotExist) {
		return nil, model.Errorf(model.CodeNotFound, "%s is no data folder of a server: it has no %s", string(f), CatalogFile).
			WithHint("give the folder that kymogram serve --data uses")
	}
	lock, err := f.Lock()
	if err != nil && !errors.Is(err, wal.ErrLocked) {
		return nil, Explain(string(f), err)
	}
	g := &Guest{lock: lock}
	if err := f.Live(log); err != nil {
		return nil, errors.Join(Explain(string(f), err), g.unlock())
	}
	if g.DB, err = sqlite.OpenWith(ctx, f.Catalog(), sqlite.Options{Guest: lock == nil, Mark: f.CatalogMark(), Logger: log}); err != nil {
		return nil, errors.Join(Explain(string(f), err), g.unlock())
	}
	return g, nil
}

// Close closes the catalog and lets others in.
func (g *Guest) Close() error { return errors.Join(g.DB.Close(), g.unlock()) }

func (g *Guest) unlock() error {
	if g.lock == nil {
		return nil
	}
	return g.lock.Close()
}
