package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// maxFile is above what an export of a run holds.
const maxFile = 1 << 30

// FileReport is what a file of evidence proves.
type FileReport struct {
	Kind    string        `json:"kind"` // record, history, proof, tree head, inclusion, split
	Verdict state.Verdict `json:"verdict,omitempty"`
	Told    string        `json:"told"`
	History *Report       `json:"history,omitempty"`
}

// VerifyFile checks a file that a server or another person made: a record, an
// exported history, a proof of two records, a tree head, an inclusion or a split.
// An error says why it proves nothing.
func VerifyFile(ctx context.Context, path string, o Options) (*FileReport, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(text) > maxFile:
		return nil, model.Errorf(model.CodeTooLarge, "%s is larger than %d bytes", path, maxFile)
	}
	report, err := verifyText(ctx, text, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

func verifyText(ctx context.Context, text []byte, o Options) (*FileReport, error) {
	text = bytes.TrimSpace(text)
	if bytes.Contains(text, []byte("}\n{")) {
		return verifyExport(ctx, text, o)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(text, &names); err != nil {
		return nil, model.Errorf(model.CodeInvalid, "this is not JSON: %v", err)
	}
	has := func(name string) bool { return names[name] != nil }
	switch {
	case has("signature") && has("record") && has("index"): // an export of one record
		return verifyExport(ctx, text, o)
	case has("signature") && has("record"):
		return verifyRecord(ctx, text, o)
	case has("root"):
		return verifyHead(text)
	case has("hashes"):
		return verifyInclusion(text)
	case has("a") && has("b"):
		return verifyPair(text)
	}
	return nil, model.Errorf(model.CodeInvalid, "this is no record, proof, tree head or split of Kymogram").
		WithHint("kymogram state export and prove write files to verify")
}

func verifyRecord(ctx context.Context, text []byte, o Options) (*FileReport, error) {
	e, err := state.ReadEnvelope(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	j, err := judge(ctx, state.Expect{Anywhere: true}, e, o.Now, nil)
	if err != nil {
		return nil, err
	}
	if j.Verdict == state.Broken {
		return nil, errors.New(j.Reason)
	}
	return &FileReport{Kind: "record", Verdict: j.Verdict, Told: fmt.Sprintf("record of %s: %s", j.Record.Place, j.Reason)}, nil
}

func verifyExport(ctx context.Context, text []byte, o Options) (*FileReport, error) {
	var c *chain
	for line := range bytes.Lines(text) {
		e := new(state.Entry)
		if err := json.Unmarshal(line, e); err != nil {
			return nil, err
		}
		if c == nil {
			first, err := e.Authentic()
			if err != nil {
				return nil, err
			}
			c = newChain(&Run{Workspace: first.Workspace, Project: first.Project, Name: first.Run}, o)
		}
		c.add(e)
	}
	report, err := c.end(ctx)
	return &FileReport{Kind: "history", Told: report.summary(), History: report}, err
}

func verifyHead(text []byte) (*FileReport, error) {
	h := new(transparency.SignedHead)
	if err := json.Unmarshal(text, h); err != nil {
		return nil, err
	}
	if err := h.Check(); err != nil {
		return nil, err
	}
	return &FileReport{Kind: "tree head", Told: tellHead(h)}, nil
}

func tellHead(h *transparency.SignedHead) string {
	return fmt.Sprintf("log %s/%s of key %s has %d records, root %s, cosigned by %d witnesses", h.Workspace, h.Project, h.Key, h.Size, h.Root, len(h.Cosignatures))
}

func verifyInclusion(text []byte) (*FileReport, error) {
	i := new(transparency.Inclusion)
	if err := json.Unmarshal(text, i); err != nil {
		return nil, err
	}
	if err := i.Check(); err != nil {
		return nil, err
	}
	r, err := state.Decode(i.Record)
	if err != nil {
		return nil, err
	}
	return &FileReport{Kind: "inclusion", Told: fmt.Sprintf("sequence %d of %s is record %d of the log: %s", r.Sequence, r.Place, i.Index, tellHead(&i.Head))}, nil
}

// verifyPair takes two records with one sequence, or two histories of one server.
func verifyPair(text []byte) (*FileReport, error) {
	var proof state.Proof
	if json.Unmarshal(text, &proof) == nil {
		verdict, told, err := proof.Check()
		return &FileReport{Kind: "proof", Verdict: verdict, Told: told}, err
	}
	var split transparency.Split
	if err := json.Unmarshal(text, &split); err != nil {
		return nil, err
	}
	told, err := split.Check()
	return &FileReport{Kind: "split", Told: told}, err
}
