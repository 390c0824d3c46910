//go:build e2e

package crash

import (
	"fmt"
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

// A server that was killed on a full disk starts there, and everything can be read: what a
// start takes in, and where it needs room, the reserve has it.
func TestKilledOnAFullDisk(t *testing.T) {
	r := rig.New(t)
	disk := filepath.Join(r.Dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a small disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	server := r.ServeData(t, filepath.Join(disk, "data"))
	c := server.Client(t)
	for round := range 3 {
		for i := range 4 { // some runs a request: the catalog's log is taken in now and then
			if code := openRuns(t, server, fmt.Sprintf("%d-%d", round, i)); code != http.StatusNoContent {
				t.Fatalf("new runs: %d", code)
			}
		}
		fill(t, filepath.Join(disk, "ballast"))
		if code := openRuns(t, server, "full"); code != http.StatusServiceUnavailable {
			t.Errorf("new runs on a full disk: %d", code)
		}
		server.Kill(t)
		server.Restart(t)
		for _, name := range []string{"0-0-0", fmt.Sprintf("%d-3-49", round)} {
			if n := len(c.Series(t, c.Run(t, project, name).ID)); n != 1 {
				t.Errorf("round %d: run %s has %d series", round, name, n)
			}
		}
		if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, 30*time.Second, "the server goes on", func() bool { return ready(t, server) == http.StatusOK })
	}
}

// openRuns writes a point into each of 50 new runs.
func openRuns(t *testing.T, s *rig.Server, name string) int {
	t.Helper()
	var body strings.Builder
	for i := range 50 {
		fmt.Fprintf(&body, "m,run=%s-%d f=1\n", name, i)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Address+"/api/v2/write?org=default&bucket=crash", strings.NewReader(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Key(t))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
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
