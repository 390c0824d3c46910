// Package clock gives programs of tests a clock that is wrong (clock.txt). Programs that are linked
// statically, such as those of Go, do not see it.
package clock

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed clock.txt
var source string

// Env are variables for a program whose clock is ahead by so much. Without a C compiler the test
// is skipped.
func Env(t testing.TB, ahead time.Duration) []string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("a clock that is wrong needs a C compiler")
	}
	folder, err := os.MkdirTemp("", "kymogram-clock-") // of a test's own other users see nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	library := filepath.Join(folder, "clock.so")
	cmd := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-O2", fmt.Sprintf("-DAHEAD=%d", int(ahead.Seconds())), "-o", library, "-x", "c", "-", "-lpthread")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{folder, library} { // PostgreSQL is of another user
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"LD_PRELOAD=" + library}
}
