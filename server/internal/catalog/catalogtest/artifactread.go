package catalogtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// compare reads all that there is.
func (m *artifacts) compare() {
	m.t.Helper()
	for _, a := range m.all {
		got, err := m.c.Artifact(m.ctx(), a.ID)
		m.check("Artifact", err)
		m.equalArtifact(a, got)
		m.compareFiles(a)
		for _, role := range []catalog.ArtifactRole{catalog.RoleLogged, catalog.RoleUsed} {
			m.compareRuns(a, role)
		}
	}
	for _, id := range append(slices.Clone(m.gone), 0, -1, 1<<40) {
		_, err := m.c.Artifact(m.ctx(), id)
		m.wantCode("Artifact of a deleted collection", err, model.CodeNotFound)
	}
	for _, c := range m.collections {
		m.compareVersions(c)
	}
	m.compareCollections()
	for run, roles := range m.tied {
		for role, tied := range roles {
			m.compareTied(run, role, tied)
		}
	}
	m.compareBlobs()
}

func (m *artifacts) compareFiles(a *artifact) {
	m.t.Helper()
	if a.State == catalog.ArtifactDeleted {
		_, _, err := m.c.ArtifactFiles(m.ctx(), a.ID, catalog.FileFilter{})
		m.wantCode("files of a deleted artifact", err, model.CodeNotFound)
		return
	}
	var want, got []catalog.File
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		want = append(want, a.files[name])
		one, err := m.c.ArtifactFile(m.ctx(), a.ID, name)
		m.check("ArtifactFile", err)
		equal(m.t, "a file", new(a.files[name]), one)
	}
	f := catalog.FileFilter{Limit: 2}
	for {
		page, next, err := m.c.ArtifactFiles(m.ctx(), a.ID, f)
		m.check("ArtifactFiles", err)
		got = append(got, page...)
		if f.Cursor = next; next == "" {
			break
		}
	}
	equal(m.t, "files", want, got)
	_, err := m.c.ArtifactFile(m.ctx(), a.ID, "none")
	m.wantCode("no file", err, model.CodeNotFound)
}

func (m *artifacts) compareRuns(a *artifact, role catalog.ArtifactRole) {
	m.t.Helper()
	if a.State == catalog.ArtifactDeleted {
		return
	}
	var want []model.RunID
	for i, run := range m.runs {
		if m.tied[run][role][a.ID] && (i != 1 || !m.trashed()) {
			want = append(want, run)
		}
	}
	got, err := m.c.ArtifactRuns(m.ctx(), a.ID, role)
	m.check("ArtifactRuns", err)
	equal(m.t, "runs of an artifact", want, got)
}

// trashed says whether the second run is in the trash, where purgeRuns put it.
func (m *artifacts) trashed() bool { return len(m.tied[m.runs[0]]) == 0 }

func (m *artifacts) compareVersions(c *artifactCollection) {
	m.t.Helper()
	find := func(alias string) (*catalog.ArtifactVersion, error) {
		return m.c.ArtifactVersion(m.ctx(), catalog.VersionName{Workspace: "team", Project: "project", Collection: c.name, Alias: alias})
	}
	for alias, id := range c.aliases {
		got, err := find(alias)
		m.check("ArtifactVersion "+alias, err)
		m.equalVersion(c, id, got)
	}
	if id, ok := c.aliases["latest"]; ok {
		got, err := find("")
		m.check("ArtifactVersion", err)
		m.equalVersion(c, id, got)
	}
	digests := map[string]int64{}
	for version, id := range c.versions {
		got, err := find(fmt.Sprint("v", version))
		m.check("ArtifactVersion", err)
		m.equalVersion(c, id, got)
		digests[m.all[id].Digest] = max(digests[m.all[id].Digest], version)
	}
	for digest, version := range digests {
		got, err := find(digest)
		m.check("ArtifactVersion by digest", err)
		equal(m.t, "the version of a digest", version, got.Index)
	}
	for _, alias := range []string{fmt.Sprint("v", c.next), "v-1", "v01", "none", "v99999999999999999999", "' OR 1=1"} {
		_, err := find(alias)
		m.wantCode("no alias "+alias, err, model.CodeNotFound)
	}
	versions := slices.Sorted(maps.Keys(c.versions))
	for _, newest := range []bool{false, true} {
		if newest {
			slices.Reverse(versions)
		}
		got := m.list(catalog.ArtifactFilter{Collection: c.id, Newest: newest, Limit: m.random.IntN(4)}, len(versions))
		for i := range got {
			m.equalVersion(c, c.versions[versions[i]], &got[i])
		}
	}
	var aliases []string
	for cursor := ""; ; {
		page, next, err := m.c.CollectionAliases(m.ctx(), c.id, 2, cursor)
		m.check("CollectionAliases", err)
		aliases = append(aliases, page...)
		if cursor = next; next == "" {
			break
		}
	}
	equal(m.t, "aliases", slices.Sorted(maps.Keys(c.aliases)), aliases)
}

