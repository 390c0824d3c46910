//go:build e2e

package crash

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// A disk that fills up stops writes, not reads; with room again the server goes on
// by itself, and nothing is lost, doubled or deleted.
func TestDiskFull(t *testing.T) {
	r := rig.New(t)
	disk := filepath.Join(r.Dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	server := r.ServeData(t, filepath.Join(disk, "data"))
	stop := filepath.Join(r.Dir, "stop")
	loop := r.StartLoop(t, server.Address, "disk", "--pause", "0.001", "--until", stop)
	loop.WaitOpen(t)
	c := server.Client(t)
	stored := func() (n int) {
		for _, s := range c.Series(t, c.Run(t, project, "disk").ID) {
			n += s.Count
		}
		return n
	}
	rig.Eventually(t, 20*time.Second, "points arrive", func() bool { return stored() > 0 })
	for range max(3, *kills/10) {
		fill(t, filepath.Join(disk, "ballast"))
		rig.Eventually(t, 30*time.Second, "the server says that the disk is full", func() bool {
			return ready(t, server) == http.StatusServiceUnavailable || ready(t, server) == http.StatusInsufficientStorage
		})
		full := stored() // reads go on
		if full == 0 {
			t.Fatal("nothing is readable on a full disk")
		}
		if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
			t.Fatal(err)
		}
		freed := time.Now()
		rig.Eventually(t, 30*time.Second, "the server goes on", func() bool { return ready(t, server) == http.StatusOK && stored() > full })
		t.Logf("full at %d points; writing again %v after there was room", full, time.Since(freed).Round(time.Millisecond))
	}
	end(t, stop)
	loop.Wait(t)
	r.Sync(t)
	mustHold(t, c, "disk", loop.Returned(), loop.Returned())
}

// fill writes until there is no room for a byte.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.WriteString(strings.Repeat("x", size)); err != nil {
			size /= 2
		}
	}
}

func ready(t *testing.T, s *rig.Server) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Address+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
