package ingest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Artifacts is where artifacts are kept (a catalog).
type Artifacts interface {
	catalog.ArtifactKeeper
	Artifact(ctx context.Context, id int64) (*catalog.Artifact, error)
	Collection(ctx context.Context, id int64) (*catalog.Collection, error)
	Manifests(ctx context.Context, id int64) ([]catalog.ArtifactManifest, error)
	ArtifactFiles(ctx context.Context, id int64, f catalog.FileFilter) (page []catalog.File, next string, err error)
}

// Limits of artifacts' texts.
const (
	maxArtifactName   = 512 // 128 characters
	maxArtifactText   = 64 << 10
	maxMetadata       = 1 << 20
	maxDigest         = 128
	maxClientID       = 256
	maxFilesAtOnce    = 10_000
	pendingGrace      = 7 * 24 * time.Hour // how long an artifact may wait for its commit
	manifestFull      = "FULL"
	manifestIncrement = "INCREMENTAL"
	manifestPatch     = "PATCH"
)

// versionAlias is an alias that means a version.
var versionAlias = regexp.MustCompile(`^v[0-9]+$`)

// CreateArtifact finds or makes a pending artifact, see [catalog.ArtifactKeeper].
func (s *Service) CreateArtifact(ctx context.Context, workspace, project string, n catalog.NewArtifact) (*catalog.Artifact, error) {
	if err := s.allowArtifacts(ctx, catalog.ScopeIngest, workspace, project); err != nil {
		return nil, err
	}
	err := firstError(
		checkArtifactName("collection", n.Collection), checkArtifactName("type", n.Type),
		checkShort("digest", n.Digest, maxDigest), checkShort("client's id", n.ClientID, maxClientID), checkShort("distributed id", n.DistributedID, maxClientID),
		checkLong("description", &n.Description, maxArtifactText), checkLong("metadata", &n.Metadata, maxMetadata),
		checkAliases(n.Aliases), checkArtifactTags(n.Tags),
	)
	if err == nil && !n.Run.IsZero() {
		err = s.sameProject(ctx, n.Run, workspace, project)
	}
	if err != nil {
		return nil, err
	}
	return s.deps.Artifacts.CreateArtifact(ctx, workspace, project, n, s.deps.Now())
}

// sameProject checks that a run is of a project.
func (s *Service) sameProject(ctx context.Context, id model.RunID, workspace, project string) error {
	run, err := s.deps.Catalog.Lookup(ctx, id)
	if err == nil && (run.Workspace != workspace || run.Project != project) {
		err = model.Errorf(model.CodeNotFound, "%s/%s has no run %s", workspace, project, id)
	}
	return err
}

func (s *Service) allowArtifacts(ctx context.Context, scope catalog.Scope, workspace, project string) error {
	if err := model.CheckPlace(workspace, project); err != nil {
		return err
	}
	return s.deps.Auth.Allow(ctx, scope, workspace, project)
}

// Artifact finds an artifact for a caller that may write to its project.
func (s *Service) Artifact(ctx context.Context, id int64) (*catalog.Artifact, error) {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return nil, err
	}
	return s.deps.Artifacts.Artifact(ctx, id)
}

// Manifests lists the parts of an artifact's manifest for a caller that may write to its project.
func (s *Service) Manifests(ctx context.Context, id int64) ([]catalog.ArtifactManifest, error) {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return nil, err
	}
	return s.deps.Artifacts.Manifests(ctx, id)
}

// ArtifactFiles lists files of an artifact for a caller that may write to its project.
func (s *Service) ArtifactFiles(ctx context.Context, id int64, f catalog.FileFilter) (page []catalog.File, next string, err error) {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return nil, "", err
	}
	return s.deps.Artifacts.ArtifactFiles(ctx, id, f)
}

// ownArtifact finds one in whose project the caller has a right.
func (s *Service) ownArtifact(ctx context.Context, scope catalog.Scope, id int64) error {
	a, err := s.deps.Artifacts.Artifact(ctx, id)
	if err != nil {
		return err
	}
	return s.deps.Auth.Allow(ctx, scope, a.Workspace, a.Project)
}

func (s *Service) ownCollection(ctx context.Context, scope catalog.Scope, id int64) error {
	c, err := s.deps.Artifacts.Collection(ctx, id)
	if err != nil {
		return err
	}
	return s.deps.Auth.Allow(ctx, scope, c.Workspace, c.Project)
}

// AddArtifactFiles adds files to a pending artifact; their blobs are there.
func (s *Service) AddArtifactFiles(ctx context.Context, id int64, files []catalog.File) error {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return err
	}
	return s.addArtifactFiles(ctx, id, files)
}

// PutArtifactFile adds a file for a caller whose right a signed URL was: it was looked at
// when that was made.
func (s *Service) PutArtifactFile(ctx context.Context, id int64, f catalog.File) error {
	return s.addArtifactFiles(ctx, id, []catalog.File{f})
}

