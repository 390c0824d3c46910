package uplink

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/kymogram/kymogram/internal/platform"
)

const maxLog = 1 << 20

// LogFile is an agent's log: a private file that becomes NAME.1 at 1 MiB.
type LogFile struct {
	path string
	// also are descriptors that follow the file, as standard error does.
	also []int

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens a log file; the descriptors in also are made to point to it.
func OpenLog(path string, also ...int) (*LogFile, error) {
	l := &LogFile{path: path, also: also}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|platform.NoFollow, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.file, l.size = f, info.Size()
	for _, fd := range l.also {
		if err := platform.Redirect(fd, f); err != nil {
			return fmt.Errorf("send descriptor %d to the log: %w", fd, err)
		}
	}
	return nil
}

// Write appends whole lines.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *LogFile) rotate() error {
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	old := l.file
	return errors.Join(l.open(), old.Close())
}

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
