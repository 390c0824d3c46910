package read

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// File is a file of a run.
type File struct {
	Name        string `json:"name"` // a relative path with slashes
	Size        int64  `json:"size"` // bytes
	ContentType string `json:"content_type"`
	SHA256      string `json:"sha256"` // hexadecimal
	MD5         string `json:"md5"`    // base64, or empty
	ChangedNs   int64  `json:"changed_ns"`

	run *Run
}

// Files lists the files of the run whose names begin with a prefix, "" for all, by name.
func (r *Run) Files(ctx context.Context, prefix string) iter.Seq2[*File, error] {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return func(yield func(*File, error) bool) {
		for f, err := range pages[File](ctx, r.client, r.path("/files"), "files", query) {
			if err != nil {
				yield(nil, err)
				return
			}
			f.run = r
			if !yield(&f, nil) {
				return
			}
		}
	}
}

// Open reads the file's bytes as they come; [File.Download] compares them with their sum.
func (f *File) Open(ctx context.Context) (io.ReadCloser, error) {
	parts := strings.Split(f.Name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	response, err := f.run.client.server.Send(ctx, http.MethodGet, f.run.path("/files/"+strings.Join(parts, "/")), nil, nil)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// Download writes the file under its name into a folder, and compares its bytes with their
// sum. It is there as a whole or not at all. A file that has the same bytes already is not
// fetched again, and one that has others is an *Error with the code conflict. What lies
// outside the folder is never written.
func (f *File) Download(ctx context.Context, folder string) (name string, written bool, err error) {
	local := filepath.FromSlash(f.Name)
	if !filepath.IsLocal(local) || !model.IsCleanPath(f.Name) {
		return "", false, model.Errorf(model.CodeInvalid, "this system cannot have a file named %q", model.Clip(f.Name))
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", false, fmt.Errorf("make the folder of files: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", false, fmt.Errorf("open the folder of files: %w", err)
	}
	defer root.Close()
	name = filepath.Join(folder, local)
	there, err := f.isIn(root)
	if err != nil || there {
		return name, false, err
	}
	if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return "", false, fmt.Errorf("make a folder of files: %w", err)
	}
	return name, true, f.fetch(ctx, root)
}

// isIn reports whether the file is in a folder already.
func (f *File) isIn(root *os.Root) (bool, error) {
	old, err := root.Open(f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a file: %w", err)
	}
	defer old.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, old); err != nil {
		return false, fmt.Errorf("read %s: %w", f.Name, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return false, model.Errorf(model.CodeConflict, "%s is there with other bytes", f.Name).WithHint("Choose another folder.")
	}
	return true, nil
}

// fetch writes the file under another name first.
func (f *File) fetch(ctx context.Context, root *os.Root) error {
	body, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	temporary := path.Join(path.Dir(f.Name), ".kymogram-"+rand.Text())
	to, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	defer func() { _ = root.Remove(temporary) }()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, sum), body)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("download %s: %w", f.Name, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return model.Errorf(model.CodeUnavailable, "%s was changed meanwhile, or its bytes were cut on their way", f.Name).WithHint("List the files again and repeat the download.")
	}
	if err := root.Rename(temporary, f.Name); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	return nil
}
