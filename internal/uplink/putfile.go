package uplink

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// putFile uploads a file as the blob of its SHA-256, from where an earlier try
// of anybody ended. It gives up when nothing moves for stallLimit; a slow link
// may take as long as it needs.
func (s *Server) putFile(ctx context.Context, sha256, path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer f.Close()
	offset, whole, err := s.uploaded(ctx, sha256)
	if err != nil || whole {
		return err
	}
	err = s.upload(ctx, sha256, f, offset, size)
	if offset > 0 && model.CodeOf(err) == model.CodeInvalid {
		// What was there were other bytes, and the server dropped them.
		err = s.upload(ctx, sha256, f, 0, size)
	}
	return err
}

func (s *Server) uploadRequest(ctx context.Context, method, sha256 string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url.String()+"/api/v1/blobs/"+sha256+"/upload", body)
	if err != nil {
		return nil, fmt.Errorf("upload: %w", err)
	}
	return req, nil
}

// uploaded asks how much of a blob the server has.
func (s *Server) uploaded(ctx context.Context, sha256 string) (offset int64, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	req, err := s.uploadRequest(ctx, http.MethodHead, sha256, http.NoBody)
	if err != nil {
		return 0, false, err
	}
	header, err := s.head(req)
	if err != nil {
		return 0, false, err
	}
	offset, err = strconv.ParseInt(header.Get("Upload-Offset"), 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%w: it does not say how much of an upload it has", ErrUnreachable)
	}
	return offset, header.Get("Upload-Complete") == "?1", nil
}

// upload sends the rest of a file. A server that has more than the file holds is
// sent nothing, and sees that it has other bytes.
func (s *Server) upload(ctx context.Context, sha256 string, f *os.File, offset, size int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer stall.Stop()
	left := max(size-offset, 0)
	req, err := s.uploadRequest(ctx, http.MethodPatch, sha256, movingReader{io.NewSectionReader(f, size-left, left), stall})
	if err != nil {
		return err
	}
	if req.ContentLength = left; left == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/partial-upload")
	req.Header.Set("Upload-Offset", strconv.FormatInt(offset, 10))
	req.Header.Set("Upload-Complete", "?1")
	req.Header.Set("Expect", "100-continue") // a refusal comes before the bytes
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
