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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server under measurement.
type process struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	base time.Duration // CPU until it was ready
}

// clockTick is the unit of /proc/PID/stat on Linux (sysconf(_SC_CLK_TCK)).
const clockTick = 10 * time.Millisecond

func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time: %w", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := int64(0)
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memory is the most resident memory so far.
func (p *process) memory() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the peak memory: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmHWM in the status")
}

// ready notes what the start cost.
func (p *process) ready() (err error) {
	p.base, err = p.cpu()
	return err
}

// stop sends SIGTERM and returns the CPU since ready, the work of the stop
// included: what a server only put off is counted too.
func (p *process) stop() (cpu time.Duration, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s ended with %w\n%s", p.cmd.Path, err, tail(p.said.String()))
	}
	state := p.cmd.ProcessState
	return state.UserTime() + state.SystemTime() - p.base, nil
}

// kill ends a process whose figures nobody needs.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

// waitFor polls until ok holds.
func waitFor(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// folderBytes is the size of the files below a folder for which keep holds.
func folderBytes(folder string, keep func(path string) bool) (size int64, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !keep(path) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
