package catalogtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

var fileNames = []string{
	"output.log", "config.yaml", "media/a.png", "media/a_1.png", "media/A.PNG", "media/b/ä.png", "media%", "media", "me%dia/x", "z\U0010ffff", "z\U0010ffff/a",
	"O'Brien; DROP TABLE files", "ΔX",
}

// testFiles makes random changes of a run's files and compares with a map.
func testFiles(t *testing.T, open Opener) {
	dir := t.TempDir()
	h := &harness{t: t, c: open(t, dir)}
	random := rand.New(rand.NewPCG(5, 6))
	run, other := h.must(request(1)).Run, h.must(request(2, named("other"), job("other"))).Run
	h.apply(other, 2, model.Update{Op: model.OpSetFile, Path: "far", File: &model.RunFile{SHA256: strings.Repeat("9", 64)}})
	naive := map[string]catalog.File{}
	for i := range 300 {
		name := fileNames[random.IntN(len(fileNames))]
		if random.IntN(4) == 0 {
			h.apply(run, 1, model.Update{Op: model.OpSetFile, Path: name})
			delete(naive, name)
		} else {
			f := model.RunFile{SHA256: fmt.Sprintf("%064x", random.IntN(5)), Size: random.Int64N(1 << 40), ContentType: "image/png", MD5: fmt.Sprint(i), TimeNs: int64(i + 1)}
			h.apply(run, 1, model.Update{Op: model.OpSetFile, Path: name, File: &f})
			naive[name] = catalog.File{Name: name, RunFile: f}
		}
		if i%60 == 59 {
			h.check("Close", h.c.Close())
			h.c = open(t, dir)
		}
		if i%5 == 4 {
			h.sameFiles(run, naive, random)
		}
	}
	h.apply(run, 1, model.Update{Op: model.OpSetFile, Path: "now", File: &model.RunFile{SHA256: strings.Repeat("a", 64)}})
	now, err := h.c.File(t.Context(), run, "now")
	h.check("File", err)
	equal(t, "the time of a file that has none", atNs(1000), now.TimeNs)
	h.naming("a file", strings.Repeat("a", 64), 1)
	h.naming("a file in two runs of a project", strings.Repeat("9", 64), 1)
	h.badFiles(run)
	h.check("Trash", h.c.Trash(t.Context(), run, at(1)))
	h.naming("in the trash", strings.Repeat("a", 64), 0)
	h.check("Purge", h.c.Purge(t.Context(), run))
	_, _, err = h.c.Files(t.Context(), run, catalog.FileFilter{})
	h.wantCode("files of a purged run", err, model.CodeRunDeleted)
	h.check("Close", h.c.Close())
}

func (h *harness) badFiles(run model.RunID) {
	for _, name := range []string{"none", "", "OUTPUT.LOG", "x' OR 1=1"} {
		_, err := h.c.File(h.ctx(), run, name)
		h.wantCode("file "+name, err, model.CodeNotFound)
	}
	for what, f := range map[string]catalog.FileFilter{
		"a bad cursor":   {Cursor: "?"},
		"a long pattern": {Like: strings.Repeat("%", 5000)},
		"a bad limit":    {Limit: -1},
		"many names":     {Names: slices.Repeat([]string{"a"}, catalog.MaxFileNames+1)},
	} {
		_, _, err := h.c.Files(h.ctx(), run, f)
		h.wantCode(what, err, model.CodeInvalid)
	}
}

func (h *harness) sameFiles(run model.RunID, naive map[string]catalog.File, random *rand.Rand) {
	h.t.Helper()
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	f := catalog.FileFilter{
		Prefix: pick("", "", "media", "media/", "z\U0010ffff", "q", "\xff"),
		Like:   pick("", "", "%", "%.png", "MEDIA/_.png", "media/a__.png", `media\%`, "%Δ_", "%O'B%", "media%%%g", `\`),
		Limit:  random.IntN(4),
	}
	if random.IntN(2) == 0 {
		f.Names = slices.Clone(fileNames[random.IntN(len(fileNames)):])
	}
	var want []catalog.File
	var sum int64
	for _, name := range slices.Sorted(maps.Keys(naive)) {
		one := naive[name]
		got, err := h.c.File(h.ctx(), run, name)
		h.check("File", err)
		equal(h.t, "File", &one, got)
		if (f.Names == nil || slices.Contains(f.Names, name)) && strings.HasPrefix(name, f.Prefix) && (f.Like == "" || like(f.Like, name)) {
			want = append(want, one)
			sum += one.Size
		}
	}
	equal(h.t, fmt.Sprintf("files of %+v", f), want, h.files(run, f))
	n, bytes, err := h.c.CountFiles(h.ctx(), run, f)
	h.check("CountFiles", err)
	if n != len(want) || bytes != sum {
		h.t.Errorf("%d files of %d bytes, want %d of %d", n, bytes, len(want), sum)
	}
}

// like compares by trying every way, letters of ASCII in either case.
func like(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	switch r, size := utf8.DecodeRuneInString(pattern); {
	case r == '%':
		for i := range len(name) + 1 {
			if like(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	case name == "":
		return false
	case r == '_':
		_, n := utf8.DecodeRuneInString(name)
		return like(pattern[1:], name[n:])
	case r == '\\':
		if pattern = pattern[1:]; pattern == "" {
			return false
		}
		_, size = utf8.DecodeRuneInString(pattern)
		fallthrough
	default:
		lower := func(s string) string {
			return strings.Map(func(r rune) rune {
				if r >= 'A' && r <= 'Z' {
					r += 'a' - 'A'
				}
				return r
			}, s)
		}
		return len(name) >= size && lower(name[:size]) == lower(pattern[:size]) && like(pattern[size:], name[size:])
	}
}

// files walks all pages of a filter.
func (h *harness) files(run model.RunID, f catalog.FileFilter) (out []catalog.File) {
	h.t.Helper()
	for {
		page, next, err := h.c.Files(h.ctx(), run, f)
		h.check("Files", err)
		if f.Limit > 0 && len(page) > f.Limit || next != "" && len(page) == 0 {
			h.t.Fatalf("a page of at most %d has %d", f.Limit, len(page))
		}
		out = append(out, page...)
		if f.Cursor = next; next == "" {
			return out
		}
	}
}

// testFilePages walks many files with long names: pages end by their bytes.
func testFilePages(t *testing.T, open Opener) {
	h := newHarness(t, open)
	run := h.must(request(1)).Run
	want := make([]string, 5000)
	var updates []model.Update
	for i := range want {
		want[i] = fmt.Sprintf("%s/%06d", strings.Repeat("d", 900), i)
		updates = append(updates, model.Update{Op: model.OpSetFile, Path: want[i], File: &model.RunFile{SHA256: strings.Repeat("a", 64), Size: 1}})
	}
	h.apply(run, 1, updates...)
	page, next, err := h.c.Files(h.ctx(), run, catalog.FileFilter{})
	h.check("Files", err)
	if bytes := len(page) * 1000; next == "" || bytes > 1<<20 {
		t.Errorf("a page has %d files and the cursor %q", len(page), next)
	}
	var got []string
	for _, f := range h.files(run, catalog.FileFilter{}) {
		got = append(got, f.Name)
	}
	equal(t, "names", want, got)
}
