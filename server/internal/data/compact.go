package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Compaction is what merging came to.
type Compaction struct {
	Before  int64   `json:"bytes_before"`
	After   int64   `json:"bytes_after"`
	Seconds float64 `json:"seconds"`
}

// Print writes it for a person.
func (c *Compaction) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s are %s now\n", table.Bytes(c.Before), table.Bytes(c.After))
	return err
}

// Compact merges all segments of a folder that no server uses. Its progress goes to shown.
func (f Folder) Compact(ctx context.Context, log *slog.Logger, shown io.Writer) (*Compaction, error) {
	began := time.Now()
	if err := f.StoreElsewhere(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(f.Store(), "VERSION")); err != nil {
		return nil, model.Errorf(model.CodeNotFound, "%s is no data folder", string(f)).WithHint("name the folder that was given to `kymogram serve --data`")
	}
	out := &Compaction{Before: SizeOf(f.Store())}
	e, err := local.Open(ctx, local.Config{Dir: f.Store(), Marks: f.Marks(), Logger: log})
	if err != nil {
		return nil, err
	}
	bar := progress.Bytes(shown, out.Before, "compact")
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go watchWriting(watched, filepath.Join(f.Store(), "segments", "*.tmp"), bar)
	if err = f.Live(log); err == nil {
		err = e.Flush(ctx)
	}
	if err == nil {
		err = e.Compact(ctx, true)
	}
	err = errors.Join(err, e.Close())
	bar.End()
	out.After, out.Seconds = SizeOf(f.Store()), time.Since(began).Seconds()
	return out, err
}

// watchWriting shows how far the files of a pattern are.
func watchWriting(ctx context.Context, pattern string, bar progress.Bar) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		found, _ := filepath.Glob(pattern)
		size := int64(0)
		for _, name := range found {
			if info, err := os.Stat(name); err == nil {
				size += info.Size()
			}
		}
		bar.Reach(size)
	}
}
