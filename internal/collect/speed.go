package collect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
)

const (
	// speedBytes is above the caches of most processors, and little for a disk.
	speedBytes = 64 << 20
	speedBlock = 1 << 20
)

// memorySpeed is how fast one thread writes and reads memory.
func memorySpeed() (write, read float64) {
	buffer, block := make([]byte, speedBytes), make([]byte, speedBlock)
	sweep := func(each func(part []byte)) float64 {
		began := time.Now()
		for at := 0; at < speedBytes; at += speedBlock {
			each(buffer[at : at+speedBlock])
		}
		return rate(began)
	}
	fill := func(part []byte) { copy(part, block) }
	sweep(fill) // the first touch of a page is the kernel's work
	return sweep(fill), sweep(func(part []byte) { copy(block, part) })
}

// diskSpeed writes a file to the disk and reads it back past the page cache, where
// the system lets it.
func diskSpeed(folder string) (write, read float64, err error) {
	file, err := os.CreateTemp(folder, "kymogram-speed-*")
	if err != nil {
		return 0, 0, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, speedBlock)
	began := time.Now()
	for range speedBytes / speedBlock {
		if _, err := file.Write(block); err != nil {
			return 0, 0, fmt.Errorf("measure the disk: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return 0, 0, fmt.Errorf("measure the disk: %w", err)
	}
	write = rate(began)
	platform.DropCache(file)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return write, 0, fmt.Errorf("measure the disk: %w", err)
	}
	began = time.Now()
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, block); err != nil {
		return write, 0, fmt.Errorf("measure the disk: %w", err)
	}
	return write, rate(began), nil
}

// rate is the bytes a second since then; the clock of some systems is coarse.
func rate(began time.Time) float64 {
	return speedBytes / max(time.Since(began), time.Microsecond).Seconds()
}