func (s *Service) addArtifactFiles(ctx context.Context, id int64, files []catalog.File) error {
	if len(files) > maxFilesAtOnce {
		return model.Errorf(model.CodeTooLarge, "%d files at once, at most %d", len(files), maxFilesAtOnce).WithHint("Send fewer at once.")
	}
	files = slices.Clone(files)
	for i := range files {
		if err := model.CheckFileName(files[i].Name); err != nil {
			return err
		}
		if f := checkFile(files[i].Name, &files[i].RunFile); f != nil {
			return model.Errorf(f.Code, "%s", f.Message)
		}
		if files[i].TimeNs == 0 {
			files[i].TimeNs = s.deps.Now().UnixNano()
		}
	}
	return s.deps.Artifacts.AddArtifactFiles(ctx, id, files)
}

// PutManifest stores a part of a pending artifact's manifest, and gives its number.
func (s *Service) PutManifest(ctx context.Context, id int64, m catalog.ArtifactManifest) (int64, error) {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return 0, err
	}
	if m.Kind != manifestFull && m.Kind != manifestIncrement && m.Kind != manifestPatch {
		return 0, model.Errorf(model.CodeInvalid, "a manifest is FULL, INCREMENTAL or PATCH, not %q", model.Clip(m.Kind))
	}
	if err := firstError(checkShort("name of the manifest", m.Name, maxArtifactName), checkShort("digest", m.Digest, maxDigest), checkBlobRef(m.Blob)); err != nil {
		return 0, err
	}
	return s.deps.Artifacts.PutManifest(ctx, id, m)
}

// FillManifest gives a part of a manifest its bytes, for a caller whose right a signed URL was.
func (s *Service) FillManifest(ctx context.Context, id, number int64, b catalog.BlobRef) error {
	parts, err := s.deps.Artifacts.Manifests(ctx, id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(parts, func(m catalog.ArtifactManifest) bool { return m.Number == number })
	if i < 0 {
		return model.Errorf(model.CodeNotFound, "the manifest has no part %d", number)
	}
	if err := checkBlobRef(b); err != nil {
		return err
	}
	parts[i].Blob = b
	_, err = s.deps.Artifacts.PutManifest(ctx, id, parts[i])
	return err
}

// CommitArtifact makes a pending artifact a version of its collection.
func (s *Service) CommitArtifact(ctx context.Context, id int64, c catalog.ArtifactContent) (*catalog.Artifact, error) {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return nil, err
	}
	if c.Files < 0 || c.Bytes < 0 || c.Files > maxStep || c.Bytes > maxStep {
		return nil, model.Errorf(model.CodeInvalid, "an artifact cannot have %d files of %d bytes", c.Files, c.Bytes)
	}
	if err := firstError(checkBlobRef(c.Manifest), checkShort("digest", c.Digest, maxDigest)); err != nil {
		return nil, err
	}
	return s.deps.Artifacts.CommitArtifact(ctx, id, c, s.deps.Now())
}

// EditArtifact changes texts, tags and aliases of an artifact.
func (s *Service) EditArtifact(ctx context.Context, id int64, e catalog.ArtifactEdit) (*catalog.Artifact, error) {
	if err := s.ownArtifact(ctx, catalog.ScopeIngest, id); err != nil {
		return nil, err
	}
	if e.Collection != 0 {
		if err := s.ownCollection(ctx, catalog.ScopeIngest, e.Collection); err != nil {
			return nil, err
		}
	}
	err := firstError(checkLong("description", e.Description, maxArtifactText), checkLong("metadata", e.Metadata, maxMetadata), checkArtifactTags(e.AddTags), checkAliases(e.AddAliases))
	if err == nil && e.Aliases != nil {
		err = checkAliases(*e.Aliases)
	}
	if err != nil {
		return nil, err
	}
	return s.deps.Artifacts.EditArtifact(ctx, id, e, s.deps.Now())
}

// LinkArtifact makes an artifact that the caller may read a version of a portfolio.
func (s *Service) LinkArtifact(ctx context.Context, id int64, to catalog.VersionName, aliases []string) (*catalog.ArtifactVersion, error) {
	if err := s.allowArtifacts(ctx, catalog.ScopeIngest, to.Workspace, to.Project); err != nil {
		return nil, err
	}
	if err := s.ownArtifact(ctx, catalog.ScopeRead, id); err != nil {
		return nil, err
	}
	if err := firstError(checkArtifactName("portfolio", to.Collection), checkAliases(aliases)); err != nil {
		return nil, err
	}
	return s.deps.Artifacts.LinkArtifact(ctx, id, to, aliases, s.deps.Now())
}

// UnlinkArtifact takes an artifact out of a portfolio.
func (s *Service) UnlinkArtifact(ctx context.Context, id, portfolio int64) error {
	if err := s.ownCollection(ctx, catalog.ScopeIngest, portfolio); err != nil {
		return err
	}
	return s.deps.Artifacts.UnlinkArtifact(ctx, id, portfolio)
}

