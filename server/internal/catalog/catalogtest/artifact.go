package catalogtest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// artifacts is the naive model: lists and maps of everything.
type artifacts struct {
	*harness
	random      *rand.Rand
	open        func() catalog.Catalog
	now         int
	collections []*artifactCollection
	all         map[int64]*artifact
	gone        []int64 // that were in deleted collections
	runs        []model.RunID
	tied        map[model.RunID]map[catalog.ArtifactRole]map[int64]bool
}

type artifactCollection struct {
	id            int64
	name, kind    string
	portfolio     bool
	next          int64
	versions      map[int64]int64  // to an artifact
	aliases       map[string]int64 // likewise
	tags          []string
	description   string
	created, last int64
}

type artifact struct {
	catalog.Artifact
	sequence *artifactCollection
	files    map[string]catalog.File
	pending  []string
}

// testArtifacts makes random changes and compares all that there is to read.
func testArtifacts(t *testing.T, open Opener) {
	for seed := range uint64(2) {
		dir := t.TempDir()
		m := &artifacts{
			harness: &harness{t: t, c: open(t, dir)}, random: rand.New(rand.NewPCG(seed, 9)), open: func() catalog.Catalog { return open(t, dir) },
			all: map[int64]*artifact{}, tied: map[model.RunID]map[catalog.ArtifactRole]map[int64]bool{},
		}
		for i := range 3 {
			name := fmt.Sprint("run-", i)
			m.runs = append(m.runs, m.must(request(i+1, named(name), job(name))).Run)
			m.tied[m.runs[i]] = map[catalog.ArtifactRole]map[int64]bool{catalog.RoleLogged: {}, catalog.RoleUsed: {}}
		}
		for i := range 240 {
			m.now = 2000 + i
			m.step()
			if i%80 == 79 {
				m.check("Close", m.c.Close())
				m.c = m.open()
			}
			if i%12 == 11 {
				m.compare()
			}
		}
		m.purgeRuns()
		m.compare()
		m.check("Close", m.c.Close())
	}
}

func pickOf[T any](m *artifacts, from []T) T { return from[m.random.IntN(len(from))] }

func (m *artifacts) step() {
	steps := []func(){m.create, m.create, m.create, m.addFiles, m.addFiles, m.commit, m.commit, m.commit, m.edit, m.edit, m.link, m.unlink, m.use, m.delete, m.editCollection}
	if m.random.IntN(40) == 0 {
		steps = []func(){m.deleteCollection, m.expire}
	}
	pickOf(m, steps)()
}

