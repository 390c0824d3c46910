package uplink

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// putFile uploads a file as the blob of its SHA-256. It gives up when nothing
// moves for stallLimit; a slow link may take as long as it needs.
func (s *Server) putFile(ctx context.Context, sha256, path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer stall.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url.String()+"/api/v1/blobs/"+sha256, movingReader{f, stall})
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/octet-stream")
	return s.send(req, nil)
}

// movingReader puts the end off whenever bytes move.
type movingReader struct {
	io.Reader
	stall *time.Timer
}

func (m movingReader) Read(p []byte) (int, error) {
	m.stall.Reset(stallLimit)
	return m.Reader.Read(p)
}

// AddRendering records a video of a run; its bytes were put before.
func (s *Server) AddRendering(ctx context.Context, run model.RunID, r model.Rendering) error {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	return s.call(ctx, http.MethodPost, "/api/v1/runs/"+run.String()+"/renderings", r, nil)
}
