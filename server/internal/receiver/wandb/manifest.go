package wandb

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the names of W&B's files
	"encoding/hex"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// manifest is the list of an artifact's files as clients write it:
// {"version":1,"storagePolicy":…,"contents":{"a.txt":{"digest":…,"size":…}}}.
type manifest struct {
	head    []byte // the members besides contents, as they came
	entries []entry
}

// entry is one file. Both parts lie in the text that was read.
type entry struct{ name, value []byte }

// maxManifestDepth is how deep a manifest is nested: extra is of the user's handlers.
const maxManifestDepth = 32

// readManifest reads a text. Its entries are sorted by name.
func readManifest(text []byte) (*manifest, error) {
	if err := loose.CheckDepth(text, maxManifestDepth); err != nil {
		return nil, model.Errorf(model.CodeInvalid, "the manifest is no JSON: %s", model.Clip(err.Error()))
	}
	contents, ok := loose.Get(text, "contents")
	if !ok || loose.KindOf(contents) != loose.Object {
		return nil, model.Errorf(model.CodeInvalid, "the manifest has no contents")
	}
	m := &manifest{}
	for member, err := range loose.Members(text) {
		if err != nil {
			return nil, model.Errorf(model.CodeInvalid, "the manifest is no JSON: %s", model.Clip(err.Error()))
		}
		if string(member.Key) != "contents" {
			m.head = append(append(append(append(m.head, member.RawKey...), ':'), member.Value...), ',')
		}
	}
	n := 0
	for range loose.Pairs(contents) {
		if n++; n > catalog.MaxArtifactFiles {
			return nil, model.Errorf(model.CodeLimit, "the manifest has more than %d entries", catalog.MaxArtifactFiles).WithHint("Split the artifact into several.")
		}
	}
	m.entries = make([]entry, 0, n)
	for member, err := range loose.Members(contents) {
		if err != nil {
			return nil, model.Errorf(model.CodeInvalid, "the manifest is no JSON: %s", model.Clip(err.Error()))
		}
		if !member.Faithful || loose.KindOf(member.Value) != loose.Object {
			return nil, model.Errorf(model.CodeInvalid, "the manifest's entry %q is not valid", model.Clip(string(member.Key)))
		}
		if err := model.CheckFileName(string(member.Key)); err != nil {
			return nil, err
		}
		m.entries = append(m.entries, entry{member.Key, member.Value})
	}
	slices.SortFunc(m.entries, func(a, b entry) int { return bytes.Compare(a.name, b.name) })
	for i := 1; i < len(m.entries); i++ {
		if bytes.Equal(m.entries[i-1].name, m.entries[i].name) {
			return nil, model.Errorf(model.CodeInvalid, "the manifest has the entry %q twice", model.Clip(string(m.entries[i].name)))
		}
	}
	return m, nil
}

// over is a manifest with the entries of another over its own.
func (m *manifest) over(base *manifest) *manifest {
	out := &manifest{head: m.head, entries: make([]entry, 0, len(m.entries)+len(base.entries))}
	a, b := m.entries, base.entries
	for len(a) > 0 && len(b) > 0 {
		switch order := bytes.Compare(a[0].name, b[0].name); {
		case order > 0:
			out.entries, b = append(out.entries, b[0]), b[1:]
		case order == 0:
			b = b[1:]
			fallthrough
		default:
			out.entries, a = append(out.entries, a[0]), a[1:]
		}
	}
	out.entries = append(append(out.entries, a...), b...)
	return out
}

// text writes a manifest.
func (m *manifest) text() []byte {
	size := len(m.head) + len(`{"contents":{}}`)
	for _, e := range m.entries {
		size += len(e.name) + len(e.value) + len(`"":,`)
	}
	out := append(make([]byte, 0, size), '{')
	out = append(append(out, m.head...), `"contents":{`...)
	for i, e := range m.entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(loose.AppendText(out, string(e.name)), ':'), e.value...)
	}
	return append(out, "}}"...)
}

// digest is the artifact's, as the SDK makes it of its own manifest.
func (m *manifest) digest() string {
	h := md5.New() //nolint:gosec // see above
	_, _ = h.Write([]byte("wandb-artifact-manifest-v1\n"))
	for _, e := range m.entries {
		digest, _ := loose.Get(e.value, "digest")
		text, _ := loose.Text(digest)
		_, _ = h.Write(append(append(append(slices.Clone(e.name), ':'), text...), '\n')) // never fails, see hash.Hash
	}
	return hex.EncodeToString(h.Sum(nil))
}

// isRef tells an entry whose bytes lie elsewhere.
func (e entry) isRef() bool {
	ref, ok := loose.Get(e.value, "ref")
	return ok && loose.KindOf(ref) == loose.String
}

// maxEntryBytes is the most that an entry may say it has.
const maxEntryBytes = 1 << 53

// size is what an entry says of its bytes; 0 where it says nothing.
func (e entry) size() (int64, error) {
	value, ok := loose.Get(e.value, "size")
	if !ok || loose.KindOf(value) == loose.Null {
		return 0, nil
	}
	f, exact := loose.Float(value)
	if !exact || f < 0 || f > maxEntryBytes || f != float64(int64(f)) {
		return 0, model.Errorf(model.CodeInvalid, "the size of the manifest's entry %q is %s", model.Clip(string(e.name)), model.Clip(string(value)))
	}
	return int64(f), nil
}

// text is a member that is a text, "" for none.
func (e entry) text(name string) string {
	value, _ := loose.Get(e.value, name)
	text, _ := loose.Text(value)
	return text
}
