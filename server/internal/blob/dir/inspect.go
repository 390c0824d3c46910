package dir

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kymogram/kymogram/server/internal/blob"
)

// Inventory is what a folder of blobs holds.
type Inventory struct {
	Files  int      `json:"files"`
	Bytes  int64    `json:"bytes"`
	Damage []string `json:"damage"`
}

// Entry is one blob in a folder.
type Entry struct {
	Hash blob.Hash
	Path string // below the folder
	Size int64
	Made time.Time
}

// List gives every blob of a folder, which a server may be using; what is not
// named by a hash is passed over. No folder is no blobs.
func List(ctx context.Context, folder string, each func(Entry) error) error {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		below, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		hash, err := blob.ParseHash(strings.ReplaceAll(filepath.ToSlash(below), "/", ""))
		if err != nil {
			return nil //nolint:nilerr // a file that is being written
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // deleted meanwhile
		}
		return each(Entry{hash, below, info.Size(), info.ModTime()})
	})
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	return nil
}

// Inspect counts the blobs; with whole set it compares each with its name.
func Inspect(ctx context.Context, folder string, whole bool, done func(bytes int64)) (*Inventory, error) {
	out := &Inventory{Damage: []string{}}
	err := List(ctx, folder, func(e Entry) error {
		out.Files++
		out.Bytes += e.Size
		if !whole {
			return nil
		}
		same, err := e.whole(folder)
		if err == nil && !same {
			out.Damage = append(out.Damage, fmt.Sprintf("blob %s holds other bytes", e.Path))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			out.Damage = append(out.Damage, fmt.Sprintf("blob %s: %v", e.Path, err))
		}
		done(e.Size)
		return nil
	})
	return out, err
}

// Has reports whether a folder has a blob, by its hash in hexadecimal.
func Has(folder, hash string) (bool, error) {
	h, err := blob.ParseHash(hash)
	if err != nil {
		return false, fmt.Errorf("look for a blob: %w", err)
	}
	_, file := place(h)
	_, err = os.Stat(filepath.Join(folder, filepath.FromSlash(file)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (e *Entry) whole(folder string) (bool, error) {
	f, err := os.Open(filepath.Join(folder, e.Path))
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return blob.Hash(sum.Sum(nil)) == e.Hash, err
}
