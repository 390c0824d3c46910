package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kymogram": main, "training-life": trainingLife, "training-steady": trainingSteady})
}

// The scripts run this binary as a process, in a folder and a home of their own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "..", "test", "scripts"),
		RequireExplicitExec: true,
		Condition:           scriptCondition,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Values[serversKey{}] = map[string]*background{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": scriptServe,
			"stop":  scriptStop,
			"cut":   scriptCut,
			"until": scriptUntil,
		},
	})
}

type serversKey struct{}

// scriptCondition is [file:PATH]: the machine has it.
func scriptCondition(condition string) (bool, error) {
	path, ok := strings.CutPrefix(condition, "file:")
	if !ok {
		return false, fmt.Errorf("unknown condition %s", condition)
	}
	_, err := os.Stat(path)
	return err == nil, nil
}

// background is a server that a script started.
type background struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
}

// scriptServe is `serve NAME ARGS…`: it starts kymogram serve, waits until it is
// ready and sets NAME to its address; its stderr goes to NAME.log.
func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve NAME ARGS…")
	}
	name := args[0]
	cmd := exec.Command(lookPath(ts, "kymogram"), append([]string{"serve", "--http", "127.0.0.1:0"}, args[1:]...)...)
	cmd.Dir = ts.Getenv("WORK")
	for _, v := range []string{"HOME", "XDG_CONFIG_HOME", "PATH"} {
		cmd.Env = append(cmd.Env, v+"="+ts.Getenv(v))
	}
	log, err := os.Create(ts.MkAbs(name + ".log"))
	ts.Check(err)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	b := &background{cmd: cmd, stdout: bufio.NewReader(stdout)}
	line, err := b.stdout.ReadString('\n')
	ts.Check(err)
	var http, grpc string
	if _, err := fmt.Sscanf(line, "ready http=%s grpc=%s\n", &http, &grpc); err != nil {
		ts.Fatalf("the line on stdout is %q", line)
	}
	ts.Value(serversKey{}).(map[string]*background)[name] = b
	ts.Setenv(name, http)
	ts.Setenv(name+"_GRPC", grpc)
}

// scriptUntil is `until TEXT COMMAND…`: it runs the command again until it writes the text.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT COMMAND…")
	}
	for end := time.Now().Add(20 * time.Second); ; {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%v did not write %q within 20 s", args[1:], args[0])
		}
	}
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); fileExists(path) {
			return path
		}
	}
	ts.Fatalf("%s is not in PATH", name)
	return ""
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// scriptStop is `stop NAME`: SIGTERM, and the server ends with 0 within 5 s, its
// stdout having held one line.
func scriptStop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stop NAME")
	}
	b := ts.Value(serversKey{}).(map[string]*background)[args[0]]
	began := time.Now()
	ts.Check(b.cmd.Process.Signal(syscall.SIGTERM))
	var rest strings.Builder
	_, err := b.stdout.WriteTo(&rest)
	ts.Check(err)
	if err := b.cmd.Wait(); err != nil {
		ts.Fatalf("the server ended with: %v\n%s", err, ts.ReadFile(args[0]+".log"))
	}
	if took := time.Since(began); took > 5*time.Second {
		ts.Fatalf("the stop took %s", took)
	}
	if rest.Len() > 0 {
		ts.Fatalf("more on stdout: %q", rest.String())
	}
}

// scriptCut is `cut NAME`: while an upload under way makes the stop wait, a
// second signal ends the server at once.
func scriptCut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: cut NAME")
	}
	address := ts.Getenv(args[0])
	conn, err := net.Dial("tcp", address)
	ts.Check(err)
	defer conn.Close()
	// The handler reads the body once it sends 100, so the upload is under way.
	fmt.Fprintf(conn, "PUT /api/v1/blobs/%064d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n"+
		"Authorization: Bearer %s\r\n\r\n", 0, strings.TrimSpace(ts.ReadFile("data/admin.key")))
	line, err := bufio.NewReader(conn).ReadString('\n')
	ts.Check(err)
	if !strings.Contains(line, "100 Continue") {
		ts.Fatalf("the upload did not begin: %q", line)
	}
	server := ts.Value(serversKey{}).(map[string]*background)[args[0]].cmd
	ts.Check(server.Process.Signal(syscall.SIGTERM))
	for { // the address closes when the stop has begun
		probe, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		_ = probe.Close()
	}
	began := time.Now()
	ts.Check(server.Process.Signal(syscall.SIGTERM))
	_ = server.Wait()
	status, ok := server.ProcessState.Sys().(syscall.WaitStatus)
	if took := time.Since(began); !ok || !status.Signaled() || took > time.Second {
		ts.Fatalf("the second signal: %s after %s", server.ProcessState, took)
	}
}
