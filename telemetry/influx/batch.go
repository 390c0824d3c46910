package influx

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/spool"
)

const suffix = ".lines"

// batch is lines that are sent together. Whoever writes its file holds the lock of it.
type batch struct {
	lines []string
	began time.Time
	tries int
	due   time.Time // when it may be tried again
	file  *os.File  // nil: in memory only
	path  string
}

// add keeps a line; from now on it survives a kill.
func (b *batch) add(line string) error {
	b.lines = append(b.lines, line)
	if b.file == nil {
		return nil
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = b.file.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep a line in %s: %w", b.path, err)
	}
	return nil
}

// done forgets the lines: they are sent, or refused for good.
func (b *batch) done() {
	if b.file != nil {
		_ = os.Remove(b.path)
	}
	b.leave()
}

// leave lets go of the file; whoever comes next sends it.
func (b *batch) leave() {
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
}

// folder is the files of one destination.
type folder struct{ path string }

func openFolder(env func(string) string, destination string) (folder, error) {
	f, err := spool.Resolve(env)
	if err != nil {
		return folder{}, err
	}
	path := filepath.Join(f.Path, "influx", fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(destination))))
	return folder{path}, os.MkdirAll(path, 0o700)
}

// create makes an empty batch; nobody sees it without its lock.
func (f folder) create() (*batch, error) {
	path := filepath.Join(f.path, fmt.Sprintf("%016x-%08x", time.Now().UnixNano(), rand.Uint32()))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := platform.Lock(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	if err := os.Rename(path, path+suffix); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &batch{file: file, path: path + suffix, began: time.Now()}, nil
}

// left are the batches of processes that ended, oldest first.
func (f folder) left() (out []*batch) {
	paths, _ := filepath.Glob(filepath.Join(f.path, "*"+suffix))
	for _, path := range paths {
		file, err := os.OpenFile(path, os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if free, err := platform.TryLock(file); err != nil || !free {
			_ = file.Close()
			continue
		}
		b := &batch{file: file, path: path, lines: read(file), began: time.Now()}
		if len(b.lines) == 0 {
			b.done()
			continue
		}
		out = append(out, b)
	}
	return out
}

// read is the lines of a file; the last may be cut.
func read(file *os.File) (out []string) {
	in := bufio.NewReader(file)
	for {
		row, err := in.ReadBytes('\n')
		var line string
		if json.Unmarshal(bytes.TrimSpace(row), &line) == nil && line != "" {
			out = append(out, line)
		}
		if err != nil {
			return out
		}
	}
}
