//go:build unix

package console

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram/internal/spool"
)

const (
	sizeEvery = 100 * time.Millisecond // how soon the program's terminal has the size of the real one
	// patience is how long what looks like the begin of a mark is held back.
	patience  = 100 // ms
	piece     = 64 << 10
	longStall = 200 * time.Millisecond
)

// What the relay says on the control socket, a line each.
const (
	sayReady = "ready\n"
	sayEnd   = "end\n"  // all that was written to a channel before its end mark is out and kept
	sayGone  = "gone\n" // nobody reads what the program writes
)

// Run passes a program's output on until nobody holds its channels any more. control is
// the descriptor of a socket, whose first line is a [Spec].
func Run(control int, version string, logger *slog.Logger) (*spool.Folder, error) {
	socket := os.NewFile(uintptr(control), "control")
	if socket == nil {
		return nil, fmt.Errorf("%d is no descriptor", control)
	}
	defer socket.Close()
	text, err := bufio.NewReader(socket).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read from the program: %w", err)
	}
	spec, err := readSpec(text)
	if err != nil {
		return nil, err
	}
	folder, err := spool.OpenFolder(spec.Spool)
	if err != nil {
		return nil, err
	}
	lines, err := newLog(folder, spec, version)
	if err != nil {
		return nil, err
	}
	defer lines.close()
	failed := sync.OnceFunc(func() { logger.Warn("lines of the console are not kept", "run", spec.Open.RunName) })
	r := &relay{spec: spec, control: socket, keeper: newKeeper(lines.line, spec.Secrets, func(err error) {
		failed()
		logger.Debug("a line of the console is not kept", "error", err)
	})}
	if _, err := socket.WriteString(sayReady); err != nil {
		return nil, fmt.Errorf("answer the program: %w", err)
	}
	r.pass()
	return folder, nil
}

type relay struct {
	spec    *Spec
	control *os.File
	keeper  *keeper
}

// pass runs all parts until the channels have ended.
func (r *relay) pass() {
	var channels, others sync.WaitGroup
	stop := make(chan struct{})
	others.Go(func() { r.keeper.run(stop) })
	others.Go(func() { r.follow(stop) })
	for _, c := range r.spec.Channels {
		channels.Go(func() { r.channel(c) })
	}
	channels.Wait()
	r.keeper.settle()
	close(stop)
	others.Wait()
}

// channel passes one channel on: bytes go out first, then to the keeper.
func (r *relay) channel(c Channel) {
	out := target{fd: c.Target}
	m := newMarks(r.spec.Marker, c.Stream)
	m.output = func(stream string, data []byte) {
		if !out.gone && out.write(data) != nil {
			// As without a relay, the program shall meet the error itself.
			out.gone = true
			_, _ = r.control.WriteString(sayGone)
		}
		r.keeper.push(stream, data, time.Now())
	}
	m.ended = func() {
		r.keeper.settle()
		_, _ = r.control.WriteString(sayEnd)
	}
	buffer := make([]byte, piece)
	for {
		// It waits in poll, not in read: a SIGKILL while it waits takes no bytes along.
		wait := -1
		if len(m.held) > 0 {
			wait = patience
		}
		if !readable(c.Source, wait) {
			m.release()
			continue
		}
		n, err := unix.Read(c.Source, buffer)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case err != nil || n <= 0: // EIO is the end of a pseudo-terminal
			m.release()
			_ = unix.Close(c.Target) // who reads it shall not wait for the rest of the work
			return
		default:
			m.write(buffer[:n])
		}
	}
}

// readable waits until something can be read, or ms have passed.
func readable(fd, ms int) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor fits
		n, err := unix.Poll(fds, ms)
		if !errors.Is(err, unix.EINTR) {
			return n != 0
		}
	}
}

// target is where the bytes go. Its flags are shared with other processes and stay.
type target struct {
	fd   int
	gone bool
}

func (t *target) write(data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(t.fd, data)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLOUT}} //nolint:gosec // a descriptor fits
			_, _ = unix.Poll(fds, int(longStall.Milliseconds()))
		case err != nil:
			return err
		default:
			data = data[n:]
		}
	}
	return nil
}

// follow gives the program's terminal the size of the real one. The signal for that went to
// the program's process group before the size was known here: it is sent once more.
func (r *relay) follow(stop <-chan struct{}) {
	ticker := time.NewTicker(sizeEvery)
	defer ticker.Stop()
	terminals := []Channel{}
	for _, c := range r.spec.Channels {
		if c.Terminal {
			terminals = append(terminals, c)
		}
	}
	for len(terminals) > 0 {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		changed := false
		for _, c := range terminals {
			changed = resize(c) || changed
		}
		if changed {
			_ = unix.Kill(r.spec.PID, unix.SIGWINCH)
		}
	}
}

func resize(c Channel) bool {
	is, err := unix.IoctlGetWinsize(c.Source, unix.TIOCGWINSZ)
	if err != nil {
		return false
	}
	want, err := unix.IoctlGetWinsize(c.Target, unix.TIOCGWINSZ)
	return err == nil && *is != *want && unix.IoctlSetWinsize(c.Source, unix.TIOCSWINSZ, want) == nil
}