func (m *artifacts) equalVersion(c *artifactCollection, id int64, got *catalog.ArtifactVersion) {
	m.t.Helper()
	if got.ID != id || got.Collection != c.id || c.versions[got.Index] != id || got.AddedNs == 0 {
		m.t.Errorf("version %d of %s is the artifact %d, want %d", got.Index, c.name, got.ID, id)
	}
	m.equalArtifact(m.all[id], &got.Artifact)
}

// list walks all pages of a filter.
func (m *artifacts) list(f catalog.ArtifactFilter, want int) (out []catalog.ArtifactVersion) {
	m.t.Helper()
	for {
		page, next, err := m.c.Artifacts(m.ctx(), f)
		m.check("Artifacts", err)
		out = append(out, page...)
		if f.Cursor = next; next == "" {
			break
		}
	}
	n, err := m.c.CountArtifacts(m.ctx(), f)
	m.check("CountArtifacts", err)
	if n != want || len(out) != want {
		m.t.Fatalf("%d artifacts are listed and %d counted, want %d", len(out), n, want)
	}
	return out
}

func (m *artifacts) compareTied(run model.RunID, role catalog.ArtifactRole, tied map[int64]bool) {
	m.t.Helper()
	var want []int64
	for _, id := range slices.Sorted(maps.Keys(tied)) {
		if m.all[id].State == catalog.ArtifactCommitted {
			want = append(want, id)
		}
	}
	got := m.list(catalog.ArtifactFilter{Run: run, Role: role, Limit: m.random.IntN(3)}, len(want))
	for i := range got {
		m.equalVersion(m.all[want[i]].sequence, want[i], &got[i])
	}
}

func (m *artifacts) compareCollections() {
	m.t.Helper()
	for _, f := range []catalog.CollectionFilter{{}, {Type: "data"}, {Sequences: true, Limit: 2}} {
		f.Workspace, f.Project = "team", "project"
		var want, got []catalog.Collection
		for _, c := range m.collections {
			if (f.Type == "" || f.Type == c.kind) && (!f.Sequences || !c.portfolio) {
				want = append(want, catalog.Collection{
					ID: c.id, Workspace: "team", Project: "project", Name: c.name, Type: c.kind, Portfolio: c.portfolio, Description: c.description, Tags: c.tags,
					CreatedNs: c.created, ChangedNs: c.last, Versions: int64(len(c.versions)), Latest: c.aliases["latest"],
				})
			}
		}
		slices.SortFunc(want, func(a, b catalog.Collection) int { return strings.Compare(a.Name, b.Name) })
		for {
			page, next, err := m.c.Collections(m.ctx(), f)
			m.check("Collections", err)
			got = append(got, page...)
			if f.Cursor = next; next == "" {
				break
			}
		}
		equal(m.t, "collections", want, got)
		for i := range want {
			byID, err := m.c.Collection(m.ctx(), want[i].ID)
			m.check("Collection", err)
			equal(m.t, "a collection", &want[i], byID)
			byName, err := m.c.FindCollection(m.ctx(), "team", "project", want[i].Name)
			m.check("FindCollection", err)
			equal(m.t, "a collection", &want[i], byName)
		}
	}
	types := map[string]*catalog.ArtifactType{}
	for _, c := range m.collections {
		if types[c.kind] == nil {
			types[c.kind] = &catalog.ArtifactType{Name: c.kind, CreatedNs: c.created}
		}
		types[c.kind].Collections++
		types[c.kind].CreatedNs = min(types[c.kind].CreatedNs, c.created)
	}
	var want []catalog.ArtifactType
	for _, name := range slices.Sorted(maps.Keys(types)) {
		want = append(want, *types[name])
	}
	got, err := m.c.ArtifactTypes(m.ctx(), "team", "project")
	m.check("ArtifactTypes", err)
	equal(m.t, "types", want, got)
}

