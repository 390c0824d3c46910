package records

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// Server is where records are read.
type Server struct{ Client *remote.Client }

// Run is where a run's records belong.
type Run struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Project   string `json:"project"`
	Name      string `json:"name"`
}

func (r *Run) String() string { return r.Workspace + "/" + r.Project + "/" + r.Name }

// is tells whether somebody who says ref may mean the run: all or the end of its path. Less of it may
// be an id or a display name.
func (r *Run) is(ref string) bool {
	return r.String() == ref || strings.HasSuffix(r.String(), "/"+ref) || strings.Count(ref, "/") < 2
}

func (s Server) get(ctx context.Context, path string, query url.Values, into any) error {
	text, err := s.Client.Document(ctx, http.MethodGet, path, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// Run finds a run. A server that answers another one than was named is caught.
func (s Server) Run(ctx context.Context, ref string) (*Run, error) {
	id, err := s.Client.RunID(ctx, ref)
	if err != nil {
		return nil, err
	}
	r := new(Run)
	if err := s.get(ctx, remote.RunPath(id), nil, r); err != nil {
		return nil, err
	}
	if !r.is(ref) {
		return nil, model.Errorf(model.CodeInvalid, "the server answered %s instead of %s", r, ref)
	}
	return r, nil
}

// Newest is a run's newest record, with what speaks against it.
func (s Server) Newest(ctx context.Context, run *Run) (*state.Newest, error) {
	doc := new(state.Newest)
	return doc, s.get(ctx, remote.RunPath(run.ID, "state"), nil, doc)
}

// History hands over every record of a run, by sequence.
func (s Server) History(ctx context.Context, run *Run, each func(*state.Entry) error) error {
	for after := uint64(0); ; {
		var page state.Page
		if err := s.get(ctx, remote.RunPath(run.ID, "state", "history"), url.Values{"after": {strconv.FormatUint(after, 10)}}, &page); err != nil {
			return err
		}
		if err := page.Follows(after); err != nil {
			return err
		}
		for i := range page.Entries {
			if err := each(&page.Entries[i]); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		after = page.Next
	}
}

// List is the newest record of every run of a project, without those of deleted runs.
func (s Server) List(ctx context.Context, workspace, project string) (all []state.Newest, err error) {
	evidence := map[model.RunID][]state.Evidence{}
	for since := uint64(0); ; {
		var page state.Page
		if err := s.get(ctx, projectPath(workspace, project, "state"), url.Values{"since": {strconv.FormatUint(since, 10)}}, &page); err != nil {
			return nil, err
		}
		if err := page.Follows(since); err != nil {
			return nil, err
		}
		for i := range page.Entries {
			all = append(all, state.Newest{Head: &page.Entries[i]})
		}
		for _, e := range page.Evidence {
			evidence[e.RunID] = append(evidence[e.RunID], e)
		}
		if !page.More {
			for i := range all {
				all[i].Evidence = evidence[all[i].Head.RunID]
			}
			return alive(all, page.Deleted), nil
		}
		since = page.Next
	}
}

func alive(all []state.Newest, deleted []model.RunID) []state.Newest {
	gone := make(map[model.RunID]bool, len(deleted))
	for _, id := range deleted {
		gone[id] = true
	}
	return slices.DeleteFunc(all, func(n state.Newest) bool { return gone[n.Head.RunID] })
}

func projectPath(workspace, project string, rest ...string) string {
	return strings.Join(append([]string{"/api/v1/projects", url.PathEscape(workspace), url.PathEscape(project)}, rest...), "/")
}

// Log is the Merkle log of a project; it is a [transparency.Source].
type Log struct {
	Server
	Workspace, Project string
}

// Head is the log's signed head, for this project and no other.
func (l Log) Head(ctx context.Context) (*transparency.SignedHead, error) {
	h := new(transparency.SignedHead)
	if err := l.get(ctx, projectPath(l.Workspace, l.Project, "log", "head"), nil, h); err != nil {
		return nil, err
	}
	if h.Workspace != l.Workspace || h.Project != l.Project {
		return nil, model.Errorf(model.CodeInvalid, "the server answered the tree head of %s/%s", h.Workspace, h.Project)
	}
	return h, h.Check()
}

// Consistency is the proof from one size to another.
func (l Log) Consistency(ctx context.Context, from, to uint64) ([]state.Hash, error) {
	var doc struct {
		Hashes []state.Hash `json:"hashes"`
	}
	query := url.Values{"from": {strconv.FormatUint(from, 10)}, "to": {strconv.FormatUint(to, 10)}}
	return doc.Hashes, l.get(ctx, projectPath(l.Workspace, l.Project, "log", "consistency"), query, &doc)
}

// Prove reads the record at an index with its proof, and checks it.
func (l Log) Prove(ctx context.Context, index uint64) (*transparency.Inclusion, error) {
	head, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	proof := &transparency.Inclusion{Head: *head, Index: index}
	query := url.Values{"index": {strconv.FormatUint(index, 10)}, "size": {strconv.FormatUint(head.Size, 10)}}
	var doc struct {
		Record []byte       `json:"record"`
		Hashes []state.Hash `json:"hashes"`
	}
	if err := l.get(ctx, projectPath(l.Workspace, l.Project, "log", "proof"), query, &doc); err != nil {
		return nil, err
	}
	proof.Record, proof.Hashes = doc.Record, doc.Hashes
	return proof, proof.Check()
}

// Cosign puts a witness' signature under a head.
func (l Log) Cosign(ctx context.Context, head *transparency.SignedHead, signer state.Signer) error {
	c, err := head.Cosign(signer)
	if err != nil {
		return err
	}
	response, err := l.Client.Send(ctx, http.MethodPost, projectPath(l.Workspace, l.Project, "log", "witness"), nil, struct {
		Size uint64 `json:"size"`
		transparency.Cosignature
	}{head.Size, c})
	if err != nil {
		return err
	}
	return response.Body.Close()
}
