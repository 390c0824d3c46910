package ingest

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/view"
)

// PutView checks a view document and stores it under a name of the project.
func (s *Service) PutView(ctx context.Context, workspace, project, name string, text []byte, c catalog.Condition) (*catalog.View, error) {
	if err := s.allowViews(ctx, workspace, project, name); err != nil {
		return nil, err
	}
	doc, err := view.Parse(text)
	if err != nil {
		return nil, err
	}
	text = doc.Text()
	if len(text) > view.MaxBytes { // JSON writes some characters longer than they came
		return nil, model.Errorf(model.CodeTooLarge, "the view has %d bytes, the most is %d", len(text), view.MaxBytes).
			WithHint("split it into several views")
	}
	v := catalog.View{
		Name: name, Title: doc.Title, Panels: len(doc.Panels), Tag: view.Tag(text), ChangedNs: s.deps.Now().UnixNano(), Document: string(text),
	}
	return &v, s.deps.Views.PutView(ctx, workspace, project, v, c)
}

// DeleteView deletes a view for good.
func (s *Service) DeleteView(ctx context.Context, workspace, project, name string, c catalog.Condition) error {
	if err := s.allowViews(ctx, workspace, project, name); err != nil {
		return err
	}
	return s.deps.Views.DeleteView(ctx, workspace, project, name, c)
}

func (s *Service) allowViews(ctx context.Context, workspace, project, name string) error {
	if err := model.CheckPlace(workspace, project); err != nil {
		return err
	}
	if err := s.deps.Auth.Allow(ctx, catalog.ScopeIngest, workspace, project); err != nil {
		return err
	}
	return view.CheckName(name)
}
