package spool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// Rejected is a record that was refused for good.
type Rejected struct {
	Seq     uint64     `json:"seq"`
	Code    model.Code `json:"code"`
	Message string     `json:"message"`
	Record  []byte     `json:"record"` // the payload, base64 in JSON
}

// RejectedPath is where the records of a writer go that were refused for good.
func (f *Folder) RejectedPath(writer model.WriterID) string {
	return filepath.Join(f.Path, "rejected", writer.String()+".jsonl")
}

// Reject keeps records that were refused for good.
func (f *Folder) Reject(writer model.WriterID, records []Rejected) error {
	path := f.RejectedPath(writer)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|platform.NoFollow, 0o600)
	if err != nil {
		return fmt.Errorf("keep refused records: %w", err)
	}
	enc := json.NewEncoder(out)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			out.Close()
			return fmt.Errorf("keep refused records: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("keep refused records: %w", err)
	}
	return nil
}
