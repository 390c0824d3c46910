package ingest

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// find looks a run up and checks the caller's right in its project.
func (s *Service) find(ctx context.Context, id model.RunID, scope catalog.Scope) (*catalog.Run, error) {
	run, err := s.deps.Catalog.Lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return run, s.deps.Auth.Allow(ctx, scope, run.Workspace, run.Project)
}

// Writable finds a run that the caller may write to.
func (s *Service) Writable(ctx context.Context, id model.RunID) (*catalog.Run, error) {
	run, err := s.find(ctx, id, catalog.ScopeIngest)
	if err == nil && run.DeletedNs > 0 {
		err = model.Errorf(model.CodeRunDeleted, "the run %q is in the trash", run.Name).WithHint("Restore it first.")
	}
	return run, err
}

// UpdateRun changes a run's attributes, names and tags for a person. What only
// writers say (close, gone, dropped, events) is refused.
func (s *Service) UpdateRun(ctx context.Context, id model.RunID, updates []model.Update) error {
	run, err := s.Writable(ctx, id)
	if err != nil {
		return err
	}
	for i := range updates {
		if err := checkEdit(&updates[i]); err != nil {
			return err
		}
	}
	return s.edit(ctx, run, updates)
}

// edit applies updates that came by themselves.
func (s *Service) edit(ctx context.Context, run *catalog.Run, updates []model.Update) error {
	state := s.runs.acquire(run.ID)
	defer s.runs.release(state)
	state.mu.Lock()
	defer state.mu.Unlock()
	if err := s.drainLocked(ctx, state); err != nil {
		return err
	}
	if err := s.catchUp(ctx, state, all); err != nil {
		return err
	}
	if err := s.deps.Catalog.Apply(ctx, run.ID, model.WriterID{}, 0, updates, s.deps.Now()); err != nil {
		return err
	}
	s.publish(run.ID, run.Workspace, run.Project)
	return nil
}

func checkEdit(u *model.Update) error {
	switch u.Op {
	case model.OpSetAttribute, model.OpSetTags, model.OpAddTags, model.OpRemoveTags, model.OpSetDescription, model.OpSetDisplayName, model.OpRendering,
		model.OpSetTree, model.OpSetFile:
		if f := checkUpdate(u); f != nil {
			return model.Errorf(model.CodeInvalid, "%s", f.Message)
		}
		return nil
	}
	return model.Errorf(model.CodeInvalid, "a run cannot be edited with %q", model.Clip(string(u.Op)))
}

// DeleteRun moves a run to the trash for [Config.Trash]; with now it is purged
// and its bytes are freed. Points that come later are refused for good.
func (s *Service) DeleteRun(ctx context.Context, id model.RunID, now bool) error {
	run, err := s.find(ctx, id, catalog.ScopeAdmin)
	if err != nil {
		return err
	}
	err = s.moveRun(run.ID, true, func() error { return s.deps.Catalog.Trash(ctx, run.ID, s.deps.Now()) })
	if err != nil {
		return err
	}
	if now {
		// Once begun it ends: half a purge is finished by the trash a week later.
		if err := s.purge(context.WithoutCancel(ctx), run.ID); err != nil {
			return err
		}
	}
	s.publish(run.ID, run.Workspace, run.Project)
	return nil
}

// moveRun moves a run into the trash or out of it and tells its sessions.
func (s *Service) moveRun(id model.RunID, deleted bool, move func() error) error {
	s.trash.Lock()
	defer s.trash.Unlock()
	defer s.moves.Add(1)
	if err := move(); err != nil {
		return err
	}
	s.runs.markDeleted(id, deleted)
	return nil
}

// Moved says that another server may have moved runs into the trash or out of it; nil: any of
// all runs. Those that are written to here are looked up.
func (s *Service) Moved(ctx context.Context, runs []model.RunID) error {
	s.trash.Lock()
	defer s.trash.Unlock()
	defer s.moves.Add(1)
	held := s.runs.inUse(runs)
	if len(held) == 0 {
		return nil
	}
	gone, err := s.deps.Catalog.Gone(ctx, held)
	if err != nil {
		return err
	}
	deleted := make(map[model.RunID]bool, len(gone))
	for _, id := range gone {
		deleted[id] = true
	}
	for _, id := range held {
		s.runs.markDeleted(id, deleted[id])
	}
	return nil
}

// purge frees a run: its bytes first, so that a crash in between leaves it in
// the trash.
func (s *Service) purge(ctx context.Context, id model.RunID) error {
	if err := s.deps.Points.DeleteRun(ctx, id); err != nil {
		return fmt.Errorf("free run %s: %w", id, err)
	}
	return s.deps.Catalog.Purge(ctx, id)
}

// RestoreRun takes a run out of the trash.
func (s *Service) RestoreRun(ctx context.Context, id model.RunID) error {
	run, err := s.find(ctx, id, catalog.ScopeAdmin)
	if err != nil {
		return err
	}
	err = s.moveRun(run.ID, false, func() error { return s.deps.Catalog.Restore(ctx, run.ID) })
	if err != nil {
		return err
	}
	s.publish(run.ID, run.Workspace, run.Project)
	return nil
}

// FindRun finds a run by its name for a caller that may write to its project: CodeNotFound
// for none, CodeRunDeleted for one in the trash.
func (s *Service) FindRun(ctx context.Context, workspace, project, name string) (model.RunID, error) {
	if err := model.CheckPlace(workspace, project); err != nil {
		return model.RunID{}, err
	}
	if err := s.deps.Auth.Allow(ctx, catalog.ScopeIngest, workspace, project); err != nil {
		return model.RunID{}, err
	}
	return s.deps.Names.FindRun(ctx, workspace, project, name)
}

// PutFile names a file of a run for a caller whose right a signed URL was: it was looked at
// when that was made.
func (s *Service) PutFile(ctx context.Context, id model.RunID, name string, f *model.RunFile) error {
	run, err := s.deps.Catalog.Lookup(ctx, id)
	if err != nil {
		return err
	}
	if run.DeletedNs > 0 {
		return errDeleted(run.Name)
	}
	update := model.Update{Op: model.OpSetFile, Path: name, File: f}
	if err := checkEdit(&update); err != nil {
		return err
	}
	return s.edit(ctx, run, []model.Update{update})
}
