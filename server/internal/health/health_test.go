package health_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/health"
	"github.com/kymogram/kymogram/server/internal/store"
)

// parts stand for a store and a catalog that say what a test wants.
type parts struct {
	stats           store.Stats
	damaged, failed error
}

func (p *parts) Stats() store.Stats          { return p.stats }
func (p *parts) Damaged() error              { return p.damaged }
func (p *parts) Probe(context.Context) error { return p.failed }

func code(t *testing.T, folder string, p parts) model.Code {
	t.Helper()
	err := health.New(health.Parts{Folder: folder, Store: &p, Catalog: &p, Log: slog.New(slog.DiscardHandler)}).Check()
	if err == nil {
		return ""
	}
	return model.CodeOf(err)
}

func TestCheck(t *testing.T) {
	full := model.Errorf(model.CodeDiskFull, "no room")
	folder := t.TempDir()
	gone := filepath.Join(folder, "gone")
	for name, c := range map[string]struct {
		folder string
		parts  parts
		want   model.Code
	}{
		"all is well":              {folder, parts{}, ""},
		"poisoned":                 {folder, parts{stats: store.Stats{Poisoned: true}}, model.CodeUnavailable},
		"the store's disk is full": {folder, parts{stats: store.Stats{DiskFull: true}}, model.CodeDiskFull},
		"the catalog is damaged":   {folder, parts{damaged: model.Errorf(model.CodeUnavailable, "a page")}, model.CodeUnavailable},
		"only the catalog is full": {folder, parts{failed: full}, model.CodeDiskFull},
		"the catalog fails":        {folder, parts{failed: errors.New("locked")}, model.CodeUnavailable},
		"the folder is gone":       {gone, parts{}, model.CodeUnavailable},
	} {
		if got := code(t, c.folder, c.parts); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the probe left %v %v", left, err)
	}
}

// TestProbesAreFew: many questions write to the disk once.
func TestProbesAreFew(t *testing.T) {
	p := &counting{}
	h := health.New(health.Parts{Folder: t.TempDir(), Store: p, Catalog: p, Log: slog.New(slog.DiscardHandler)})
	for range 1000 {
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if p.probes == 0 || p.probes > 100 {
		t.Errorf("1000 questions, %d probes", p.probes)
	}
}

type counting struct {
	parts
	probes int
}

func (c *counting) Probe(context.Context) error { c.probes++; return nil }