func (m *artifacts) find(name string) *artifactCollection {
	i := slices.IndexFunc(m.collections, func(c *artifactCollection) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return m.collections[i]
}

func (m *artifacts) ids() []int64 { return slices.Sorted(maps.Keys(m.all)) }

func (m *artifacts) any() *artifact {
	if len(m.all) == 0 {
		return nil
	}
	return m.all[pickOf(m, m.ids())]
}

func (m *artifacts) create() {
	n := catalog.NewArtifact{
		Collection: pickOf(m, []string{"ds", "model", "x.y"}), Type: pickOf(m, []string{"data", "data", "data", "model"}),
		Digest: fmt.Sprintf("%032x", m.random.IntN(4)), Description: pickOf(m, []string{"", "text"}), Metadata: pickOf(m, []string{"", `{"a":NaN}`}),
		Aliases: pickOf(m, [][]string{nil, {"best"}, {"best", "prod"}, {"prod", "prod"}}), Tags: pickOf(m, [][]string{nil, {"b", "a"}}), Anew: m.random.IntN(4) == 0,
	}
	if m.random.IntN(3) == 0 {
		n.ClientID = fmt.Sprint("client-", m.random.IntN(6))
	}
	if m.random.IntN(8) == 0 {
		n.DistributedID = "many"
	}
	if m.random.IntN(2) == 0 {
		n.Run, n.HistoryStep = pickOf(m, m.runs), new(int64(m.now))
	}
	got, err := m.c.CreateArtifact(m.ctx(), "team", "project", n, at(m.now))
	c := m.find(n.Collection)
	if c != nil && (c.kind != n.Type || c.portfolio) {
		m.wantCode("CreateArtifact of another type", err, model.CodeConflict)
		return
	}
	m.check("CreateArtifact", err)
	if c == nil {
		c = m.newCollection(n.Collection, n.Type, false)
		c.id = got.Sequence
	}
	a := m.same(c, &n)
	switch {
	case a == nil:
		a = &artifact{sequence: c, files: map[string]catalog.File{}, pending: n.Aliases, Artifact: catalog.Artifact{
			ID: got.ID, Sequence: c.id, Workspace: "team", Project: "project", Name: c.name, Type: c.kind, Version: -1, State: catalog.ArtifactPending,
			Digest: n.Digest, ClientID: n.ClientID, DistributedID: n.DistributedID, Description: n.Description, Metadata: n.Metadata, Tags: slices.Sorted(slices.Values(n.Tags)),
			CreatedNs: atNs(m.now), ChangedNs: atNs(m.now), Run: n.Run, HistoryStep: n.HistoryStep,
		}}
		if m.all[got.ID] != nil || slices.Contains(m.gone, got.ID) {
			m.t.Fatalf("the number %d is given twice", got.ID)
		}
		m.all[got.ID] = a
	case a.State == catalog.ArtifactCommitted:
		for _, alias := range n.Aliases {
			c.aliases[alias] = a.ID
		}
	}
	if !n.Run.IsZero() {
		m.tied[n.Run][catalog.RoleLogged][a.ID] = true
	}
	m.equalArtifact(a, got)
}

func (m *artifacts) newCollection(name, kind string, portfolio bool) *artifactCollection {
	c := &artifactCollection{name: name, kind: kind, portfolio: portfolio, versions: map[int64]int64{}, aliases: map[string]int64{}, created: atNs(m.now), last: atNs(m.now)}
	m.collections = append(m.collections, c)
	return c
}

// same is the artifact that a creation means, nil for a new one.
func (m *artifacts) same(c *artifactCollection, n *catalog.NewArtifact) *artifact {
	for _, means := range []func(a *artifact) bool{
		func(a *artifact) bool { return n.ClientID != "" && a.ClientID == n.ClientID },
		func(a *artifact) bool {
			return n.DistributedID != "" && a.DistributedID == n.DistributedID && a.State == catalog.ArtifactPending
		},
		func(a *artifact) bool {
			return !n.Anew && n.DistributedID == "" && a.Digest == n.Digest && a.State == catalog.ArtifactCommitted
		},
	} {
		for _, id := range slices.Backward(m.ids()) {
			if a := m.all[id]; a.sequence == c && a.State != catalog.ArtifactDeleted && means(a) {
				return a
			}
		}
	}
	return nil
}

func (m *artifacts) addFiles() {
	a := m.any()
	if a == nil {
		return
	}
	var files []catalog.File
	for range 1 + m.random.IntN(3) {
		n := m.random.IntN(5)
		files = append(files, catalog.File{Name: pickOf(m, fileNames), RunFile: model.RunFile{
			SHA256: fmt.Sprintf("%064x", n), Size: int64(n), MD5: fmt.Sprintf("md5-%d", n), ContentType: "x", TimeNs: int64(m.now),
		}})
	}
	err := m.c.AddArtifactFiles(m.ctx(), a.ID, files)
	switch a.State {
	case catalog.ArtifactDeleted:
		m.wantCode("files of a deleted artifact", err, model.CodeNotFound)
		return
	case catalog.ArtifactCommitted:
		has := func(f catalog.File) bool { return a.files[f.Name].SHA256 == f.SHA256 }
		m.wantCode("files of a committed artifact", err, map[bool]model.Code{false: model.CodeConflict}[!slices.ContainsFunc(files, func(f catalog.File) bool { return !has(f) })])
		return
	}
	m.check("AddArtifactFiles", err)
	for _, f := range files {
		a.files[f.Name] = f
	}
}

func (m *artifacts) commit() {
	a := m.any()
	if a == nil {
		return
	}
	content := pickOf(m, []catalog.ArtifactContent{{}, {Digest: "composed"}, {Files: 7, Bytes: 70, Manifest: catalog.BlobRef{SHA256: strings.Repeat("f", 64), Size: 5, MD5: "m"}}})
	got, err := m.c.CommitArtifact(m.ctx(), a.ID, content, at(m.now))
	if a.State == catalog.ArtifactDeleted {
		m.wantCode("CommitArtifact of a deleted one", err, model.CodeNotFound)
		return
	}
	m.check("CommitArtifact", err)
	if a.State == catalog.ArtifactPending {
		a.State, a.CommittedNs, a.ChangedNs, a.Manifest = catalog.ArtifactCommitted, atNs(m.now), atNs(m.now), content.Manifest
		a.Digest = cmp.Or(content.Digest, a.Digest)
		if a.Files, a.Bytes = content.Files, content.Bytes; a.Files == 0 {
			for _, f := range a.files {
				a.Files, a.Bytes = a.Files+1, a.Bytes+f.Size
			}
		}
		a.Version = a.sequence.next
		m.join(a.sequence, a, a.pending)
	}
	m.equalArtifact(a, got)
}

func (m *artifacts) join(c *artifactCollection, a *artifact, aliases []string) {
	c.versions[c.next] = a.ID
	c.next++
	c.last = atNs(m.now)
	for _, alias := range append(slices.Clone(aliases), "latest") {
		c.aliases[alias] = a.ID
	}
}

func (m *artifacts) edit() {
	a := m.any()
	if a == nil || a.State == catalog.ArtifactDeleted {
		return
	}
	e := catalog.ArtifactEdit{AddTags: pickOf(m, [][]string{nil, {"c", "a"}}), RemoveTags: pickOf(m, [][]string{nil, {"b"}})}
	if m.random.IntN(2) == 0 {
		e.Description, e.Metadata = new(fmt.Sprint("text ", m.now)), new("{}")
		a.Description, a.Metadata = *e.Description, *e.Metadata
	}
	c := a.sequence
	if m.random.IntN(3) == 0 {
		c = pickOf(m, m.collections)
		e.Collection = c.id
	}
	change := m.random.IntN(4)
	switch change {
	case 1:
		e.AddAliases = []string{"best", "new"}
	case 2:
		e.RemoveAliases = []string{"best", "prod"}
	case 3:
		e.Aliases = &[]string{"only"}
	}
	before := *a
	got, err := m.c.EditArtifact(m.ctx(), a.ID, e, at(m.now))
	member := slices.Contains(slices.Collect(maps.Values(c.versions)), a.ID)
	pending := a.State == catalog.ArtifactPending && c == a.sequence
	if change > 0 && !member && !pending {
		m.wantCode("aliases where it is no version", err, model.CodeNotFound)
		a.Description, a.Metadata = m.was(before.ID)
		return
	}
	m.check("EditArtifact", err)
	a.Tags = edited(a.Tags, e.AddTags, e.RemoveTags)
	a.ChangedNs = atNs(m.now)
	switch {
	case pending:
		if e.Aliases != nil {
			a.pending = *e.Aliases
		}
		a.pending = edited(a.pending, e.AddAliases, e.RemoveAliases)
	case change > 0:
		maps.DeleteFunc(c.aliases, func(alias string, id int64) bool {
			return id == a.ID && (e.Aliases != nil && alias != "latest" || slices.Contains(e.RemoveAliases, alias))
		})
		if e.Aliases != nil {
			e.AddAliases = *e.Aliases
		}
		for _, alias := range e.AddAliases {
			c.aliases[alias] = a.ID
		}
	}
	m.equalArtifact(a, got)
}

// was reads texts again that a refused edit must not have changed: they are what an edit before said.
func (m *artifacts) was(id int64) (description, metadata string) {
	got, err := m.c.Artifact(m.ctx(), id)
	m.check("Artifact", err)
	if strings.HasSuffix(got.Description, fmt.Sprint(" ", m.now)) {
		m.t.Errorf("a refused edit changed the description of %d", id)
	}
	return got.Description, got.Metadata
}

func edited(list, add, remove []string) []string {
	list = slices.DeleteFunc(slices.Concat(list, add), func(s string) bool { return slices.Contains(remove, s) })
	slices.Sort(list)
	return slices.Compact(list)
}

func (m *artifacts) link() {
	a := m.any()
	if a == nil {
		return
	}
	name := pickOf(m, []string{"port", "port", "ds", "other"})
	aliases := pickOf(m, [][]string{nil, {"prod"}})
	got, err := m.c.LinkArtifact(m.ctx(), a.ID, catalog.VersionName{Workspace: "team", Project: "project", Collection: name}, aliases, at(m.now))
	c := m.find(name)
	switch {
	case a.State == catalog.ArtifactDeleted:
		m.wantCode("LinkArtifact of a deleted one", err, model.CodeNotFound)
		return
	case a.State == catalog.ArtifactPending || c != nil && (!c.portfolio || c.kind != a.Type):
		m.wantCode("LinkArtifact", err, model.CodeConflict)
		return
	}
	m.check("LinkArtifact", err)
	if c == nil {
		c = m.newCollection(name, a.Type, true)
		c.id = got.Collection
	}
	for version, id := range c.versions {
		if id == a.ID {
			for _, alias := range aliases {
				c.aliases[alias] = a.ID
			}
			equal(m.t, "an old link", version, got.Index)
			m.equalArtifact(a, &got.Artifact)
			return
		}
	}
	equal(m.t, "a new link", c.next, got.Index)
	m.join(c, a, aliases)
	m.equalArtifact(a, &got.Artifact)
}

func (m *artifacts) unlink() {
	a, c := m.any(), m.find("port")
	if a == nil || c == nil {
		return
	}
	err := m.c.UnlinkArtifact(m.ctx(), a.ID, c.id)
	for version, id := range c.versions {
		if id == a.ID {
			m.check("UnlinkArtifact", err)
			delete(c.versions, version)
			m.forget(c, a.ID)
			return
		}
	}
	m.wantCode("UnlinkArtifact of what is not linked", err, model.CodeNotFound)
}

// forget takes the aliases of an artifact out of a collection that lost it.
func (m *artifacts) forget(c *artifactCollection, id int64) {
	latest := c.aliases["latest"] == id
	maps.DeleteFunc(c.aliases, func(_ string, of int64) bool { return of == id })
	if versions := slices.Sorted(maps.Keys(c.versions)); latest && len(versions) > 0 {
		c.aliases["latest"] = c.versions[versions[len(versions)-1]]
	}
}

func (m *artifacts) use() {
	a := m.any()
	if a == nil {
		return
	}
	run, role := pickOf(m, m.runs), pickOf(m, []catalog.ArtifactRole{catalog.RoleUsed, catalog.RoleLogged})
	err := m.c.UseArtifact(m.ctx(), a.ID, run, role, at(m.now))
	if a.State == catalog.ArtifactDeleted {
		m.wantCode("UseArtifact of a deleted one", err, model.CodeNotFound)
		return
	}
	m.check("UseArtifact", err)
	m.tied[run][role][a.ID] = true
	m.wantCode("UseArtifact of no run", m.c.UseArtifact(m.ctx(), a.ID, local(99_999), role, at(1)), model.CodeNotFound)
}

func (m *artifacts) delete() {
	a := m.any()
	if a == nil || m.random.IntN(2) == 0 {
		return
	}
	with := m.random.IntN(2) == 0
	named := false
	for _, c := range m.collections {
		for alias, id := range c.aliases {
			named = named || id == a.ID && alias != "latest"
		}
	}
	err := m.c.DeleteArtifact(m.ctx(), a.ID, with, at(m.now))
	switch {
	case a.State == catalog.ArtifactDeleted:
		m.wantCode("DeleteArtifact again", err, model.CodeNotFound)
	case named && !with:
		m.wantCode("DeleteArtifact with aliases", err, model.CodeConflict)
	default:
		m.check("DeleteArtifact", err)
		m.deleted(a, atNs(m.now))
	}
}

func (m *artifacts) deleted(a *artifact, ns int64) {
	for _, c := range m.collections {
		maps.DeleteFunc(c.versions, func(_, id int64) bool { return id == a.ID })
		m.forget(c, a.ID)
	}
	for _, roles := range m.tied {
		delete(roles[catalog.RoleLogged], a.ID)
		delete(roles[catalog.RoleUsed], a.ID)
	}
	a.Artifact = catalog.Artifact{
		ID: a.ID, Sequence: a.Sequence, Workspace: a.Workspace, Project: a.Project, Name: a.Name, Type: a.Type, Version: -1, State: catalog.ArtifactDeleted,
		Digest: a.Digest, CreatedNs: a.CreatedNs, ChangedNs: ns, CommittedNs: a.CommittedNs, Run: a.Run, HistoryStep: a.HistoryStep,
	}
	a.files, a.pending = nil, nil
}

func (m *artifacts) editCollection() {
	if len(m.collections) == 0 {
		return
	}
	c := pickOf(m, m.collections)
	e := catalog.CollectionEdit{AddTags: []string{"t", fmt.Sprint(m.random.IntN(3))}, RemoveTags: []string{"1"}}
	if m.random.IntN(2) == 0 {
		e.Description = new(fmt.Sprint("about ", m.now))
	}
	name := pickOf(m, []string{c.name, "ds", "renamed"})
	e.Name = &name
	_, err := m.c.EditCollection(m.ctx(), c.id, e, at(m.now))
	if other := m.find(name); other != nil && other != c {
		m.wantCode("a name that is taken", err, model.CodeConflict)
		return
	}
	m.check("EditCollection", err)
	c.tags, c.last, c.name = edited(c.tags, e.AddTags, e.RemoveTags), atNs(m.now), name
	if e.Description != nil {
		c.description = *e.Description
	}
	for _, a := range m.all {
		a.Name = a.sequence.name
	}
}

func (m *artifacts) deleteCollection() {
	if len(m.collections) == 0 {
		return
	}
	c := pickOf(m, m.collections)
	m.check("DeleteCollection", m.c.DeleteCollection(m.ctx(), c.id))
	m.wantCode("DeleteCollection again", m.c.DeleteCollection(m.ctx(), c.id), model.CodeNotFound)
	m.collections = slices.DeleteFunc(m.collections, func(o *artifactCollection) bool { return o == c })
	for id, a := range m.all {
		if a.sequence == c {
			m.deleted(a, 0)
			delete(m.all, id)
			m.gone = append(m.gone, id)
		}
	}
}

func (m *artifacts) expire() {
	before := m.now - m.random.IntN(60)
	want := 0
	for _, a := range m.all {
		if a.State == catalog.ArtifactPending && a.CreatedNs < atNs(before) {
			m.deleted(a, atNs(before))
			want++
		}
	}
	n, err := m.c.ExpireArtifacts(m.ctx(), at(before))
	m.check("ExpireArtifacts", err)
	equal(m.t, "expired", want, n)
}

// purgeRuns: artifacts outlive the runs that logged them.
func (m *artifacts) purgeRuns() {
	m.check("Trash", m.c.Trash(m.ctx(), m.runs[1], at(9000)))
	m.check("Purge", m.c.Purge(m.ctx(), m.runs[0]))
	for _, a := range m.all {
		if a.Run == m.runs[0] {
			a.Run = model.RunID{}
		}
	}
	m.tied[m.runs[0]] = map[catalog.ArtifactRole]map[int64]bool{}
}

// equalArtifact compares one with the model, aliases included.
func (m *artifacts) equalArtifact(a *artifact, got *catalog.Artifact) {
	m.t.Helper()
	want := a.Artifact
	for _, c := range m.collections {
		for alias, id := range c.aliases {
			if id == a.ID {
				want.Aliases = append(want.Aliases, catalog.ArtifactAlias{Collection: c.id, Workspace: "team", Project: "project", Name: c.name, Alias: alias})
			}
		}
	}
	slices.SortFunc(want.Aliases, func(a, b catalog.ArtifactAlias) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Alias, b.Alias))
	})
	equal(m.t, fmt.Sprint("artifact ", a.ID), &want, got)
}
