package repository

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's folder, where every test runs.
var root string

func TestMain(m *testing.M) {
	err := os.Chdir("../..")
	if err == nil {
		root, err = os.Getwd()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// trackedFiles are the files of the repository, and those about to be added.
// `go test` remembers that the test looked at them and at their folders, and runs
// it again when one has changed: so it must see each Stat, and the Chdir that
// tells it where relative names begin.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	t.Chdir(root)
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	for _, name := range files {
		for _, at := range []string{name, filepath.Dir(name)} {
			if _, err := os.Stat(at); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	return files
}
