package statelog

import (
	"context"
	"fmt"
	"sync"

	"github.com/kymogram/kymogram/server/internal/transparency"
)

// given has the largest head of each project that this server gave out. A database that lost
// it, by a restore or a failover, may go on with other records: then no head is given.
type given struct {
	mu    sync.Mutex
	heads map[string]transparency.Head
}

// mostGiven bounds what is remembered; then all is forgotten.
const mostGiven = 100_000

func (g *given) of(workspace, name string) (h transparency.Head, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, known = g.heads[workspace+"/"+name]
	return h, known
}

// continued says that a project still begins with what was given out.
func (g *given) continued(ctx context.Context, q querier, p project, workspace, name string) error {
	if h, known := g.of(workspace, name); known {
		return begins(ctx, q, p, h)
	}
	return nil
}

// give takes note of a head of a project, unless another history was given out before.
func (g *given) give(ctx context.Context, q querier, id int64, h transparency.Head) error {
	before, known := g.of(h.Workspace, h.Project)
	switch {
	case known && h.Size == before.Size && h.Root != before.Root:
		return lost(h.Workspace, h.Project, fmt.Sprintf("a head of size %d was given out with another root", h.Size))
	case known && h.Size <= before.Size: // another caller was faster
		return nil
	case known:
		if err := begins(ctx, q, project{id: id, size: int64(h.Size), treeSize: int64(h.Size)}, before); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.heads) >= mostGiven {
		clear(g.heads)
	}
	if name := h.Workspace + "/" + h.Project; h.Size > g.heads[name].Size {
		g.heads[name] = h
	}
	return nil
}
