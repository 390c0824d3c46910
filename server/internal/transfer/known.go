package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
)

// known is a run that the server has under the name that an import wants.
type known struct{ id, name, job, source, key, digest string }

// imports are the runs of a project that came from a source: their references by their keys.
func imports(ctx context.Context, server *remote.Client, workspace, project, source string) (map[string]string, error) {
	path := "/api/v1/projects/" + url.PathEscape(workspace) + "/" + url.PathEscape(project) + "/runs"
	query := url.Values{"q": {attributeSource + `="` + source + `"`}, "column": {attributeKey}}
	list, err := server.List(ctx, path, "runs", query, 0)
	if model.CodeOf(err) == model.CodeNotFound {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, item := range list.Items {
		var run struct {
			ID     string            `json:"id"`
			Values map[string]string `json:"values"`
		}
		if err := json.Unmarshal(item, &run); err != nil {
			return nil, fmt.Errorf("read the runs of %s/%s: %w", workspace, project, err)
		}
		out[run.Values[attributeKey]] = run.ID
	}
	return out, nil
}

// existing looks a run up; nil when there is none.
func existing(ctx context.Context, server *remote.Client, ref string) (*known, error) {
	find := server.ExactRunID
	if !strings.Contains(ref, "/") {
		find = server.RunID // an id
	}
	id, err := find(ctx, ref)
	if model.CodeOf(err) == model.CodeNotFound {
		return nil, nil //nolint:nilnil // no run is no error
	}
	if err != nil {
		return nil, err
	}
	body, err := server.Document(ctx, http.MethodGet, remote.RunPath(id), nil)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Name            string `json:"name"`
		OrchestrationID string `json:"orchestration_id"`
		Attributes      []struct {
			Path  string          `json:"path"`
			Value json.RawMessage `json:"value"`
		} `json:"attributes"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("read the run %s: %w", ref, err)
	}
	out := &known{id: id, name: doc.Name, job: doc.OrchestrationID}
	for _, a := range doc.Attributes {
		switch a.Path {
		case attributeSource:
			out.source = table.Compact(a.Value)
		case attributeKey:
			out.key = table.Compact(a.Value)
		case attributeDigest:
			out.digest = table.Compact(a.Value)
		}
	}
	return out, nil
}
