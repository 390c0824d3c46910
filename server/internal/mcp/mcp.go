// Package mcp lets a coding agent read training runs: a server of the Model Context
// Protocol over a pair of streams, with tools that list, read and compare.
//
// In goes a client of package read, which has the key of the user; out come answers of
// bounded size, each with a schema and with a word about what it left out. Nothing is
// written: every tool asks the read API and no other. Start with [New], which lists the
// tools; anomaly.go says what counts as unusual, find.go where it is.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

const (
	// longestMessage bounds a request: arguments of tools are short.
	longestMessage = 1 << 20
	// callLimit is how long a tool may take.
	callLimit = 60 * time.Second
	// callsAtOnce is how many tools ask the server at a time; others wait.
	callsAtOnce = 4
)

const instructions = `Kymogram keeps training runs: their configuration, status and the points of their metrics.
A run is named by its id or by workspace/project/name; less is enough where it means one run only, and the error lists the candidates otherwise. Start with list_projects and list_runs, then get_run.
"Why did this run diverge or fail": get_run, find_anomalies, then get_points around the steps that it names, then compare_runs with a run that did well.
"Which run is best": list_runs with sort "min(eval/loss)" or "-max(eval/accuracy)" and columns.
Numbers that JSON lacks are the texts "NaN", "Infinity" and "-Infinity". Every answer is bounded and says what was left out; "next" is the cursor of the next page.`

// Server answers an agent.
type Server struct {
	client *read.Client
	base   string // the server's address, for links
	mcp    *mcp.Server
	turns  chan struct{}
}

// New makes a server of the tools. Base is the address that links to pages begin with.
func New(client *read.Client, base, version string, log *slog.Logger) *Server {
	s := &Server{client: client, base: base, turns: make(chan struct{}, callsAtOnce)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "kymogram", Title: "Kymogram", Version: version, WebsiteURL: base},
		&mcp.ServerOptions{Instructions: instructions, Logger: log, Capabilities: &mcp.ServerCapabilities{}})
	add(s, "list_projects", "List the projects that the key may read, with the number of their runs and their last activity.", s.listProjects)
	add(s, "list_runs", `List runs of a project, newest first, or in the order of "sort".`, s.listRuns)
	add(s, "get_run", "Read one run: status, tags, configuration, last values, attempts and processes.", s.getRun)
	add(s, "compare_runs", "Compare the configurations of 2 to 20 runs: only what differs.", s.compareRuns)
	add(s, "list_series", "List the series of a run: metric, labels, kind, number of points, last value.", s.listSeries)
	add(s, "get_points", "Read the exact points of one series, in order, a page at a time.", s.getPoints)
	add(s, "get_buckets", "Read the shape of a numeric series of any length: min, max, mean and the numbers of NaN and infinities in ranges of the axis.", s.getBuckets)
	add(s, "find_anomalies", "Find what is unusual in the metrics of a run, with exact steps: the first NaN and infinity, spikes, stretches of one value, divergence, no improvement, and pauses without points.", s.findAnomalies)
	s.addPrompts()
	s.addResources()
	return s
}

// Run answers the messages of in until it ends, or ctx does.
func (s *Server) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	err := s.mcp.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}, MaxLineLength: longestMessage})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the client's messages ended: %w", err)
	}
	return nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// add makes a tool of a function.
func add[In, Out any](s *Server, name, description string, do func(context.Context, In) (Out, error)) {
	inside := false
	tool := &mcp.Tool{
		Name: name, Description: description, InputSchema: schemaOf[In](), OutputSchema: schemaOf[Out](),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &inside},
	}
	mcp.AddTool(s.mcp, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var out Out
		err := s.turn(ctx, func(ctx context.Context) (err error) {
			out, err = do(ctx, in)
			return err
		})
		return nil, out, err
	})
}

// turn does something for the agent when fewer than [callsAtOnce] others do.
func (s *Server) turn(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return told(ctx.Err())
	}
	return told(do(ctx))
}

// told is an error as an agent can use it: with its hint.
func told(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the tool took longer than %s: ask for fewer series or a shorter range", callLimit)
	}
	var e *model.Error
	if errors.As(err, &e) && e.Hint != "" {
		return fmt.Errorf("%w (%s)", err, e.Hint)
	}
	return err
}
