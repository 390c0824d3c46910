package spool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func writeOpen(dir string, open Open) error {
	doc, err := json.Marshal(open)
	if err != nil {
		return fmt.Errorf("encode open.json: %w", err)
	}
	return replace(filepath.Join(dir, "open.json"), doc)
}

// ReplaceOpen rewrites open.json of a writer, by rename.
func (f *Folder) ReplaceOpen(open Open) error { return writeOpen(f.WriterPath(open.Open.Writer), open) }

const openFile = "open.json"

// ReadOpen reads open.json of a writer's folder.
func ReadOpen(dir string) (Open, error) {
	doc, err := os.ReadFile(filepath.Join(dir, openFile))
	if err != nil {
		return Open{}, fmt.Errorf("read %s: %w", openFile, err)
	}
	return parseOpen(dir, doc)
}

func parseOpen(dir string, doc []byte) (Open, error) {
	var open Open
	if err := json.Unmarshal(doc, &open); err != nil {
		return open, fmt.Errorf("read %s/open.json: %w", dir, err)
	}
	if !readable(open.Format) {
		return open, fmt.Errorf("read %s/open.json: %w", dir, errNewer)
	}
	return open, nil
}

// replace writes a private file by rename.
func replace(path string, doc []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(doc)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
