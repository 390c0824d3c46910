package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/gauges"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
)

// joinStore opens points that several servers share. Their ledger is in the catalog's database.
func (n *node) joinStore(ctx context.Context, folder data.Folder) error {
	name, lock, err := folder.Join(cluster.Named(n.config.Store))
	if err != nil {
		return err
	}
	n.closers = append(n.closers, lock)
	engine, err := clickhouse.Open(ctx, clickhouse.Config{
		Points: n.config.Store, Password: os.Getenv("CLICKHOUSE_PASSWORD"), Ledger: n.config.Catalog, Log: n.config.PointsLog, Node: name,
		SeriesPerRunLimit: int(n.config.Limits.SeriesPerRun), Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.engine, n.member, n.closers = engine, engine, append(n.closers, engine)
	return nil
}

// claimPoints comes after the catalog is known to be the store's: an address of another server's
// catalog leaves no trace among points.
func (n *node) claimPoints(ctx context.Context) error {
	if n.member == nil {
		return nil
	}
	name, err := hex.DecodeString(owner("points", n.member.Secret()))
	if err != nil {
		return fmt.Errorf("name the store: %w", err)
	}
	if err := n.member.Claim(ctx, name); err != nil {
		return err
	}
	if err := n.member.OpenLog(ctx); err != nil {
		return err
	}
	return data.Folder(n.config.Data).SetStoreElsewhere(cluster.Named(n.config.Store))
}

// claimFiles keeps servers that share points from having different files.
func (n *node) claimFiles(ctx context.Context, place string) error {
	if n.member == nil {
		return nil
	}
	return n.member.ClaimFiles(ctx, place)
}

// sharedLog is that of the engine, nil where no other server writes to it.
func (n *node) sharedLog() store.SharedLog {
	if n.member == nil {
		return nil
	}
	return n.member
}

// logGauges tell of points that are in the log; there are none without a log.
func (n *node) logGauges() []selfmetrics.Gauge {
	if n.member == nil || !n.member.Logged() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	b, err := n.member.Backlog(ctx)
	if err != nil {
		n.log.Warn("the log cannot be counted", "err", err)
		return nil
	}
	return gauges.Log(b.Blocks, b.Oldest)
}
