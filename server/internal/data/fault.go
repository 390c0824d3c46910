package data

import (
	"errors"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// Explain tells the person who starts a server what to do about a data
// folder that cannot be opened; errors that say so already stay as they are.
func Explain(folder string, err error) error {
	var known *model.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	code := -1
	var fault *driver.Error
	if errors.As(err, &fault) {
		code = fault.Code() & 0xff // without the extension
	}
	switch {
	case code == sqlite3.SQLITE_FULL || platform.IsDiskFull(err):
		return model.Errorf(model.CodeDiskFull, "the disk of %s is full: %v", folder, err).
			WithHint("free space and start again; nothing that was acknowledged is lost")
	case code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT:
		return model.Errorf(model.CodeInternal, "the catalog in %s is damaged: %v", folder, err).
			WithHint("`kymogram data repair --data %s` makes it anew from its mirror; the points in %s are other files and untouched", folder, StoreFolder)
	case platform.IsReadOnly(err) || code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_PERM:
		return model.Errorf(model.CodePermission, "cannot write in the data folder %s: %v", folder, err).
			WithHint("give this user every file in it (chown -R), or choose another with --data DIR")
	}
	return err
}
