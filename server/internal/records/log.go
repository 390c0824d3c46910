package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// Follow reads the log's head and checks that it continues the one in a file,
// which it then replaces. Without a file nothing is compared.
func (l Log) Follow(ctx context.Context, path string) (*transparency.SignedHead, error) {
	if path == "" {
		return l.Head(ctx)
	}
	w := new(transparency.Witness)
	seen, err := readSeen(path)
	switch {
	case err == nil:
		w.Last = &seen.Head
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	head, err := w.Follow(ctx, l)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(w.Last)
	if err != nil {
		return nil, err
	}
	return head, replace(path, append(text, '\n'))
}

// replace writes a file whole or not at all.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".head-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// seen is a file of before: a head, or a proof with its head.
type seen struct {
	Head  transparency.SignedHead
	Proof *transparency.Inclusion // nil: a head
}

func readSeen(path string) (*seen, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	out := new(seen)
	if bytes.Contains(text, []byte(`"hashes"`)) {
		out.Proof = new(transparency.Inclusion)
		if err = json.Unmarshal(text, out.Proof); err == nil {
			out.Head, err = out.Proof.Head, out.Proof.Check()
		}
	} else if err = json.Unmarshal(text, &out.Head); err == nil {
		err = out.Head.Check()
	}
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "%s holds no head or proof: %v", path, err).WithHint("kymogram state head --json and state prove write them")
	}
	return out, nil
}

// Compare checks that the log continues a head or a proof of before.
func (l Log) Compare(ctx context.Context, path string) (*transparency.SignedHead, error) {
	before, err := readSeen(path)
	if err != nil {
		return nil, err
	}
	w := &transparency.Witness{Last: &before.Head}
	head, err := w.Follow(ctx, l)
	var c *transparency.Contradiction
	if before.Proof == nil || !errors.As(err, &c) || c.Proven {
		return head, err
	}
	// The proof of before settles it: what does the log show at that place now?
	now, failed := l.Prove(ctx, before.Proof.Index)
	if failed != nil {
		return nil, err
	}
	split := transparency.SplitOf(before.Proof, now)
	if told, failed := split.Check(); failed == nil {
		c.Split, c.Reason, c.Proven = split, told, true
	}
	return nil, err
}

// Evidence is what an error holds against a server, nil for nothing.
func Evidence(err error) *transparency.Split {
	if c := (*transparency.Contradiction)(nil); errors.As(err, &c) {
		return c.Split
	}
	return nil
}

// Prove is the proof that a run's newest record is in the project's log.
func (s Server) Prove(ctx context.Context, run *Run) (*transparency.Inclusion, error) {
	newest, err := s.Newest(ctx, run)
	if err != nil {
		return nil, err
	}
	head := newest.Head
	if head == nil {
		return nil, model.Errorf(model.CodeNotFound, "run %s has no signed record", run)
	}
	proof, err := Log{s, run.Workspace, run.Project}.Prove(ctx, head.Index)
	if err == nil && !bytes.Equal(proof.Record, head.Record) {
		err = model.Errorf(model.CodeInvalid, "the log has another record than the run at index %d", head.Index)
	}
	return proof, err
}

// PrintHead shows a head for a person.
func PrintHead(out io.Writer, h *transparency.SignedHead) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "log\t%s/%s\nsize\t%d records\nroot\t%s\nsigned\t%s\nkey\t%s\n", h.Workspace, h.Project, h.Size, h.Root,
		time.UnixMilli(int64(h.TimeMs)).UTC().Format(time.RFC3339), h.Key)
	for _, c := range h.Cosignatures {
		fmt.Fprintf(w, "witness\t%s\n", c.Hotkey)
	}
	return w.Flush()
}
