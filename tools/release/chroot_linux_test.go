package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestImageRuns unpacks the image and runs its program in it, as a container does: nothing
// else is there, and the user is not root.
func TestImageRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the root folder")
	}
	r := made(t, target{"linux", runtime.GOARCH})
	one := images(t, r.out("kymogram-1.2.3-oci.tar"))[0]
	root := t.TempDir()
	// Below a folder that others cannot enter the user of the image could not start.
	for folder := root; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		do(t, os.Chmod(folder, 0o755))
	}
	untar := exec.Command("tar", "--extract", "--same-owner", "--same-permissions", "--directory", root)
	untar.Stdin = bytes.NewReader(one.layer)
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inside := func(env []string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(timeout(t), one.Config.Entrypoint[0], args...)
		cmd.Dir, cmd.Env = one.Config.WorkingDir, append(one.Config.Env, env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	server := inside([]string{"KYMOGRAM_HTTP=127.0.0.1:0"}, one.Config.Cmd...)
	out, err := server.StdoutPipe()
	do(t, err)
	var log bytes.Buffer
	server.Stderr = &log
	do(t, server.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	host := strings.Fields(strings.SplitAfter(line, "http=")[1])[0]

	health := one.Config.Healthcheck.Test
	if health[0] != "CMD" || health[1] != one.Config.Entrypoint[0] {
		t.Fatalf("health check %q", health)
	}
	if out, err := inside([]string{"KYMOGRAM_SERVER=http://" + host}, health[2:]...).CombinedOutput(); err != nil {
		t.Errorf("health: %v\n%s\n%s", err, out, &log)
	}
	key := strings.TrimSpace(string(read(t, filepath.Join(root, "data", "kymogram", "admin.key"))))
	ask := func(method, path, body string) string {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(body))
		do(t, err)
		request.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(request)
		do(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		do(t, err)
		if answer.StatusCode >= 300 {
			t.Fatalf("%s %s: %s\n%s", method, path, answer.Status, text)
		}
		return string(text)
	}
	ask("POST", "/api/v2/write?bucket=lab", fmt.Sprintf("loss,run=one value=0.25 %d", commitTime.UnixNano()))
	if page := ask("GET", "/", ""); !strings.Contains(page, "<html") {
		t.Errorf("the page is %.200q", page)
	}
	if said := ask("GET", "/api/v1/projects", ""); !strings.Contains(said, "lab") {
		t.Errorf("projects: %s", said)
	}
	do(t, server.Process.Signal(syscall.SIGTERM))
	if err := server.Wait(); err != nil {
		t.Errorf("the server ends with %v\n%s", err, &log)
	}
	if _, err := os.Stat(filepath.Join(root, "data", "kymogram", "store")); err != nil {
		t.Errorf("the points are not on the volume: %v", err)
	}
}
