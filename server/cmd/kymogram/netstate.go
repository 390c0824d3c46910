package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	_ "modernc.org/sqlite" // the driver of the local database

	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/server/internal/participant"
	"github.com/kymogram/kymogram/server/internal/subnet"
)

// netstateCommand is the half of Python's kymogram.netstate that signs and judges.
func netstateCommand(io stdio) *cobra.Command {
	return &cobra.Command{
		Use:    "netstate",
		Short:  "Take part in a network's state, for kymogram.netstate of Python",
		Long:   "Take part in a network's state. Python's kymogram.netstate runs this: one JSON object a line, on stdin and stdout.",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return participant.Serve(cmd.Context(), io.in, io.out, participant.Options{
				// The password is the environment's only: stdin belongs to the parent.
				OpenDb: openComputeDb, Inventory: netstate.PerfInfo, Password: subnet.Password(io.env, nil, nil, ""),
				Log: slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
		},
	}
}

// openComputeDb opens the file of a participant, which nobody else may read.
func openComputeDb(ctx context.Context, path string) (*netstate.ComputeDb, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the local database: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	pool, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	return netstate.OpenComputeDb(ctx, pool)
}
