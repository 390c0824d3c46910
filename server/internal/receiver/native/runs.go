package native

import (
	"cmp"
	"context"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

type runService struct {
	kymogramv1.UnimplementedRunServiceServer
	*Receiver
}

func parseRun(id string) (model.RunID, error) {
	run, err := model.ParseRunID(id)
	if err != nil {
		return run, model.Errorf(model.CodeInvalid, "%q is not the id of a run: %v", model.Clip(id), err)
	}
	return run, nil
}

// What a series or run of a list and the document of a run are counted as, in rows.
const (
	seriesRows = 5
	runRows    = 20
	detailRows = 5_000
)

// ListRuns lists the runs of a project.
func (s *runService) ListRuns(ctx context.Context, m *kymogramv1.ListRunsRequest) (*kymogramv1.ListRunsResponse, error) {
	release, texts, err := s.options.Reserve(ctx, cmp.Or(int(m.Limit), query.DefaultRuns)*runRows)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	page, err := s.query.Runs(ctx, query.RunsRequest{
		Page:      query.Page{Limit: int(m.Limit), Cursor: m.Cursor},
		Workspace: m.Workspace, Project: m.Project, Name: m.Name, Tag: m.Tag, Status: model.RunStatus(m.Status),
		Texts: texts,
	})
	if err != nil {
		return nil, err
	}
	out := &kymogramv1.ListRunsResponse{Next: page.Next}
	for i := range page.Runs {
		out.Runs = append(out.Runs, encodeRun(&page.Runs[i]))
	}
	return out, nil
}

func encodeRun(r *query.RunLine) *kymogramv1.Run {
	return &kymogramv1.Run{
		Id: r.ID.String(), Workspace: r.Workspace, Project: r.Project, Name: r.Name, DisplayName: r.DisplayName,
		Status: string(r.Status), Tags: r.Tags, Description: r.Description, CreatedNs: r.CreatedNs, LastNs: r.LastNs,
	}
}

// GetRun reads one run with the JSON document of the HTTP API.
func (s *runService) GetRun(ctx context.Context, m *kymogramv1.GetRunRequest) (*kymogramv1.GetRunResponse, error) {
	id, err := parseRun(m.Id)
	if err != nil {
		return nil, err
	}
	release, texts, err := s.options.Reserve(ctx, detailRows)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	detail, err := s.query.Run(ctx, id, texts)
	if err != nil {
		return nil, err
	}
	document, err := s.options.RunDocument(detail)
	if err != nil {
		return nil, err
	}
	return &kymogramv1.GetRunResponse{Run: encodeRun(&detail.RunLine), Detail: document}, nil
}

// DeleteRun moves a run to the trash, or frees it now.
func (s *runService) DeleteRun(ctx context.Context, m *kymogramv1.DeleteRunRequest) (*kymogramv1.DeleteRunResponse, error) {
	id, err := parseRun(m.Id)
	if err != nil {
		return nil, err
	}
	return &kymogramv1.DeleteRunResponse{}, s.ingest.DeleteRun(ctx, id, m.Now)
}
