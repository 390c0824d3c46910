package wal

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Inspect reads the files of a log, given by rising name, without changing them:
// every record goes to replay. It returns what is damaged; an unfinished record
// at the very end is torn, as the writer may still be at work.
func Inspect(files []NamedFile, replay Replay) (damage []Damage, err error) {
	last := uint64(0)
	for i, f := range files {
		first, ok := FirstLSN(f.Name)
		if !ok {
			return damage, fmt.Errorf("%s is no log file", f.Name)
		}
		data, err := f.read()
		if err != nil {
			return damage, fmt.Errorf("read %s: %w", f.Name, err)
		}
		bad, err := walk(data, func(lsn uint64, payload []byte) (bool, error) {
			if lsn <= last || lsn < first {
				return false, nil
			}
			last = lsn
			return true, replay(lsn, payload)
		})
		for _, d := range bad {
			d.File = f.Name
			d.Torn = i == len(files)-1 && d.Offset+d.Bytes == int64(len(data))
			damage = append(damage, d)
		}
		if err != nil {
			return damage, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return damage, nil
}

// NamedFile is the first Size bytes of an open file.
type NamedFile struct {
	Name string // base name
	Size int64
	io.ReaderAt
}

func (f *NamedFile) read() ([]byte, error) {
	data := make([]byte, f.Size)
	if n, err := f.ReadAt(data, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == f.Size) {
		return nil, err
	}
	return data, nil
}

// FirstLSN is what a log file's name says; false when it is none.
func FirstLSN(name string) (uint64, bool) {
	if !isSegment(name) {
		return 0, false
	}
	n, err := strconv.ParseUint(name[:20], 10, 64)
	return n, err == nil
}

// FileName is the name of a log file; an empty file of that name keeps smaller
// LSNs from being given out.
func FileName(first uint64) string { return segmentName(first) }

// Whole is how many bytes of a log file its whole records take (what is behind
// them was being written) and the LSN of the last one, 0 when there is none.
func Whole(data []byte) (size int64, last uint64) {
	bad, _ := walk(data, func(lsn uint64, _ []byte) (bool, error) {
		last = max(last, lsn)
		return true, nil
	})
	if n := len(bad); n > 0 && bad[n-1].Offset+bad[n-1].Bytes == int64(len(data)) {
		return bad[n-1].Offset, last
	}
	return int64(len(data)), last
}

// walk gives every whole record to take, which may say that it does not belong.
func walk(data []byte, take func(lsn uint64, payload []byte) (bool, error)) (damage []Damage, err error) {
	for pos := int64(0); pos < int64(len(data)); {
		lsn, payload, size, ok := parseFrame(data[pos:])
		if ok {
			if ok, err = take(lsn, payload); err != nil {
				return damage, fmt.Errorf("record %d: %w", lsn, err)
			}
		}
		if ok {
			pos += size
			continue
		}
		next := resync(data, pos+frameAlign)
		if next < 0 {
			next = int64(len(data))
		}
		damage = append(damage, Damage{Offset: pos, Bytes: next - pos})
		pos = next
	}
	return damage, nil
}
