package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is the binary under measurement.
type server struct {
	binary, folder string
	args           []string // more of them
	address, key   string
	cmd            *exec.Cmd
	said           bytes.Buffer
}

// anew does something with a server whose folder is empty, and removes both.
func anew(ctx context.Context, binary string, do func(srv *server) error) error {
	folder, err := os.MkdirTemp("", "kymogram-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	srv := &server{binary: binary, folder: folder}
	if _, err := srv.boot(ctx); err != nil {
		return err
	}
	defer srv.kill()
	return do(srv)
}

// started is how long a start took, from exec.
type started struct{ ready, answer time.Duration }

// boot starts the server and asks for the list of projects as the first reader.
func (s *server) boot(ctx context.Context) (started, error) {
	var took started
	args := []string{"serve", "--data", filepath.Join(s.folder, "data"), "--http", "127.0.0.1:0", "--log-level", "warn"}
	s.cmd = exec.CommandContext(ctx, s.binary, append(args, s.args...)...)
	s.cmd.Env = append(os.Environ(), "HOME="+s.folder, "XDG_CONFIG_HOME="+s.folder)
	s.said.Reset()
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return took, err
	}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return took, fmt.Errorf("start the server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return took, fmt.Errorf("the server said no ready line: %w\n%s", err, s.said.String())
	}
	took.ready = time.Since(begin).Round(time.Millisecond)
	m := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(line)
	if m == nil {
		return took, fmt.Errorf("the ready line is %q", line)
	}
	s.address = m[1]
	if s.key = os.Getenv("KYMOGRAM_ADMIN_KEY"); s.key == "" {
		key, err := os.ReadFile(filepath.Join(s.folder, "data", "admin.key"))
		if err != nil {
			return took, fmt.Errorf("read the key: %w", err)
		}
		s.key = strings.TrimSpace(string(key))
	}
	if err := s.firstAnswer(ctx); err != nil {
		return took, err
	}
	took.answer = time.Since(begin).Round(time.Millisecond)
	return took, nil
}

// firstAnswer reads the runs of the first project and the series of its newest
// run: that needs the catalog and the engine.
func (s *server) firstAnswer(ctx context.Context) error {
	var projects struct {
		Projects []struct{ Workspace, Project string }
	}
	if err := s.read(ctx, "/api/v1/projects", nil, &projects); err != nil || len(projects.Projects) == 0 {
		return err
	}
	p := projects.Projects[0]
	runs, err := s.runs(ctx, p.Workspace, p.Project, url.Values{"limit": {"1"}})
	if err != nil || len(runs) == 0 {
		return err
	}
	_, err = s.get(ctx, "/api/v1/runs/"+runs[0].ID+"/series", url.Values{"limit": {"100"}})
	return err
}

type listedRun struct{ ID, Name string }

func (s *server) runs(ctx context.Context, workspace, project string, query url.Values) ([]listedRun, error) {
	var page struct{ Runs []listedRun }
	err := s.read(ctx, "/api/v1/projects/"+workspace+"/"+project+"/runs", query, &page)
	return page.Runs, err
}

func (s *server) read(ctx context.Context, path string, query url.Values, into any) error {
	text, err := s.get(ctx, path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (s *server) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Accept-Encoding", "identity") // as on one machine
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", path, answer.Status, text)
	}
	return text, err
}

func (s *server) kill() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func (s *server) stop() error {
	return errors.Join(s.cmd.Process.Signal(syscall.SIGTERM), s.cmd.Wait())
}

// memory is a figure of /proc/PID/status in bytes: VmRSS or VmHWM.
func (s *server) memory(name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no " + name + " in the status")
}

// cpu is the time that the server's threads ran, in full nanoseconds: on a busy
// machine it says what a request costs where the clock does not.
func (s *server) cpu() (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// disk is the size of the folder's files by kind.
func (s *server) disk() (map[string]int64, error) {
	sizes := map[string]int64{}
	err := filepath.WalkDir(filepath.Join(s.folder, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // merged meanwhile
		}
		if err == nil {
			sizes[filepath.Ext(path)] += info.Size()
		}
		return err
	})
	return sizes, err
}
