package main

import (
	"context"

	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
)

// hear takes into account what another server of the same catalog did.
func (n *node) hear(ctx context.Context, c postgres.Change) error {
	if c.Lost {
		n.keyring.AllChanged()
		n.live.Reset()
		n.states.Missed()
		return n.ingest.Moved(ctx, nil)
	}
	for _, id := range c.Keys {
		n.keyring.Changed(id)
	}
	for _, change := range c.News {
		n.live.Publish(change)
	}
	for _, p := range c.Records {
		n.states.Heard(p.Workspace, p.Project)
	}
	if len(c.Runs) == 0 {
		return nil
	}
	return n.ingest.Moved(ctx, c.Runs)
}
