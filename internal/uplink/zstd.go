package uplink

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
)

// maxUnpacked bounds what a packed message may grow to.
const maxUnpacked = 64 << 20

// maxWindow bounds what unpacking holds; packing needs 4 MiB.
const maxWindow = 8 << 20

// RegisterZstd teaches gRPC the encoding "zstd", for both sides of a stream. A
// program calls it once, before it serves or delivers.
func RegisterZstd() { encoding.RegisterCompressor(&zstdCompressor{}) }

// zstdCompressor keeps its coders: making one costs more than using it.
type zstdCompressor struct{ writers, readers sync.Pool }

func (*zstdCompressor) Name() string { return "zstd" }

func (c *zstdCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	z, ok := c.writers.Get().(*zstd.Encoder)
	if !ok {
		made, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, fmt.Errorf("start zstd: %w", err)
		}
		z = made
	}
	z.Reset(w)
	return &zstdWriter{z, &c.writers}, nil
}

type zstdWriter struct {
	*zstd.Encoder
	pool *sync.Pool
}

func (w *zstdWriter) Close() error {
	err := w.Encoder.Close()
	w.pool.Put(w.Encoder)
	return err
}

func (c *zstdCompressor) Decompress(r io.Reader) (io.Reader, error) {
	z, ok := c.readers.Get().(*zstd.Decoder)
	if !ok {
		made, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("start zstd: %w", err)
		}
		z = made
	}
	if err := z.Reset(r); err != nil {
		return nil, fmt.Errorf("read zstd: %w", err)
	}
	return &zstdReader{z, &c.readers}, nil
}

type zstdReader struct {
	decoder *zstd.Decoder
	pool    *sync.Pool
}

func (r *zstdReader) Read(p []byte) (int, error) {
	if r.decoder == nil {
		return 0, io.EOF
	}
	n, err := r.decoder.Read(p)
	if err != nil { // the end, or damage: the message is over either way
		r.pool.Put(r.decoder)
		r.decoder = nil
	}
	return n, err
}
