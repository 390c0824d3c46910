package importer

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// freeBytes and freeRatio bound what a compressed file may become: a file of a few
	// bytes must not fill the memory.
	freeBytes = 16 << 20
	freeRatio = 100
	// maxWindow bounds the memory of a decompressor: that of zstd -19 and xz -9.
	maxWindow = 128 << 20
)

// regular is the state of a file; a pipe, a socket and a device are none: opening one may
// wait for ever.
func regular(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = model.Errorf(model.CodeInvalid, "%s is no regular file", path).WithHint("copy its content to a file")
	}
	return info, err
}

// isFile reports whether an entry of a folder is a file, or a link to one.
func isFile(path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return entry.Type().IsRegular()
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// unpacked is the content of a file, expanded where it is compressed. Its content says
// how, not its name.
func (o Options) unpacked(ctx context.Context, path string) (io.Reader, io.Closer, error) {
	f, err := o.open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(f, headBytes)
	head, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, errors.Join(err, f.Close())
	}
	expanded, err := expand(in, f, head)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if expanded == nil {
		return in, f, nil
	}
	return &bounded{Reader: expanded, from: f}, f, nil
}

// expand gives nil for what is not compressed.
func expand(in *bufio.Reader, f *reading, head []byte) (io.Reader, error) {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case begins("\x1f\x8b"):
		return broken(gzip.NewReader(in))
	case begins("BZh"):
		return bzip2.NewReader(in), nil
	case begins("\x28\xb5\x2f\xfd"):
		return broken(zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true)))
	case begins("\xfd7zXZ\x00"):
		if dictionary(in) > maxWindow {
			return nil, model.Errorf(model.CodeInvalid, "it needs more than %d MiB of memory to expand", maxWindow>>20).WithHint("expand it with xz -d")
		}
		return broken(xz.NewReader(in))
	case begins("PK\x03\x04"), begins("PK\x05\x06"):
		return onlyTable(f)
	}
	return nil, nil
}

func broken[R io.Reader](r R, err error) (io.Reader, error) {
	if err != nil {
		return nil, fmt.Errorf("it begins as a compressed file and cannot be expanded: %w", err)
	}
	return r, nil
}

// dictionary is what the first block of an .xz file asks for: behind a header of 12 bytes
// its size and flags, then the filter LZMA2 (0x21), one property: 2 or 3 times a power of 2.
func dictionary(in *bufio.Reader) int64 {
	head, _ := in.Peek(32)
	if i := bytes.Index(head[min(14, len(head)):], []byte{0x21, 1}); i >= 0 && 14+i+2 < len(head) {
		bits := head[14+i+2] & 0x3f
		return int64(2|bits&1) << (bits/2 + 11)
	}
	return 0
}

// onlyTable opens the one file of a .zip archive that is a table.
func onlyTable(f *reading) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(f.File, info.Size())
	if err != nil {
		return nil, fmt.Errorf("it begins as a .zip archive and cannot be opened: %w", err)
	}
	var names []string
	var only *zip.File
	for _, one := range archive.File {
		base := filepath.Base(one.Name)
		if one.Mode().IsRegular() && !strings.HasPrefix(base, ".") && !strings.HasPrefix(one.Name, "__MACOSX/") {
			only, names = one, append(names, one.Name)
		}
	}
	if len(names) != 1 {
		return nil, model.Errorf(model.CodeInvalid, "it is a .zip archive of %d files, and only one is read", len(names)).WithHint("unpack it, and import the tables: unzip FILE")
	}
	content, err := only.Open()
	if err != nil {
		return nil, fmt.Errorf("open %s in it: %w", only.Name, err)
	}
	return &fed{content, f, only.CompressedSize64}, nil
}

// fed tells the progress of an archive, which is read at random, by what comes out.
type fed struct {
	io.Reader
	from *reading
	size uint64
}

func (r *fed) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if took := min(uint64(n), r.size); took > 0 {
		r.size -= took
		r.from.took(int(took))
	}
	return n, errors.Join(err, r.from.ctx.Err())
}

// bounded ends what expands too far.
type bounded struct {
	io.Reader
	from  *reading
	bytes int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.bytes += int64(n)
	if b.bytes > freeBytes+freeRatio*b.from.bytes {
		return 0, model.Errorf(model.CodeInvalid, "it expands to more than %d times its size", freeRatio).
			WithHint("expand it yourself if it is what you think it is, and import that")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("it cannot be expanded: %w", err)
	}
	return n, err
}

// utf8Text is a text as UTF-8: a byte order mark says what it is.
func utf8Text(in io.Reader) io.Reader {
	return transform.NewReader(in, unicode.BOMOverride(transform.Nop))
}
