package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/mcp"
)

const (
	longestAnswer = 256 << 20 // bytes of an answer of the server; a tool's own is far shorter
)

func mcpCommand(io stdio) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let a coding agent read training runs (Model Context Protocol)",
		Long: `Let a coding agent read training runs: a server of the Model Context Protocol on
the standard input and output. The agent starts it. It only reads: a key of scope
read is enough.

Claude Code:
  claude mcp add kymogram -- kymogram mcp --server http://127.0.0.1:7070

Cursor (.cursor/mcp.json) and Claude Desktop (claude_desktop_config.json):
  {"mcpServers": {"kymogram": {"command": "kymogram", "args": ["mcp", "--server", "http://127.0.0.1:7070"]}}}

VS Code (.vscode/mcp.json):
  {"servers": {"kymogram": {"type": "stdio", "command": "kymogram", "args": ["mcp", "--server", "http://127.0.0.1:7070"]}}}

The key is that of KYMOGRAM_API_KEY, which these files may set under "env", else the
one in credentials.json. docs/mcp.md lists the tools.`,
		Example: `  kymogram mcp
  kymogram mcp --server https://kymogram.example.org`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			server.Most = longestAnswer
			log := slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
			return mcp.New(read.Over(server), server.Base, version, log).Run(cmd.Context(), io.in, io.out)
		},
	}
	c.addTo(cmd)
	// What it writes is JSON in any case.
	if err := cmd.Flags().MarkHidden("json"); err != nil {
		panic(err)
	}
	return cmd
}
