// Package reserve keeps a little space of the disk, so that keys can be revoked and
// people can sign in and out when there is no other.
//
// In: a write that failed on a full disk ([File.Do]). Out: the same write, done in
// space that the file gave up. What always holds: the space is given up in steps,
// since other writers take some of it too, and taken again as soon as there is room.
//
// Start reading at [File.Do]; keys.go says which writes may have it.
package reserve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// size is what is kept, step what is given up at once: a transaction of the catalog
// takes some 50 kB. Space is taken again in pieces, down to least.
const (
	size  = 2 << 20
	step  = 256 << 10
	least = 4 << 10
)

// refillEvery is how often the file takes again what it gave up.
const refillEvery = 10 * time.Second

// File is the space that is kept.
type File struct {
	log *slog.Logger

	mu    sync.Mutex
	file  *os.File
	held  int64
	given uint64
}

// Open takes the space at path, or as much of it as there is.
func Open(path string, log *slog.Logger) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the reserve: %w", err)
	}
	f := &File{file: file, log: log}
	if info, err := file.Stat(); err == nil {
		f.held = min(info.Size(), size)
	}
	f.refill()
	return f, nil
}

// Run takes the space again whenever there is room, until ctx ends.
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(refillEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f.mu.Lock()
			f.refill()
			f.mu.Unlock()
		}
	}
}

// Close closes the file; it stays on the disk.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}

// Stats tells how many bytes are held now and how often some were given up.
func (f *File) Stats() (held int64, given uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held, f.given
}

// Do runs a write, with space of the file where the disk has none.
func (f *File) Do(write func() error) error {
	err := write()
	if model.CodeOf(err) != model.CodeDiskFull {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for model.CodeOf(err) == model.CodeDiskFull && f.give() {
		err = write()
	}
	f.refill()
	return err
}

// give frees a step, or what is left.
func (f *File) give() bool {
	rest := max(0, f.held-step)
	if rest == f.held {
		return false
	}
	if err := f.file.Truncate(rest); err != nil {
		f.log.Warn("the reserve cannot be given up", "err", err)
		return false
	}
	_ = f.file.Sync() // some file systems free space only then
	f.held = rest
	f.given++
	return true
}

// refill takes all that there is room for.
func (f *File) refill() {
	for piece := int64(step); piece >= least && f.held < size; {
		want := min(f.held+piece, size)
		if platform.Reserve(f.file, want) == nil {
			f.held = want
			continue
		}
		_ = f.file.Truncate(f.held) // what the piece got in part
		piece /= 2
	}
}
