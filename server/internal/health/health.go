// Package health answers whether a server can take points, also while none come: what
// the store and the catalog say of themselves, and a write to the disk of each, at
// most one a second.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/server/internal/store"
)

// probeEvery bounds how often a question for the server's health writes to the disk,
// probeTime how long the catalog may take for it.
const (
	probeEvery = time.Second
	probeTime  = 5 * time.Second
)

// probeBytes is what the disk must have room for.
const probeBytes = 64 << 10

// Parts are what is asked.
type Parts struct {
	Folder string // of the data; it is written to
	Store  interface{ Stats() store.Stats }
	// Catalog may have room for a write where its log has none.
	Catalog interface {
		Damaged() error
		Probe(ctx context.Context) error
	}
	// Points fails while points cannot be stored, nil where Store and Folder tell.
	Points func(ctx context.Context) error
	Log    *slog.Logger
}

// Health tells whether points can be taken, also while none come.
type Health struct {
	Parts
	mu   sync.Mutex
	at   time.Time
	last error
}

// New asks nothing yet.
func New(p Parts) *Health { return &Health{Parts: p} }

// Check fails while points cannot be taken, and names the cause.
func (h *Health) Check() error {
	stats := h.Store.Stats()
	if stats.Poisoned {
		return model.Errorf(model.CodeUnavailable, "the store stopped after the disk failed a write").
			WithHint("check the disk and restart the server; what was acknowledged is safe")
	}
	if err := h.Catalog.Damaged(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) >= probeEvery {
		h.last = errors.Join(h.probeDisk(), h.probePoints(), h.probeCatalog())
		h.at = time.Now()
	}
	if h.last == nil && stats.DiskFull {
		return diskFull()
	}
	return h.last
}

func diskFull() error {
	return model.Errorf(model.CodeDiskFull, "the disk is full; reads work").WithHint("free space; the server goes on by itself")
}

// probeDisk opens and writes a file.
func (h *Health) probeDisk() error {
	f, err := os.CreateTemp(h.Folder, ".probe-*")
	if err == nil {
		_, err = f.Write(make([]byte, probeBytes))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	switch {
	case err == nil:
		return nil
	case platform.IsDiskFull(err):
		return diskFull()
	case model.Shown(err) != nil:
		return model.Shown(err)
	}
	h.Log.Error("the data folder cannot be written", "folder", filepath.Clean(h.Folder), "err", err)
	return model.Errorf(model.CodeUnavailable, "the data folder cannot be written").WithHint("the server's log says why")
}

// probePoints asks the servers that keep points.
func (h *Health) probePoints() error {
	if h.Points == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	return h.Points(ctx)
}

// probeCatalog writes to the catalog, whose disk may have room when its log has none.
func (h *Health) probeCatalog() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := h.Catalog.Probe(ctx)
	if err == nil || model.Shown(err) != nil {
		return err
	}
	h.Log.Error("the catalog cannot be written", "err", err)
	return fmt.Errorf("%w: %w", model.Errorf(model.CodeUnavailable, "the catalog cannot be written").WithHint("the server's log says why"), err)
}
