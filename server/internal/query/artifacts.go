package query

import (
	"context"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Artifact finds an artifact, also one that is pending or deleted: CodeNotFound, too where
// the caller may not read its project.
func (s *Service) Artifact(ctx context.Context, id int64) (*catalog.Artifact, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	a, err := s.artifact(ctx, id)
	return a, s.finish(ctx, err)
}

func (s *Service) artifact(ctx context.Context, id int64) (*catalog.Artifact, error) {
	a, err := s.runs.Artifact(ctx, id)
	if err != nil {
		return nil, err
	}
	return a, s.hidden(ctx, a.Workspace, a.Project, "there is no artifact %d", id)
}

// hidden is Allow for what another project has: as if it were not there.
func (s *Service) hidden(ctx context.Context, workspace, project, format string, args ...any) error {
	err := s.Allow(ctx, workspace, project)
	if model.CodeOf(err) == model.CodePermission {
		return model.Errorf(model.CodeNotFound, format, args...)
	}
	return err
}

// ArtifactVersion finds a committed artifact in a collection: CodeNotFound.
func (s *Service) ArtifactVersion(ctx context.Context, name catalog.VersionName) (*catalog.ArtifactVersion, error) {
	if err := s.Allow(ctx, name.Workspace, name.Project); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	a, err := s.runs.ArtifactVersion(ctx, name)
	return a, s.finish(ctx, err)
}

// Artifacts is a page of the committed artifacts of a collection or a run.
func (s *Service) Artifacts(ctx context.Context, f catalog.ArtifactFilter) (page []catalog.ArtifactVersion, next string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.mayList(ctx, &f); err != nil {
		return nil, "", s.finish(ctx, err)
	}
	page, next, err = s.runs.Artifacts(ctx, f)
	return page, next, s.finish(ctx, err)
}

// CountArtifacts counts those of a filter.
func (s *Service) CountArtifacts(ctx context.Context, f catalog.ArtifactFilter) (int, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.mayList(ctx, &f); err != nil {
		return 0, s.finish(ctx, err)
	}
	n, err := s.runs.CountArtifacts(ctx, f)
	return n, s.finish(ctx, err)
}

func (s *Service) mayList(ctx context.Context, f *catalog.ArtifactFilter) error {
	if f.Collection != 0 {
		_, err := s.collection(ctx, f.Collection)
		return err
	}
	_, err := s.open(ctx, f.Run)
	return err
}

// ArtifactByClient finds the newest artifact of a client's id: CodeNotFound.
func (s *Service) ArtifactByClient(ctx context.Context, clientID string) (*catalog.Artifact, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	a, err := s.runs.ArtifactByClient(ctx, clientID)
	if err == nil {
		err = s.hidden(ctx, a.Workspace, a.Project, "there is no artifact of the client's id %q", model.Clip(clientID))
	}
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	return a, nil
}

// ArtifactTypes lists the types that a project has collections of.
func (s *Service) ArtifactTypes(ctx context.Context, workspace, project string) ([]catalog.ArtifactType, error) {
	if err := s.Allow(ctx, workspace, project); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	types, err := s.runs.ArtifactTypes(ctx, workspace, project)
	return types, s.finish(ctx, err)
}

// Collections is a page of the collections of a project.
func (s *Service) Collections(ctx context.Context, f catalog.CollectionFilter) (page []catalog.Collection, next string, err error) {
	if err := s.Allow(ctx, f.Workspace, f.Project); err != nil {
		return nil, "", err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	page, next, err = s.runs.Collections(ctx, f)
	return page, next, s.finish(ctx, err)
}

// Collection finds a collection: CodeNotFound, too where the caller may not read its project.
func (s *Service) Collection(ctx context.Context, id int64) (*catalog.Collection, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c, err := s.collection(ctx, id)
	return c, s.finish(ctx, err)
}

func (s *Service) collection(ctx context.Context, id int64) (*catalog.Collection, error) {
	c, err := s.runs.Collection(ctx, id)
	if err != nil {
		return nil, err
	}
	return c, s.hidden(ctx, c.Workspace, c.Project, "there is no collection of artifacts %d", id)
}

// FindCollection finds a collection by its name: CodeNotFound.
func (s *Service) FindCollection(ctx context.Context, workspace, project, name string) (*catalog.Collection, error) {
	if err := s.Allow(ctx, workspace, project); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c, err := s.runs.FindCollection(ctx, workspace, project, name)
	return c, s.finish(ctx, err)
}

// CollectionAliases is a page of the aliases of a collection.
func (s *Service) CollectionAliases(ctx context.Context, collection int64, limit int, cursor string) (page []string, next string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.collection(ctx, collection); err != nil {
		return nil, "", s.finish(ctx, err)
	}
	page, next, err = s.runs.CollectionAliases(ctx, collection, limit, cursor)
	return page, next, s.finish(ctx, err)
}

// ArtifactFiles is a page of the files of an artifact.
func (s *Service) ArtifactFiles(ctx context.Context, id int64, f catalog.FileFilter) (page []catalog.File, next string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.artifact(ctx, id); err != nil {
		return nil, "", s.finish(ctx, err)
	}
	page, next, err = s.runs.ArtifactFiles(ctx, id, f)
	return page, next, s.finish(ctx, err)
}

// ArtifactFilesByMD5 finds files of a project's artifacts by the MD5s of their bytes.
func (s *Service) ArtifactFilesByMD5(ctx context.Context, workspace, project string, md5s []string) (map[string]catalog.File, error) {
	if err := s.Allow(ctx, workspace, project); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	files, err := s.runs.FilesByMD5(ctx, workspace, project, md5s)
	return files, s.finish(ctx, err)
}

// ArtifactManifests lists the parts of an artifact's manifest.
func (s *Service) ArtifactManifests(ctx context.Context, id int64) ([]catalog.ArtifactManifest, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.artifact(ctx, id); err != nil {
		return nil, s.finish(ctx, err)
	}
	parts, err := s.runs.Manifests(ctx, id)
	return parts, s.finish(ctx, err)
}

// Memberships lists the collections that an artifact is a version of, as far as the caller
// may read their projects.
func (s *Service) Memberships(ctx context.Context, id int64) ([]catalog.Membership, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.artifact(ctx, id); err != nil {
		return nil, s.finish(ctx, err)
	}
	list, err := s.runs.Memberships(ctx, id)
	list = slices.DeleteFunc(list, func(m catalog.Membership) bool { return s.Allow(ctx, m.Workspace, m.Project) != nil })
	return list, s.finish(ctx, err)
}

// ArtifactRuns lists the runs that logged or used an artifact and that the caller may read.
func (s *Service) ArtifactRuns(ctx context.Context, id int64, role catalog.ArtifactRole) ([]*catalog.Run, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.artifact(ctx, id); err != nil {
		return nil, s.finish(ctx, err)
	}
	ids, err := s.runs.ArtifactRuns(ctx, id, role)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	var runs []*catalog.Run
	for _, id := range ids {
		run, err := s.open(ctx, id)
		switch model.CodeOf(err) {
		case "":
			runs = append(runs, run)
		case model.CodePermission, model.CodeNotFound, model.CodeRunDeleted: // of another project, or gone since
		default:
			return nil, s.finish(ctx, err)
		}
	}
	return runs, nil
}
