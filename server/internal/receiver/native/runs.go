package native

import (
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

// ListRuns lists the runs of a project.
func (s *runService) ListRuns(ctx context.Context, m *kymogramv1.ListRunsRequest) (*kymogramv1.ListRunsResponse, error) {
	request := query.RunsRequest{
		Page:      query.Page{Limit: int(m.Limit), Cursor: m.Cursor},
		Workspace: m.Workspace, Project: m.Project, Name: m.Name, Tag: m.Tag, Status: model.RunStatus(m.Status),
	}
	release, texts, err := s.options.Reserve(ctx, request.Bytes())
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	request.Texts = texts
	page, err := s.query.Runs(ctx, request)
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

// The bytes of a run's document: what the share of every caller covers, and what
// gRPC's clients take unless they are told otherwise, less the rest of the message.
const (
	shortDocument = 128 << 10
	longDocument  = 4<<20 - 256<<10
)

// GetRun reads one run with the JSON document of the HTTP API. A long document is
// made anew after the wait for its memory: who waits holds nothing.
func (s *runService) GetRun(ctx context.Context, m *kymogramv1.GetRunRequest) (*kymogramv1.GetRunResponse, error) {
	id, err := parseRun(m.Id)
	if err != nil {
		return nil, err
	}
	release, texts, err := s.options.Reserve(ctx, query.RunBytes)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	out, err := s.document(ctx, id, texts, shortDocument)
	if model.CodeOf(err) != model.CodeTooLarge {
		return out, err
	}
	if texts != nil {
		if err := texts(ctx); err != nil {
			return nil, err
		}
	}
	return s.document(ctx, id, nil, longDocument)
}

func (s *runService) document(ctx context.Context, id model.RunID, texts query.Admit, most int) (*kymogramv1.GetRunResponse, error) {
	detail, err := s.query.Run(ctx, id, texts)
	if err != nil {
		return nil, err
	}
	document, err := s.options.RunDocument(detail, most)
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