// compareBlobs asks which blobs are named.
func (m *artifacts) compareBlobs() {
	m.t.Helper()
	want, sums := map[string]bool{}, map[string]bool{}
	for _, a := range m.all {
		for _, f := range a.files {
			want[f.SHA256], sums[f.MD5] = true, true
		}
		if a.Manifest.SHA256 != "" {
			want[a.Manifest.SHA256] = true
		}
	}
	asked, md5s := []string{strings.Repeat("f", 64), strings.Repeat("e", 64)}, []string{"none", ""}
	for n := range 5 {
		asked, md5s = append(asked, fmt.Sprintf("%064x", n)), append(md5s, fmt.Sprint("md5-", n))
	}
	got, err := m.c.Referenced(m.ctx(), asked)
	m.check("Referenced", err)
	equal(m.t, "referenced", want, got)
	for _, hash := range asked {
		m.naming(hash, hash, map[bool]int{true: 1}[want[hash]])
	}
	found, err := m.c.FilesByMD5(m.ctx(), "team", "project", md5s)
	m.check("FilesByMD5", err)
	equal(m.t, "sums", slices.Sorted(maps.Keys(sums)), slices.Sorted(maps.Keys(found)))
	for sum, f := range found {
		if f.MD5 != sum || f.SHA256 != fmt.Sprintf("%064x", sum[4]-'0') {
			m.t.Errorf("the file of %s: %+v", sum, f)
		}
	}
	other, err := m.c.FilesByMD5(m.ctx(), "team", "another", md5s)
	m.check("FilesByMD5", err)
	equal(m.t, "sums of another project", map[string]catalog.File{}, other)
}

// testManifests: the parts of a manifest are kept until its artifact goes.
func testManifests(t *testing.T, open Opener) {
	h := newHarness(t, open)
	a, err := h.c.CreateArtifact(h.ctx(), "team", "p", catalog.NewArtifact{Collection: "c", Type: "t", Digest: "d", ClientID: "x"}, at(1))
	h.check("CreateArtifact", err)
	parts := []catalog.ArtifactManifest{
		{Kind: "PATCH", Name: "wandb_manifest.patch.json", Base: 5},
		{Kind: "PATCH", Name: "wandb_manifest.patch.json", Digest: "AA==", Blob: catalog.BlobRef{SHA256: strings.Repeat("a", 64), Size: 9, MD5: "AA=="}},
	}
	for i := range parts {
		n, err := h.c.PutManifest(h.ctx(), a.ID, parts[i])
		h.check("PutManifest", err)
		parts[i].Number = n
		equal(t, "number", int64(i+1), n)
	}
	parts[0].Blob = catalog.BlobRef{SHA256: strings.Repeat("b", 64)}
	_, err = h.c.PutManifest(h.ctx(), a.ID, parts[0])
	h.check("PutManifest", err)
	got, err := h.c.Manifests(h.ctx(), a.ID)
	h.check("Manifests", err)
	equal(t, "manifests", parts, got)
	h.naming("a part", parts[0].Blob.SHA256, 1)
	_, err = h.c.PutManifest(h.ctx(), a.ID, catalog.ArtifactManifest{Number: 3})
	h.wantCode("no such part", err, model.CodeNotFound)
	found, err := h.c.ArtifactByClient(h.ctx(), "x")
	h.check("ArtifactByClient", err)
	equal(t, "by client", a, found)
	_, err = h.c.ArtifactByClient(h.ctx(), "")
	h.wantCode("by no client", err, model.CodeNotFound)
	_, err = h.c.CommitArtifact(h.ctx(), a.ID, catalog.ArtifactContent{}, at(2))
	h.check("CommitArtifact", err)
	_, err = h.c.PutManifest(h.ctx(), a.ID, parts[0])
	h.wantCode("a part of a committed one", err, model.CodeConflict)
	linked, err := h.c.LinkArtifact(h.ctx(), a.ID, catalog.VersionName{Workspace: "team", Project: "elsewhere", Collection: "port"}, nil, at(3))
	h.check("LinkArtifact", err)
	h.naming("a part that is linked to another project", parts[0].Blob.SHA256, 2)
	members, err := h.c.Memberships(h.ctx(), a.ID)
	h.check("Memberships", err)
	equal(t, "memberships", []catalog.Membership{
		{Collection: a.Sequence, Workspace: a.Workspace, Project: a.Project, Name: a.Name, Index: 0, AddedNs: atNs(2)},
		{Collection: linked.Collection, Workspace: "team", Project: "elsewhere", Name: "port", Index: 0, AddedNs: atNs(3)},
	}, members)
	h.check("DeleteCollection", h.c.DeleteCollection(h.ctx(), linked.Collection))
	h.naming("a part", parts[0].Blob.SHA256, 1)
	h.check("DeleteArtifact", h.c.DeleteArtifact(h.ctx(), a.ID, false, at(4)))
	h.naming("a part of a deleted artifact", parts[0].Blob.SHA256, 0)
	_, err = h.c.Manifests(h.ctx(), a.ID)
	h.wantCode("parts of a deleted artifact", err, model.CodeNotFound)
	_, err = h.c.Memberships(h.ctx(), a.ID)
	h.wantCode("memberships of a deleted artifact", err, model.CodeNotFound)
	_, err = h.c.ArtifactByClient(h.ctx(), "x")
	h.wantCode("a deleted one by client", err, model.CodeNotFound)
}
