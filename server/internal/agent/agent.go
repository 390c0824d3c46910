// Package agent is a process that delivers a spool. In go a folder, who started the
// process and what it shows meanwhile; out comes an error, once nothing is left to do
// or the context ends.
//
// An agent that a person starts stays and logs to the terminal. One that a program
// starts logs to SPOOL/agent.log, ends when it is idle, and gives way without an error
// to whoever delivers the spool already: at any time one process does. Start with
// [Agent.Run]; [Start] makes one that goes on without its starter.
package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/expose"
)

// Agent is what an agent delivers, and how.
type Agent struct {
	Folder  *spool.Folder
	Kind    spool.HolderKind // who started it
	Idle    time.Duration    // it ends so long after its work; 0 stays
	Version string
	Env     func(string) string
	Err     io.Writer // where one that a person started logs

	Metrics string   // the address of its metrics; empty: none
	Groups  []string // what of the programs' metrics is public there
	// Parts work beside it and show in its metrics, which listener answers for.
	Parts func(log *slog.Logger, listener net.Listener) ([]expose.Part, error)
}

// Run delivers until ctx ends, or nothing was left to do for long enough.
func (a *Agent) Run(ctx context.Context) error {
	out := a.Err
	if a.Kind == spool.KindAgent {
		file, err := uplink.OpenLog(logOf(a.Folder), 1, 2)
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	log.Info("agent", "spool", a.Folder.Path, "pid", os.Getpid(), "version", a.Version)
	err := a.deliver(ctx, uplink.Options{Kind: a.Kind, Version: a.Version, Idle: a.Idle, Log: log, Env: a.Env})
	if errors.Is(err, uplink.ErrHeld) && a.Kind == spool.KindAgent {
		log.Info("not needed", "reason", err)
		return nil // whoever holds the spool delivers it
	}
	log.Info("agent ends", "error", err)
	return err
}

// deliver answers for metrics meanwhile, where that is wanted.
func (a *Agent) deliver(ctx context.Context, opts uplink.Options) error {
	if a.Metrics == "" {
		return uplink.New(a.Folder, opts).Run(ctx)
	}
	listener, err := expose.Listen(ctx, a.Metrics)
	if err != nil {
		return err
	}
	parts, err := a.Parts(opts.Log, listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return expose.Serve(ctx, a.Folder, opts, a.Groups, listener, parts...)
}

func logOf(folder *spool.Folder) string { return filepath.Join(folder.Path, "agent.log") }
