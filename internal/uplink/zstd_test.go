package uplink

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// The oracle is the library itself, used without our pools.
func TestZstd(t *testing.T) {
	c := &zstdCompressor{}
	rapid.Check(t, func(t *rapid.T) {
		data := bytes.Repeat(rapid.SliceOf(rapid.Byte()).Draw(t, "data"), rapid.IntRange(1, 50).Draw(t, "times"))
		var packed bytes.Buffer
		w, err := c.Compress(&packed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		plain, err := zstd.NewReader(bytes.NewReader(packed.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		if got, err := io.ReadAll(plain); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("packed wrongly: %v", err)
		}
		r, err := c.Decompress(&packed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("unpacked wrongly: %v", err)
		}
	})
}

func FuzzZstd(f *testing.F) {
	c := &zstdCompressor{}
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := c.Decompress(bytes.NewReader(data)); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(r, maxUnpacked))
		}
	})
}
