package local_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

var writeGolden = flag.String("write-golden", "", "write testdata/NAME in today's format instead of reading what is there")

func goldenConfig(dir string) local.Config {
	return local.Config{Dir: dir, SeriesPerRunLimit: storetest.SeriesLimit, FlushRows: 1 << 20, WALSegmentBytes: 4 << 10}
}

func openGolden(t *testing.T, dir string) *storetest.Harness {
	t.Helper()
	e, err := local.Open(t.Context(), goldenConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	return upkept(t, e)
}

// TestEveryFormatOpens reads folders that earlier versions wrote, byte for byte
// as they lie in git, and keeps them right while it rewrites them.
func TestEveryFormatOpens(t *testing.T) {
	alone(t)
	if *writeGolden != "" {
		writeGoldenFolder(t, filepath.Join("testdata", *writeGolden))
	}
	folders, err := filepath.Glob("testdata/format-*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no folders of earlier versions: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			h := openGolden(t, dir)
			defer func() { _ = h.Engine.Close() }()
			for stage := range 6 {
				points, err := storetest.CheckGolden(t.Context(), h)
				if err != nil || points < 600 || h.Engine.Stats().Quarantined != 0 {
					t.Fatalf("stage %d: %d points, %d damaged, %v", stage, points, h.Engine.Stats().Quarantined, err)
				}
				if stage%2 == 1 { // reopen
					if err := h.Engine.Close(); err != nil {
						t.Fatal(err)
					}
					h = openGolden(t, dir)
					continue
				}
				if err := h.Upkeep(h.Engine, stage); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// writeGoldenFolder leaves a folder as a crash would: points in the log too.
func writeGoldenFolder(t *testing.T, folder string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "golden")
	h := openGolden(t, dir)
	if err := storetest.WriteGolden(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := h.Engine.Close(); err != nil {
		t.Fatal(err)
	}
}
