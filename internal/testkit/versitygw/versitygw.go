// Package versitygw runs versitygw in tests: an S3 over a folder, as a process that can be killed.
// tools/versitygw/get builds it; where it is not there the test says so and is skipped.
package versitygw

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Bucket is the one that a gateway has.
const Bucket = "files"

// Gateway is an S3 that runs until the test ends.
type Gateway struct {
	address string // HOST:PORT
	folder  string
	binary  string
	cmd     *exec.Cmd
	said    bytes.Buffer
}

// Start makes a gateway with an empty bucket, and waits until it answers. Its keys are in the
// environment of the test and of the programs that it starts.
func Start(t *testing.T) *Gateway {
	t.Helper()
	g := &Gateway{binary: binary(t), folder: t.TempDir()}
	for _, name := range []string{"objects/" + Bucket, "names"} {
		if err := os.MkdirAll(filepath.Join(g.folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Cleanup(func() {
		g.Kill()
		if t.Failed() {
			t.Logf("versitygw said:\n%s", g.said.String())
		}
	})
	g.Serve(t)
	return g
}

// binary is the program, in bin/tools of the repository.
func binary(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			break
		}
	}
	path := filepath.Join(folder, "bin", "tools", "versitygw")
	if _, err := os.Stat(path); err != nil {
		t.Skip("versitygw is not built: make bin/tools/versitygw, which takes minutes")
	}
	return path
}

// Location is a prefix in the bucket, as --blob takes it.
func (g *Gateway) Location(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?region=us-east-1&endpoint=http://" + g.address
}

// Serve starts it, also again after [Gateway.Kill], and waits until it answers.
func (g *Gateway) Serve(t testing.TB) {
	t.Helper()
	g.cmd = exec.CommandContext(context.Background(), g.binary, "--port", g.address, "--access", "test", "--secret", "secret",
		"posix", "--sidecar", filepath.Join(g.folder, "names"), filepath.Join(g.folder, "objects"))
	g.cmd.Stdout, g.cmd.Stderr = &g.said, &g.said
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !g.answers(t.Context()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("versitygw does not answer")
		}
	}
}

func (g *Gateway) answers(ctx context.Context) bool {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.address)
	if err != nil {
		return false
	}
	_ = c.Close() // it was taken
	return true
}

// Kill ends it as a crash does.
func (g *Gateway) Kill() {
	if g.cmd == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	g.cmd = nil
}
