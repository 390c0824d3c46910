package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const runURI = "kymogram://runs/"

// addPrompts offers the questions that people ask most.
func (s *Server) addPrompts() {
	prompt := func(name, title, argument, about, text string) {
		s.mcp.AddPrompt(&mcp.Prompt{
			Name: name, Title: title, Description: title,
			Arguments: []*mcp.PromptArgument{{Name: argument, Description: about, Required: true}},
		}, func(_ context.Context, request *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			said := short(request.Params.Arguments[argument], longestText)
			return &mcp.GetPromptResult{Description: title, Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf(text, said)}},
			}}, nil
		})
	}
	prompt("why_did_this_run_diverge", "Why did this run diverge?", "run", "id, or workspace/project/name", `Find out why the training run %q diverged, failed or stopped.
1. get_run: its status, the state and signal of its processes, its configuration.
2. find_anomalies: which metric went wrong first, and at which step.
3. get_points of that metric, and of the learning rate and the gradient norm where there are any, from 50 steps before to 10 after.
4. list_runs of its project with status finished, and compare_runs with one or two that did well.
Say what happened first, the evidence with steps and values, the most likely cause, and what you would change. Say what you could not check.`)
	prompt("which_run_is_best", "Which run of a project is best, and why?", "project", "workspace/project", `Find the best run of the project %q.
1. list_runs, and list_series of its newest run, to choose the metric that counts: one of an evaluation before one of training.
2. list_runs sorted by min(METRIC) or -max(METRIC), with that column.
3. compare_runs of the best three and the worst, and get_buckets of the metric of each.
Say which run is best, by how much, and which differences of the configuration go with it. Do not take one lucky point for a better run.`)
}

// addResources lets an agent read a run by its address.
func (s *Server) addResources() {
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "run", Title: "A training run", MIMEType: "application/json", URITemplate: runURI + "{+run}",
		Description: "What get_run says of a run, by its id or workspace/project/name",
	}, func(ctx context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		ref, err := url.PathUnescape(strings.TrimPrefix(request.Params.URI, runURI))
		if err != nil {
			return nil, mcp.ResourceNotFoundError(request.Params.URI)
		}
		var text []byte
		err = s.turn(ctx, func(ctx context.Context) error {
			run, err := s.getRun(ctx, runIn{Run: ref})
			if err != nil {
				return err
			}
			text, err = json.Marshal(run)
			return err
		})
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: request.Params.URI, MIMEType: "application/json", Text: string(text)}}}, nil
	})
}
