package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"slices"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzhttp/writer"
	"github.com/klauspost/compress/gzip"
)

// compressor gzips large text answers.
func compressor() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(1024), gzhttp.ContentTypes([]string{"application/json", "text/csv"}),
		gzhttp.Implementation(writer.GzipWriterFactory{New: newPacker, Levels: func() (least, most int) { return 1, 1 }}),
		gzhttp.CompressionLevel(1), gzhttp.EnableZstd(false), // zstd holds a compressor for the whole answer
	)
	if err != nil { // only for options that cannot be
		return func(h http.Handler) http.HandlerFunc { return h.ServeHTTP }
	}
	return wrap
}

// packer compresses pieces of an answer without state between them. A compressor takes
// up to 1 MB, so an answer that waits for its client holds none.
type packer struct {
	to     io.Writer
	packed bytes.Buffer
	gzip   *gzip.Writer
}

func newPacker(to io.Writer, _ int) writer.GzipWriter {
	p := &packer{to: to}
	p.gzip, _ = gzip.NewWriterLevel(&p.packed, gzip.StatelessCompression) // fails for an unknown level only
	return p
}

func (p *packer) Write(data []byte) (int, error) {
	for piece := range slices.Chunk(data, spillBytes) {
		if _, err := p.gzip.Write(piece); err != nil {
			return 0, err
		}
		if err := p.Flush(); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// Flush sends what is packed.
func (p *packer) Flush() error {
	_, err := p.packed.WriteTo(p.to)
	return err
}

// Close ends the answer.
func (p *packer) Close() error {
	if err := p.gzip.Close(); err != nil {
		return err
	}
	return p.Flush()
}
