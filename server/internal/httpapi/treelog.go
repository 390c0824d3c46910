package httpapi

import (
	"context"
	"math"
	"net/http"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// TreeLog is the Merkle log over the records of each project; package statelog
// keeps it, wired in cmd where the setting is on.
type TreeLog interface {
	Head(ctx context.Context, workspace, project string, cosigned bool) (*transparency.SignedHead, error)
	Inclusion(ctx context.Context, workspace, project string, index, size uint64) (record []byte, hashes []state.Hash, err error)
	// Leaves are records from an index on, as many as fit into an answer.
	Leaves(ctx context.Context, workspace, project string, from, size uint64, limit int) ([][]byte, error)
	Consistency(ctx context.Context, workspace, project string, from, to uint64) ([]state.Hash, error)
	Witness(ctx context.Context, workspace, project string, size uint64, c transparency.Cosignature) error
}

type inclusionDoc struct {
	Record []byte       `json:"record"`
	Hashes []state.Hash `json:"hashes"`
}

type leavesDoc struct {
	Leaves [][]byte `json:"leaves"`
}

type hashesDoc struct {
	Hashes []state.Hash `json:"hashes"`
}

// witnessDoc is a cosignature of the head of a size.
type witnessDoc struct {
	Size uint64 `json:"size"`
	transparency.Cosignature
}

// tree checks the right to read a project's log, that there is one, and waits for
// the caller's share of the memory.
func (a *API) tree(r *http.Request, bytes int64) (workspace, project string, release func(), err error) {
	workspace, project = r.PathValue("workspace"), r.PathValue("project")
	if err := a.query.Allow(r.Context(), workspace, project); err != nil {
		return "", "", nil, err
	}
	if err := a.hasTree(); err != nil {
		return "", "", nil, err
	}
	release, err = a.memory.reserve(r.Context(), bytes)
	return workspace, project, release, err
}

// proofBytes is what a head or a proof takes of its caller's memory: some kilobytes, and
// the work to find them.
const proofBytes = 64 << 10

func (a *API) hasTree() error {
	if a.options.Tree == nil {
		return model.Errorf(model.CodeLogOff, "this server keeps no Merkle log").WithHint("start it with --state-log, or set state.log")
	}
	return nil
}

func (a *API) treeHead(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "cosigned")
	cosigned := p.flag("cosigned")
	if p.err != nil {
		return p.err
	}
	workspace, project, release, err := a.tree(r, proofBytes)
	if err != nil {
		return err
	}
	defer release()
	head, err := a.options.Tree.Head(r.Context(), workspace, project, cosigned)
	if err != nil {
		return err
	}
	return writeJSON(w, head)
}

func (a *API) treeProof(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "index", "size")
	index, size := p.count("index"), p.count("size")
	if p.err != nil {
		return p.err
	}
	workspace, project, release, err := a.tree(r, proofBytes)
	if err != nil {
		return err
	}
	defer release()
	record, hashes, err := a.options.Tree.Inclusion(r.Context(), workspace, project, index, size)
	if err != nil {
		return err
	}
	return writeJSON(w, inclusionDoc{record, hashes})
}

func (a *API) treeConsistency(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "from", "to")
	from, to := p.count("from"), p.count("to")
	if p.err != nil {
		return p.err
	}
	workspace, project, release, err := a.tree(r, proofBytes)
	if err != nil {
		return err
	}
	defer release()
	hashes, err := a.options.Tree.Consistency(r.Context(), workspace, project, from, to)
	if err != nil {
		return err
	}
	return writeJSON(w, hashesDoc{hashes})
}

func (a *API) treeLeaves(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "from", "size", "limit")
	from, size, limit := p.count("from"), p.count("size"), p.size("limit", math.MaxInt32)
	if p.err != nil {
		return p.err
	}
	workspace, project, release, err := a.tree(r, recordsBytes)
	if err != nil {
		return err
	}
	defer release()
	leaves, err := a.options.Tree.Leaves(r.Context(), workspace, project, from, size, limit)
	if err != nil {
		return err
	}
	return a.cut(r, writeJSON(w, leavesDoc{leaves}))
}

// treeWitness keeps a cosignature. It is a write of the project.
func (a *API) treeWitness(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	var doc witnessDoc
	if err := readBody(w, r, &doc); err != nil {
		return err
	}
	workspace, project := r.PathValue("workspace"), r.PathValue("project")
	if err := a.query.AllowWrite(r.Context(), workspace, project); err != nil {
		return err
	}
	if err := a.hasTree(); err != nil {
		return err
	}
	if err := a.options.Tree.Witness(r.Context(), workspace, project, doc.Size, doc.Cosignature); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