// UseArtifact says that a run of the caller's uses an artifact that the caller may read, or logs it.
func (s *Service) UseArtifact(ctx context.Context, id int64, run model.RunID, role catalog.ArtifactRole) error {
	if role != catalog.RoleUsed && role != catalog.RoleLogged {
		return model.Errorf(model.CodeInvalid, "a run uses or logs an artifact, it does not %q it", model.Clip(string(role)))
	}
	if _, err := s.Writable(ctx, run); err != nil {
		return err
	}
	if err := s.ownArtifact(ctx, catalog.ScopeRead, id); err != nil {
		return err
	}
	return s.deps.Artifacts.UseArtifact(ctx, id, run, role, s.deps.Now())
}

// EditCollection changes a collection.
func (s *Service) EditCollection(ctx context.Context, id int64, e catalog.CollectionEdit) (*catalog.Collection, error) {
	if err := s.ownCollection(ctx, catalog.ScopeIngest, id); err != nil {
		return nil, err
	}
	err := firstError(checkLong("description", e.Description, maxArtifactText), checkArtifactTags(e.AddTags))
	if err == nil && e.Name != nil {
		err = checkArtifactName("collection", *e.Name)
	}
	if err == nil && e.Type != nil {
		err = checkArtifactName("type", *e.Type)
	}
	if err != nil {
		return nil, err
	}
	return s.deps.Artifacts.EditCollection(ctx, id, e, s.deps.Now())
}

// DeleteArtifact deletes an artifact for good, with its aliases or only where it has none.
func (s *Service) DeleteArtifact(ctx context.Context, id int64, aliases bool) error {
	if err := s.ownArtifact(ctx, catalog.ScopeAdmin, id); err != nil {
		return err
	}
	return s.deps.Artifacts.DeleteArtifact(ctx, id, aliases, s.deps.Now())
}

// DeleteCollection deletes a collection with all its artifacts, or a portfolio with its links.
func (s *Service) DeleteCollection(ctx context.Context, id int64) error {
	if err := s.ownCollection(ctx, catalog.ScopeAdmin, id); err != nil {
		return err
	}
	return s.deps.Artifacts.DeleteCollection(ctx, id)
}

// expireArtifacts deletes what was never committed.
func (s *Service) expireArtifacts(ctx context.Context, now time.Time) error {
	if s.deps.Artifacts == nil {
		return nil
	}
	for {
		n, err := s.deps.Artifacts.ExpireArtifacts(ctx, now.Add(-pendingGrace))
		if err != nil || n == 0 || ctx.Err() != nil {
			return err
		}
		s.deps.Log.Info("artifacts that were never committed are deleted", "artifacts", n)
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkArtifactName(what, name string) error {
	if name == "" || len(name) > maxArtifactName || !model.IsClean(name) || strings.ContainsAny(name, "/:") {
		return model.Errorf(model.CodeInvalid, "the %s %q of an artifact is not valid", what, model.Clip(name)).
			WithHint("It has 1 to %d bytes of UTF-8 without control characters, slashes and colons.", maxArtifactName)
	}
	return nil
}

func checkAliases(aliases []string) error {
	if len(aliases) > catalog.MaxArtifactAliases {
		return model.Errorf(model.CodeLimit, "%d aliases at once, at most %d", len(aliases), catalog.MaxArtifactAliases)
	}
	for _, alias := range aliases {
		if err := checkArtifactName("alias", alias); err != nil {
			return err
		}
		if versionAlias.MatchString(alias) {
			return model.Errorf(model.CodeInvalid, "%q cannot be an alias: it names a version", alias).WithHint("Versions number themselves.")
		}
	}
	return nil
}

func checkArtifactTags(tags []string) error {
	if f := checkTags(tags); f != nil {
		return model.Errorf(model.CodeInvalid, "%s", f.Message)
	}
	if len(tags) > catalog.MaxArtifactTags {
		return model.Errorf(model.CodeLimit, "%d tags at once, at most %d", len(tags), catalog.MaxArtifactTags)
	}
	return nil
}

func checkShort(what, text string, most int) error {
	if len(text) > most || !model.IsClean(text) {
		return model.Errorf(model.CodeInvalid, "the %s %q is not valid", what, model.Clip(text)).WithHint("It has at most %d bytes of UTF-8 without control characters.", most)
	}
	return nil
}

func checkLong(what string, text *string, most int) error {
	switch {
	case text == nil:
		return nil
	case len(*text) > most:
		return model.Errorf(model.CodeLimit, "the %s has %d bytes, at most %d", what, len(*text), most)
	case !utf8.ValidString(*text):
		return model.Errorf(model.CodeInvalid, "the %s is not UTF-8", what)
	}
	return nil
}

// checkBlobRef takes a reference to no blob, too.
func checkBlobRef(b catalog.BlobRef) error {
	if b == (catalog.BlobRef{}) {
		return nil
	}
	if f := checkFile("manifest", &model.RunFile{SHA256: b.SHA256, Size: b.Size, MD5: b.MD5}); f != nil {
		return model.Errorf(f.Code, "%s", f.Message)
	}
	return nil
}
