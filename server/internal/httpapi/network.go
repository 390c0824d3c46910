package httpapi

import (
	"context"
	"net/http"
	"time"
)

// Networks draws a project's signed state; package network does, wired in cmd.
type Networks interface {
	Network(ctx context.Context, q NetworkQuery) ([]byte, error)
}

// NetworkQuery asks for a project's network.
type NetworkQuery struct {
	Workspace, Project string
	Netuid             *uint16 // nil: the subnet of most records
	// Wait is how long to wait for a record behind the first Since; 0 answers at once.
	Since uint64
	Wait  time.Duration
}

// network answers what the Network page draws. A caller whose key ends while it
// waits gets nothing more.
func (a *API) network(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "netuid", "since", "wait")
	q := NetworkQuery{
		Workspace: r.PathValue("workspace"), Project: r.PathValue("project"),
		Netuid: p.netuid(), Since: p.count("since"),
	}
	q.Wait = p.wait()
	if p.err != nil {
		return p.err
	}
	if err := a.query.Allow(r.Context(), q.Workspace, q.Project); err != nil {
		return err
	}
	if q.Wait > 0 {
		end, err := a.waits.Try(r.Context(), 1)
		if err != nil {
			return err
		}
		defer end()
	}
	body, err := a.options.Networks.Network(r.Context(), q)
	if err == nil {
		err = a.query.Allow(r.Context(), q.Workspace, q.Project)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(body)
	return a.cut(r, err)
}
