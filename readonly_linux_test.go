package kymogram

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadOnlySpool: it is no full disk, and is not told as one.
func TestReadOnlySpool(t *testing.T) {
	var heard []string
	r := offline(t, Options{OnError: func(err error) { heard = append(heard, err.Error()) }})
	// Another mount over the folder, for one that is written to cannot become read-only.
	if err := unix.Mount(r.folder.Path, r.folder.Path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer unix.Unmount(r.folder.Path, unix.MNT_DETACH)
	must(t, unix.Mount("", r.folder.Path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	for r.Metrics().InMemory == 0 {
		must(t, r.Log("a", 1))
	}
	r.look()
	if len(heard) != 1 || !strings.Contains(heard[0], "read-only") || strings.Contains(heard[0], "full") {
		t.Errorf("heard %q", heard)
	}
	must(t, unix.Unmount(r.folder.Path, 0))
	if over := r.w.Drain(); over.Waiting != 0 {
		t.Errorf("%+v once it is writable", over)
	}
}
