// Package release builds the binary of an older commit, for tests in which it meets today's.
package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Binary is the program of a package as it was at a commit. It is built once, from the history
// of the clone. Where that does not reach so far the test says so and is skipped.
func Binary(t testing.TB, commit, folder string, env ...string) string {
	t.Helper()
	root := strings.TrimSpace(command(t, "", nil, "git", "rev-parse", "--show-toplevel"))
	program := filepath.Join(root, "bin", "kymogram-"+commit)
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}").Run() != nil {
		t.Skipf("the clone is too shallow to hold %s", commit)
	}
	source := t.TempDir()
	archive := filepath.Join(source, "source.tar")
	command(t, root, nil, "git", "archive", "-o", archive, commit)
	command(t, source, nil, "tar", "-xf", archive)
	// Another test may build it, too: each its own file.
	built := fmt.Sprintf("%s.%d", program, os.Getpid())
	command(t, source, append(env, "CGO_ENABLED=0"), "go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", built, folder)
	if err := os.Rename(built, program); err != nil {
		t.Fatal(err)
	}
	return program
}

func command(t testing.TB, folder string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}
