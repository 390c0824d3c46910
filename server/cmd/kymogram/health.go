package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// probeEvery bounds how often a question for the server's health writes to the disk,
// probeTime how long the catalog may take for it.
const (
	probeEvery = time.Second
	probeTime  = 5 * time.Second
)

// probeBytes is what the disk must have room for.
const probeBytes = 64 << 10

// health tells whether points can be taken, also while none come.
type health struct {
	node *node
	mu   sync.Mutex
	at   time.Time
	last error
}

func newHealth(n *node) *health { return &health{node: n} }

// check fails while points cannot be taken, and names the cause.
func (h *health) check() error {
	stats := h.node.engine.Stats()
	if stats.Poisoned {
		return model.Errorf(model.CodeUnavailable, "the store stopped after the disk failed a write").
			WithHint("check the disk and restart the server; what was acknowledged is safe")
	}
	if err := h.node.catalog.Damaged(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) >= probeEvery {
		h.last = errors.Join(h.node.probeDisk(), h.node.probeCatalog())
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
func (n *node) probeDisk() error {
	f, err := os.CreateTemp(n.config.Data, ".probe-*")
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
	n.log.Error("the data folder cannot be written", "folder", filepath.Clean(n.config.Data), "err", err)
	return model.Errorf(model.CodeUnavailable, "the data folder cannot be written").WithHint("the server's log says why")
}

// probeCatalog writes to the catalog, whose disk may have room when its log has none.
func (n *node) probeCatalog() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := n.catalog.Probe(ctx)
	if err == nil || model.Shown(err) != nil {
		return err
	}
	n.log.Error("the catalog cannot be written", "err", err)
	return fmt.Errorf("%w: %w", model.Errorf(model.CodeUnavailable, "the catalog cannot be written").WithHint("the server's log says why"), err)
}
