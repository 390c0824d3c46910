package repository

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// heavy is what only the binary or the tests need, now or soon.
var heavy = regexp.MustCompile(`(?m)^\s*(?:require )?((?:modernc\.org|helm\.sh|k8s\.io|cloud\.google\.com/go/storage|` +
	`github\.com/(?:apache|tetratelabs|spf13|pressly|goccy|schollz|mattn/go-sqlite3|ncruces|prometheus/prometheus|nats-io|aws|Azure|minio))\b\S*)`)

// Whoever requires the SDK is not asked for what only the binary or the tests need.
func TestModulesHoldWhatTheyNeed(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heavy.FindAllStringSubmatch(string(data), -1) {
		t.Errorf("the root's go.mod requires %s", m[1])
	}
	if m := regexp.MustCompile(`(?m)^\s*(?:require )?` + module + `/\S+`).Find(data); m != nil {
		t.Errorf("the root's go.mod requires %s, a module that stands on it", m)
	}
	for _, p := range goList(t, "-deps", "./server/cmd/kymogram") {
		if strings.HasPrefix(p.ImportPath, "github.com/tetratelabs/") || strings.HasPrefix(p.ImportPath, module+"/test") {
			t.Errorf("the binary depends on %s", p.ImportPath)
		}
	}
}

// A program outside the repository that imports every public package builds, and
// the modules that it is asked for are none of the heavy ones.
func TestATrainingProgramIsAskedForLittle(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var main strings.Builder
	main.WriteString("package main\n\nimport (\n")
	for _, pkg := range []string{"", "/chain", "/gen/kymogram/v1", "/metrics", "/netstate", "/read", "/telemetry"} {
		main.WriteString("\t_ \"" + module + pkg + "\"\n")
	}
	main.WriteString(")\n\nfunc main() {}\n")
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod":  "module example.com/trainer\n\ngo 1.26.0\n\nrequire " + module + " v0.1.0\n\nreplace " + module + " => " + root + "\n",
		"go.sum":  string(sums),
		"main.go": main.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goOutside(t, dir, "build", "-o", filepath.Join(dir, "trainer"), ".")
	for _, m := range heavy.FindAllStringSubmatch(goOutside(t, dir, "list", "-m", "all"), -1) {
		t.Errorf("a program that imports the SDK is asked for %s", m[1])
	}
}

// unserved is how go says that neither the module cache nor the network has a module.
var unserved = regexp.MustCompile(`module lookup disabled|dial tcp|no such host|connection refused|i/o timeout|TLS handshake|50[0-9] `)

// goOutside runs go in a folder outside of the workspace. It skips the test where
// modules that the answer needs cannot be had.
func goOutside(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil && unserved.MatchString(errors.String()) {
		t.Skipf("go %s: neither the module cache nor the network has what it needs: %s", strings.Join(args, " "), errors.String())
	}
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, errors.String())
	}
	return string(out)
}

// `make audit` looks at every module of the workspace.
func TestAuditLooksAtEveryModule(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, use := range regexp.MustCompile(`(?m)^\t\.(\S*)$`).FindAllStringSubmatch(string(work), -1) {
		want = append(want, root+filepath.FromSlash(use[1]))
	}
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	stub := "#!/bin/sh\nif [ \"$1\" = run ]; then pwd >>" + bin + "/seen; else exec " + program + " \"$@\"; fi\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(stub), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "tools/audit")
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOVULNDB=file://"+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen, err := os.ReadFile(filepath.Join(bin, "seen"))
	got := strings.Fields(string(seen))
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || len(want) < 2 || !slices.Equal(got, want) {
		t.Errorf("%v: it looks at %v, want %v", err, got, want)
	}
}
