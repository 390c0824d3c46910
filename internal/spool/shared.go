package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	sharedFile = "shared.json"
	mostShared = 1_000
)

// ReadShared is what the server said of environments of a writer that another
// one logs too.
func ReadShared(dir string) ([]model.SharedWith, error) {
	doc, err := os.ReadFile(filepath.Join(dir, sharedFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read shared environments: %w", err)
	}
	var out []model.SharedWith
	if err := json.Unmarshal(doc, &out); err != nil {
		return nil, fmt.Errorf("read shared environments: %w", err)
	}
	return out, nil
}

// AddShared keeps what the server said now; it returns how many there are.
func AddShared(dir string, said []model.SharedWith) (int, error) {
	all, err := ReadShared(dir)
	if err != nil {
		return 0, err
	}
	before := len(all)
	for _, s := range said {
		known := slices.ContainsFunc(all, func(k model.SharedWith) bool { return k.Env == s.Env && k.Writer == s.Writer })
		if !known && len(all) < mostShared {
			all = append(all, s)
		}
	}
	if len(all) == before {
		return before, nil
	}
	doc, err := marshalPlain(all)
	if err != nil {
		return before, fmt.Errorf("encode shared environments: %w", err)
	}
	return len(all), replace(filepath.Join(dir, sharedFile), doc)
}
