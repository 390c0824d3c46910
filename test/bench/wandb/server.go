package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	folder, address, key string
	cmd                  *exec.Cmd
	said                 bytes.Buffer
	base                 time.Duration // its processor time when it was ready
}

// anew does something with a server whose folder is empty, and removes both.
func (b *bench) anew(ctx context.Context, do func(s *server) error) error {
	folder, err := os.MkdirTemp("", "kymogram-wandb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s := &server{folder: folder}
	defer s.kill()
	if err := s.boot(ctx, b.binary); err != nil {
		return err
	}
	if err := do(s); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(s.said.String()))
	}
	return nil
}

func (s *server) boot(ctx context.Context, binary string) error {
	s.cmd = exec.CommandContext(ctx, binary, "serve", "--data", filepath.Join(s.folder, "data"), "--http", "127.0.0.1:0", "--log-level", "warn")
	s.cmd.Env = append(os.Environ(), "HOME="+s.folder, "XDG_CONFIG_HOME="+s.folder)
	s.said.Reset()
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	m := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(line)
	if err != nil || m == nil {
		return fmt.Errorf("the ready line is %q: %w\n%s", line, err, tail(s.said.String()))
	}
	s.address = m[1]
	key, err := os.ReadFile(filepath.Join(s.folder, "data", "admin.key"))
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	s.key = strings.TrimSpace(string(key))
	s.base, err = s.cpu()
	return err
}

func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// stop ends the server. It gives its processor time since it was ready, with the work that it
// had put off.
func (s *server) stop() (time.Duration, error) {
	if err := errors.Join(s.cmd.Process.Signal(syscall.SIGTERM), s.cmd.Wait()); err != nil {
		return 0, fmt.Errorf("the server ended with %w\n%s", err, tail(s.said.String()))
	}
	state := s.cmd.ProcessState
	return state.UserTime() + state.SystemTime() - s.base, nil
}

// clockTick is the unit of /proc/PID/stat on Linux (sysconf(_SC_CLK_TCK)).
const clockTick = 10 * time.Millisecond

// cpu is the processor time so far, of threads that ended too.
func (s *server) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := int64(0)
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// used is the processor time that something took.
func (s *server) used(do func() error) (time.Duration, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.cpu()
	return after - before, err
}

// memory is a figure of /proc/PID/status: VmRSS or VmHWM; 0 when it cannot be read.
func (s *server) memory(name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// disk is the size of all files but the log.
func (s *server) disk() (size int64, err error) {
	err = filepath.WalkDir(filepath.Join(s.folder, "data"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || filepath.Ext(path) == ".wal" {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // merged meanwhile
		}
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// syncs counts what the server syncs while something is done; -1 where strace cannot tell.
func (s *server) syncs(ctx context.Context, do func() error) (int, error) {
	file := filepath.Join(s.folder, "strace")
	trace := exec.CommandContext(ctx, "strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", file, "-p", strconv.Itoa(s.cmd.Process.Pid))
	if err := trace.Start(); err != nil {
		row("syncs", "SKIPPED: %v", err)
		return -1, do()
	}
	time.Sleep(2 * time.Second) // until it is attached to every thread
	err := do()
	err = errors.Join(err, trace.Process.Signal(syscall.SIGINT))
	_ = trace.Wait() // ends with the signal
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		row("syncs", "SKIPPED: %v", err)
		return -1, nil
	}
	return bytes.Count(text, []byte("sync(")), nil
}

func tail(text string) string { return text[max(0, len(text)-2000):] }
