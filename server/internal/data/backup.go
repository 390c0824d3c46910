package data

import (
	"context"
	"io"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// Backup copies the folder, which a server may be using, into a new one. Its progress
// goes to shown.
func (f Folder) Backup(ctx context.Context, to, version string, shown io.Writer) (*backup.Copied, error) {
	if err := f.Elsewhere(); err != nil {
		return nil, err
	}
	store, err := local.OpenFolder(ctx, wal.Looking{}, f.Store(), f.Marks())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	source := backup.Source{
		Folder: string(f), Store: StoreFolder, Catalog: CatalogFile, States: StateFile, Blobs: BlobFolder, Marks: MarksFolder,
		CopyCatalog: sqlite.Copy, CopyStates: statelog.Copy,
		CopyStore: func(ctx context.Context, highest uint64, put func(string, int64, io.Reader) error) error {
			return store.CopyTo(ctx, highest, put)
		},
		ListBlobs: func(ctx context.Context, folder string, each func(string) error) error {
			return dir.List(ctx, folder, func(e dir.Entry) error { return each(e.Path) })
		},
	}
	return source.Backup(ctx, to, version, progress.Bytes(shown, SizeOf(string(f)), "backup"))
}
