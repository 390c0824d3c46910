package records

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/transparency-dev/merkle/compact"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// audited is what an audit keeps in its file: a head, so that the file serves the other
// commands too, and what the leaves below it said.
type audited struct {
	*transparency.SignedHead
	Edge   []state.Hash `json:"edge,omitempty"`   // of the tree; absent in a file of another command
	Places []tipped     `json:"places,omitempty"` // what was newest
}

// tipped are the newest records of a place.
type tipped struct {
	state.Place
	Tips []tip `json:"tips"`
}

// readAudited reads the file of an audit before, or of `state head --seen`; there may
// be none.
func readAudited(path string) (*audited, error) {
	if path == "" {
		return &audited{}, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &audited{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := &audited{SignedHead: &transparency.SignedHead{}}
	if err = json.Unmarshal(text, out); err == nil {
		err = out.Check()
	}
	if err == nil && out.Workspace == "" {
		err = errors.New("it names no project")
	}
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "%s holds no head: %v", path, err).WithHint("name the file of an audit before, or a new one to begin at the first leaf")
	}
	return out, nil
}

// head is the head that was seen last, nil for none.
func (d *audited) head() *transparency.SignedHead { return d.SignedHead }

// read is how many leaves were read before.
func (d *audited) read() uint64 {
	if d.SignedHead == nil || len(d.Edge) == 0 {
		return 0
	}
	return d.Size
}

// edge is the tree of the leaves that were read before.
func (d *audited) edge() (*compact.Range, error) {
	edge, err := rangeOf(d.read(), d.Edge)
	if err == nil && d.read() > 0 {
		var root []byte
		if root, err = edge.GetRootHash(nil); err == nil && string(root) != string(d.Root[:]) {
			err = errors.New("its edge is not that of its head")
		}
	}
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "the --seen file is damaged: %v", err).WithHint("name a new file to begin at the first leaf")
	}
	return edge, nil
}

func (d *audited) tips() map[state.Place][]tip {
	out := make(map[state.Place][]tip, len(d.Places))
	if len(d.Edge) == 0 { // a file of another command
		return out
	}
	for _, p := range d.Places {
		out[p.Place] = p.Tips
	}
	return out
}

// keep replaces the file.
func (a *auditor) keep(path string, head *transparency.SignedHead) error {
	out := audited{SignedHead: head}
	for _, hash := range a.edge.Hashes() {
		out.Edge = append(out.Edge, state.Hash(hash))
	}
	for place, tips := range a.tips {
		out.Places = append(out.Places, tipped{place, tips})
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return replace(path, append(text, '\n'))
}
