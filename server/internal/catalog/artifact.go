package catalog

import (
	"context"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Bounds of artifacts. Past them a change is refused with CodeLimit.
const (
	MaxCollections     = 10_000    // of a project
	MaxVersions        = 100_000   // of a collection, deleted ones included
	MaxArtifactFiles   = 1_000_000 // of an artifact
	MaxArtifactAliases = 1_000     // of an artifact, in all collections
	MaxArtifactTags    = 100       // of an artifact or a collection
	MaxManifests       = 10_000    // parts of an artifact's manifest
	MaxRunArtifacts    = 10_000    // that a run logs, and that it uses
	MaxMD5s            = 10_000    // in one [ArtifactContents.FilesByMD5]
)

// AliasLatest is the alias of the version that a collection got last.
const AliasLatest = "latest"

// ArtifactState is where an artifact stands.
type ArtifactState string

// The states of an artifact.
const (
	ArtifactPending   ArtifactState = "PENDING" // it may still get files
	ArtifactCommitted ArtifactState = "COMMITTED"
	// ArtifactDeleted has no files, texts, aliases and versions any more; the number stays.
	ArtifactDeleted ArtifactState = "DELETED"
)

// Collection is a list of versions under a name of a project.
type Collection struct {
	ID                 int64
	Workspace, Project string
	Name               string
	Type               string
	// Portfolio: its versions are links to artifacts of other collections. Else it is a
	// sequence, and each artifact is of one.
	Portfolio   bool
	Description string
	Tags        []string // sorted
	CreatedNs   int64
	ChangedNs   int64
	Versions    int64 // that it has
	Latest      int64 // the artifact with AliasLatest, 0: none
}

// Artifact is one, as far as it is no file.
type Artifact struct {
	ID                 int64 // not given again, but where the catalog was made anew after its collection was deleted
	Sequence           int64 // the collection that it is of
	Workspace, Project string
	Name, Type         string // of the sequence
	Version            int64  // in the sequence, from 0; -1 where it has none
	State              ArtifactState
	Digest             string
	ClientID           string // that its creator chose
	DistributedID      string // by which several writers make one
	Description        string
	Metadata           string          // JSON text, "" for none
	Tags               []string        // sorted
	Aliases            []ArtifactAlias // of every collection, by collection and alias
	CreatedNs          int64
	ChangedNs          int64
	CommittedNs        int64       // 0: not yet
	Run                model.RunID // that created it; zero: none, or purged
	HistoryStep        *int64
	Files, Bytes       int64 // as its commit said
	Manifest           BlobRef
}

// BlobRef names a blob; the zero BlobRef names none.
type BlobRef struct {
	SHA256 string // 64 lower-case hexadecimal characters
	Size   int64
	MD5    string // base64
}

// ArtifactAlias is an alias in a collection.
type ArtifactAlias struct {
	Collection         int64
	Workspace, Project string
	Name               string // of the collection
	Alias              string
}

// ArtifactVersion is an artifact as a version of a collection.
type ArtifactVersion struct {
	Artifact
	Collection int64
	Index      int64 // its version there
	AddedNs    int64
}

// Membership is where an artifact is a version.
type Membership struct {
	Collection         int64
	Workspace, Project string
	Name               string // of the collection
	Index, AddedNs     int64
}

// VersionName names one: Alias is an alias, "v" with the number of a version, a digest, or "" for AliasLatest.
type VersionName struct{ Workspace, Project, Collection, Alias string }

// ArtifactRole is what a run did with an artifact.
type ArtifactRole string

// The roles.
const (
	RoleLogged ArtifactRole = "logged"
	RoleUsed   ArtifactRole = "used"
)

// ArtifactFilter selects committed artifacts: those of a collection by version, or those of a
// run by number. Collection or Run is given.
type ArtifactFilter struct {
	Collection int64
	Run        model.RunID
	Role       ArtifactRole // of Run
	Newest     bool         // first; else the oldest
	Limit      int          // 0: as many as a page may have
	Cursor     string
}

// CollectionFilter selects collections of a project, by name.
type CollectionFilter struct {
	Workspace, Project string
	Type               string // "": any
	Sequences          bool   // no portfolios
	Limit              int
	Cursor             string
}

// ArtifactType is a type that a project has collections of.
type ArtifactType struct {
	Name        string
	CreatedNs   int64 // of its first collection
	Collections int64
}

// ArtifactManifest is a part of an artifact's manifest, as a client makes it.
type ArtifactManifest struct {
	Number int64  // in its artifact, from 1
	Kind   string // FULL, INCREMENTAL or PATCH
	Name   string
	Digest string
	Base   int64 // the artifact that it adds to, 0: none
	Blob   BlobRef
}

// ArtifactReader is what query reads of artifacts.
type ArtifactReader interface { //nolint:interfacebloat // the sum of what its one user reads
	// Artifact finds one by number, also one that is pending or deleted: CodeNotFound.
	Artifact(ctx context.Context, id int64) (*Artifact, error)
	// ArtifactVersion finds a committed one in a collection: CodeNotFound.
	ArtifactVersion(ctx context.Context, name VersionName) (*ArtifactVersion, error)
	Artifacts(ctx context.Context, f ArtifactFilter) (page []ArtifactVersion, next string, err error)
	// CountArtifacts counts those of a filter, whatever its Limit and Cursor say.
	CountArtifacts(ctx context.Context, f ArtifactFilter) (int, error)
	// ArtifactByClient finds the newest of a client's id that is not deleted: CodeNotFound.
	ArtifactByClient(ctx context.Context, clientID string) (*Artifact, error)
	ArtifactCollections
	ArtifactContents
}

// ArtifactCollections is what there is to read of collections.
type ArtifactCollections interface {
	// ArtifactTypes lists them by name; there are at most [MaxCollections].
	ArtifactTypes(ctx context.Context, workspace, project string) ([]ArtifactType, error)
	Collections(ctx context.Context, f CollectionFilter) (page []Collection, next string, err error)
	// Collection finds one by number: CodeNotFound.
	Collection(ctx context.Context, id int64) (*Collection, error)
	// FindCollection finds one by name: CodeNotFound.
	FindCollection(ctx context.Context, workspace, project, name string) (*Collection, error)
	// CollectionAliases lists the aliases of a collection in order.
	CollectionAliases(ctx context.Context, collection int64, limit int, cursor string) (page []string, next string, err error)
}

// ArtifactContents is what there is to read of one artifact.
type ArtifactContents interface {
	// ArtifactFiles lists files by name, as [Files.Files] does.
	ArtifactFiles(ctx context.Context, id int64, f FileFilter) (page []File, next string, err error)
	// ArtifactFile finds one: CodeNotFound.
	ArtifactFile(ctx context.Context, id int64, name string) (*File, error)
	// FilesByMD5 finds a file of an artifact of the project for each MD5 (base64) that one
	// has, at most [MaxMD5s]. Who names such a blob anew puts it first, without bytes: a blob
	// that is there is young again then, so that no sweep takes it meanwhile.
	FilesByMD5(ctx context.Context, workspace, project string, md5s []string) (map[string]File, error)
	// Manifests lists the parts of an artifact's manifest by number.
	Manifests(ctx context.Context, id int64) ([]ArtifactManifest, error)
	ArtifactTies
}

// ArtifactTies is what an artifact is tied to.
type ArtifactTies interface {
	// Memberships lists the collections that an artifact is a version of, its own first.
	Memberships(ctx context.Context, id int64) ([]Membership, error)
	// ArtifactRuns lists the runs, not in the trash, that logged or used an artifact, by age.
	ArtifactRuns(ctx context.Context, id int64, role ArtifactRole) ([]model.RunID, error)
}

// NewArtifact is what a creation says.
type NewArtifact struct {
	Collection, Type      string
	Digest                string
	ClientID              string // "": none; a creation that is sent again finds its artifact by it
	DistributedID         string // "": none; creations of one id make one artifact
	Description, Metadata string
	Aliases, Tags         []string
	Run                   model.RunID // zero: a person's
	HistoryStep           *int64
	Anew                  bool // also where the collection has a committed one of this digest
}

// ArtifactContent is what a commit says.
type ArtifactContent struct {
	Manifest     BlobRef
	Files, Bytes int64  // references included; both 0: what its files are together
	Digest       string // of the whole, where that is not what the creation said; else ""
}

// ArtifactEdit changes what is not nil. Aliases are those of Collection, 0 for the sequence.
type ArtifactEdit struct {
	Description, Metadata     *string
	AddTags, RemoveTags       []string
	Collection                int64
	AddAliases, RemoveAliases []string
	Aliases                   *[]string // instead of all that it has there, AliasLatest aside
}

// CollectionEdit changes what is not nil.
type CollectionEdit struct {
	Name, Type, Description *string
	AddTags, RemoveTags     []string
}

// ArtifactKeeper is what ingest changes of artifacts. Names and texts are checked before.
type ArtifactKeeper interface { //nolint:interfacebloat // the sum of what its one user changes
	// CreateArtifact makes a pending artifact, and its project and collection where there are none. It
	// gives the one that is there instead: of the same client's or distributed id, or the
	// committed one of the same digest, which then gets the aliases. CodeConflict where the
	// collection has another type or is a portfolio.
	CreateArtifact(ctx context.Context, workspace, project string, a NewArtifact, now time.Time) (*Artifact, error)
	// AddArtifactFiles adds or replaces files of a pending artifact: CodeConflict for another,
	// unless it has them.
	AddArtifactFiles(ctx context.Context, id int64, files []File) error
	// PutManifest stores a part of the manifest of a pending artifact: a new one where its Number
	// is 0. It gives the number.
	PutManifest(ctx context.Context, id int64, m ArtifactManifest) (number int64, err error)
	// CommitArtifact gives a pending artifact its version and its aliases. A committed one
	// stays as it is.
	CommitArtifact(ctx context.Context, id int64, c ArtifactContent, now time.Time) (*Artifact, error)
	EditArtifact(ctx context.Context, id int64, e ArtifactEdit, now time.Time) (*Artifact, error)
	ArtifactLinker
	ArtifactRemover
}

// ArtifactLinker ties artifacts to collections and runs.
type ArtifactLinker interface {
	// LinkArtifact makes a committed artifact a version of a portfolio, and the portfolio where there is
	// none. One that is there keeps its version and gets the aliases.
	LinkArtifact(ctx context.Context, id int64, to VersionName, aliases []string, now time.Time) (*ArtifactVersion, error)
	UnlinkArtifact(ctx context.Context, id, portfolio int64) error
	// UseArtifact says that a run logs or uses an artifact.
	UseArtifact(ctx context.Context, id int64, run model.RunID, role ArtifactRole, now time.Time) error
	EditCollection(ctx context.Context, id int64, e CollectionEdit, now time.Time) (*Collection, error)
}

// ArtifactRemover deletes artifacts.
type ArtifactRemover interface {
	// DeleteArtifact deletes one for good: CodeConflict where it has aliases, [AliasLatest]
	// aside, unless those go with it. AliasLatest moves to the version before.
	DeleteArtifact(ctx context.Context, id int64, aliases bool, now time.Time) error
	// DeleteCollection deletes one with its artifacts, or with its links.
	DeleteCollection(ctx context.Context, id int64) error
	// ExpireArtifacts deletes artifacts that are pending since before a time, some at a time.
	ExpireArtifacts(ctx context.Context, before time.Time) (n int, err error)
}
