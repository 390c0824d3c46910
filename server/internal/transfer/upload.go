package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/importer"
)

// upload is a run whose files are to come, by its place in the report.
type upload struct {
	line  int
	files []importer.File
}

// uploadAll sends the files of runs that are there now. A file that the server has is left
// alone, so an import that was stopped goes on.
func (w *Import) uploadAll(ctx context.Context) error {
	for _, one := range w.uploads {
		line := &w.Report.Runs[one.line]
		id, err := w.Server.ExactRunID(ctx, line.Run)
		if err != nil {
			return err
		}
		there, err := w.filesThere(ctx, id)
		if err != nil {
			return err
		}
		for _, file := range one.files {
			err := w.uploadFile(ctx, id, file, there[file.Name])
			if ctx.Err() != nil {
				return ErrInterrupted
			}
			if err != nil {
				line.State, line.Error = Failed, fmt.Sprintf("the file %s: %s", file.Name, withHint(err))
				continue
			}
			line.Files++
		}
	}
	w.uploads = nil
	return nil
}

// filesThere are the hashes of a run's files by their names.
func (w *Import) filesThere(ctx context.Context, id string) (map[string]string, error) {
	list, err := w.Server.List(ctx, remote.RunPath(id, "files"), "files", url.Values{}, 0)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, item := range list.Items {
		var file struct{ Name, SHA256 string }
		if err := json.Unmarshal(item, &file); err != nil {
			return nil, fmt.Errorf("read the files of run %s: %w", id, err)
		}
		out[file.Name] = file.SHA256
	}
	return out, nil
}

func (w *Import) uploadFile(ctx context.Context, id string, file importer.File, there string) error {
	f, err := file.Root.Open(file.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if there != "" {
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) == there {
			return nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	parts := strings.Split(file.Name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, w.Server.Base+"/wandb/uploads/"+id+"/"+strings.Join(parts, "/"), f)
	if err != nil {
		return err
	}
	if put.ContentLength = file.Size; file.Size == 0 {
		put.Body = http.NoBody
	}
	if w.Server.Key != "" {
		put.Header.Set("Authorization", "Bearer "+w.Server.Key)
	}
	answer, err := http.DefaultClient.Do(put)
	if err != nil {
		return model.Errorf(model.CodeUnavailable, "it was not sent: %v", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return model.Errorf(model.CodeInvalid, "the server answers %s: %s", answer.Status, strings.TrimSpace(string(said)))
	}
	return nil
}
