package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

// rendering is a video as the API lists it.
type rendering struct {
	model.Rendering
	Stored bool   `json:"stored"`
	URL    string `json:"url"`
}

// Videos counts what a download found, as `kymogram renderings export --json` prints it.
type Videos struct {
	Written    int      `json:"written"`
	There      int      `json:"there"`
	OnTheirWay int      `json:"on_their_way"`
	Lost       int      `json:"lost"`
	Files      []string `json:"files"`

	folder string
}

// Print writes it for a person.
func (report *Videos) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%d videos in %s, %d were there, %d on their way, %d lost\n", report.Written, report.folder, report.There, report.OnTheirWay, report.Lost)
	return err
}

// Download writes the videos of a list into a folder; none there is overwritten.
func Download(ctx context.Context, server *remote.Client, list []json.RawMessage, folder string) (*Videos, error) {
	report := &Videos{Files: []string{}, folder: folder}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of videos: %w", err)
	}
	turns := map[string]int{}
	for _, raw := range list {
		var r rendering
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("read rendering: %w", err)
		}
		switch {
		case r.SHA256 == "":
			report.Lost++
		case !r.Stored:
			report.OnTheirWay++
		default:
			if err := report.fetch(ctx, server, &r, filepath.Join(folder, r.fileName(turns))); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// fileName is the same for the same list.
func (r *rendering) fileName(turns map[string]int) string {
	safe := strings.Map(func(c rune) rune {
		if c < ' ' || strings.ContainsRune(`/\:*?"<>|`, c) {
			return '_'
		}
		return c
	}, r.Env)
	name := fmt.Sprintf("%s_%d", strings.TrimLeft(safe, "."), r.Episode)
	turns[name]++
	if n := turns[name]; n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name + ".mp4"
}

func (report *Videos) fetch(ctx context.Context, server *remote.Client, r *rendering, path string) error {
	report.Files = append(report.Files, path)
	if sum, err := fileSum(path); err == nil {
		if sum != r.SHA256 {
			return model.Errorf(model.CodeConflict, "%s is there with other bytes", path).WithHint("export into another folder with --out")
		}
		report.There++
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := download(ctx, server, r, path); err != nil {
		return err
	}
	report.Written++
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// download writes a video under another name first: it is there as a whole or
// not at all.
func download(ctx context.Context, server *remote.Client, r *rendering, path string) error {
	response, err := server.Send(ctx, http.MethodGet, r.URL, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write a video: %w", err)
	}
	defer os.Remove(f.Name())
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), response.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("download %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != r.SHA256 {
		return model.Errorf(model.CodeUnavailable, "the bytes of %s were changed or cut on their way", path).WithHint("run the export again")
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return fmt.Errorf("write a video: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write a video: %w", err)
	}
	return nil
}
