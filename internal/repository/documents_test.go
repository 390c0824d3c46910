package repository

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Comments and documents are maps: what they name must be there. A passage is a
// line of a document, or of a comment.
type passage struct {
	file string
	line int
	text string
}

func (p passage) errorf(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Errorf("%s:%d: %s", p.file, p.line, fmt.Sprintf(format, args...))
}

// passages are all documents and comments of the repository.
func passages(t *testing.T) (all []passage) {
	t.Helper()
	for _, name := range written(t, ".md", ".go", ".py", ".pyi", ".ts", ".tsx", ".css", ".proto", ".yaml", ".yml", ".toml", ".sql", ".txtar", ".mod", "") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "LICENSE") {
			continue
		}
		comment := commentOf(name)
		for i, line := range strings.Split(string(data), "\n") {
			if text := comment(line); text != "" {
				all = append(all, passage{name, i + 1, text})
			}
		}
	}
	return all
}

// commentOf gives the function that takes a file's comments out of its lines, one
// after the other.
func commentOf(name string) func(line string) string {
	after := func(marks ...string) func(string) string {
		return func(line string) string {
			for _, m := range marks {
				if at := strings.Index(line, m); at >= 0 && (at == 0 || strings.ContainsAny(line[at-1:at], " \t;{")) {
					return line[at:]
				}
			}
			return ""
		}
	}
	switch path.Ext(name) {
	case ".md":
		return func(line string) string { return line }
	case ".py", ".pyi":
		hash, inside := after("#"), false
		return func(line string) string {
			was := inside
			if strings.Count(line, `"""`)%2 == 1 {
				inside = !inside
			}
			if was || inside || strings.Contains(line, `"""`) {
				return line
			}
			return hash(line)
		}
	case ".go", ".ts", ".tsx", ".css", ".proto", ".mod":
		return after("//", "/*", " * ")
	case ".sql":
		return after("--")
	}
	return after("#")
}

// issueNumber is a number of the list of issues, which readers do not have.
var issueNumber = regexp.MustCompile(`(?i)\bissues?\s+#?\d+\b|(?:^|[\s(])#\d{1,4}\b`)

func TestNoIssueNumbers(t *testing.T) {
	for _, p := range passages(t) {
		if m := issueNumber.FindString(p.text); m != "" && path.Ext(p.file) != ".css" {
			p.errorf(t, "names an issue: %s", strings.TrimSpace(m))
		}
	}
}

// tree is what git keeps: files, and the folders that they lie in.
type tree struct {
	files, folders map[string]bool
	names          map[string]bool // of files, without their folders
}

func newTree(t *testing.T) tree {
	t.Helper()
	all := tree{map[string]bool{}, map[string]bool{"": true, ".": true}, map[string]bool{}}
	for _, f := range trackedFiles(t) {
		if _, err := os.Stat(f); err != nil {
			continue
		}
		all.files[f], all.names[path.Base(f)] = true, true
		for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
			all.folders[dir] = true
		}
	}
	return all
}

// has reports whether a path names a file or folder: from the root, from the
// folder of the text, or by its last parts.
func (tr tree) has(name, from string) bool {
	name = strings.TrimSuffix(name, "/")
	for _, p := range []string{name, path.Join(path.Dir(from), name)} {
		if tr.files[p] || tr.folders[p] {
			return true
		}
	}
	if !strings.Contains(name, "/") && path.Ext(from) != ".md" {
		return tr.below(name, path.Dir(from))
	}
	if !strings.Contains(name, "/") {
		return tr.names[name]
	}
	for f := range tr.files {
		if strings.HasSuffix(f, "/"+name) {
			return true
		}
	}
	for f := range tr.folders {
		if strings.HasSuffix(f, "/"+name) {
			return true
		}
	}
	return false
}

// below reports whether a folder, or one in it, has a file of this name.
func (tr tree) below(name, folder string) bool {
	if folder == "." {
		return tr.names[name]
	}
	for f := range tr.files {
		if path.Base(f) == name && strings.HasPrefix(f, folder+"/") {
			return true
		}
	}
	return false
}

var (
	// ourFile is a name with the ending of a file that people write.
	ourFile = regexp.MustCompile("(?:^|[\\s`(\\[\"'=,])((?:[\\w.-]+/)*[\\w-]+\\.(?:go|py|pyi|md|ts|tsx|css|proto|sql|txtar))\\b(?:[^\\w(/*=-]|$)")
	// ourPath begins with a folder of the root.
	ourPath = regexp.MustCompile("(?:^|[\\s`(\\[\"',:])((?:\\./)?(?:api|chain|deploy|docs|examples|gen|internal|metrics|python|read|server|test|tools|web)/[\\w./-]*[\\w/])")
	// below is a package by the last two parts of its path: `store/local`.
	below = regexp.MustCompile("`((?:blob|catalog|cmd|receiver|store|wal)/[a-z]+)`")
	// design is where decisions are.
	design = regexp.MustCompile("(?:^|[\\s`(\"',:])((?:design|spec)/[\\w-]+)")
	link   = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	code   = regexp.MustCompile("`[^`]+`")
)

// elsewhere are names of what only a build or a user makes, of what a text lets
// the reader choose, and of files of other projects.
var elsewhere = regexp.MustCompile(`^(?:python/src/kymogram/_bin|python/build|web/node_modules)(?:/|$)|^python/\d|^train\.py$|NAME|NNNN|-N$|\.\.\.|` +
	`^compute/(?:axon|prometheus)\.py$|^doc/log_format\.md$`)

func TestNamedPathsAreThere(t *testing.T) {
	all := newTree(t)
	for _, p := range passages(t) {
		var found []string
		if path.Ext(p.file) == ".md" {
			p.text = link.ReplaceAllString(p.text, "$1") // TestLinksLead looks at where they lead
		}
		for _, pattern := range []*regexp.Regexp{ourFile, ourPath, design, below} {
			for _, m := range pattern.FindAllStringSubmatch(p.text, -1) {
				found = append(found, m[1])
			}
		}
		for _, name := range found {
			name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/...")
			if !elsewhere.MatchString(name) && !all.has(name, p.file) {
				p.errorf(t, "names %s, which there is not", name)
			}
		}
	}
}

func TestLinksLead(t *testing.T) {
	all := newTree(t)
	for _, p := range passages(t) {
		if path.Ext(p.file) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(p.text, ""), -1) {
			target, anchor, _ := strings.Cut(m[2], "#")
			if strings.Contains(target, ":") { // an address
				continue
			}
			file := p.file
			if target != "" {
				file = path.Join(path.Dir(p.file), target)
			}
			if !all.files[file] && !all.folders[file] {
				p.errorf(t, "the link %s leads nowhere", m[2])
			} else if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
				p.errorf(t, "%s has no heading for the link #%s", file, anchor)
			}
		}
	}
}

// anchors are the headings of a document, spelled as GitHub's links are.
func anchors(t *testing.T, file string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		marks, heading, ok := strings.Cut(line, " ")
		if fenced || !ok || strings.Trim(marks, "#") != "" || marks == "" {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, heading))
	}
	return all
}

// A name that comments and documents write behind one of our packages is
// exported by it: model.Batch, [store.Engine].
func TestNamedGoNamesAreThere(t *testing.T) {
	files, _ := goFiles(t)
	exported := map[string]map[string]bool{}
	for _, f := range files {
		pkg := strings.TrimSuffix(f.Name.Name, "_test")
		if exported[pkg] == nil {
			exported[pkg] = map[string]bool{}
		}
		for _, name := range namesIn(f) {
			exported[pkg][name] = true
		}
	}
	for _, pkg := range []string{"main", "metrics", "prometheus", "wandb"} { // Python and others have the names too
		delete(exported, pkg)
	}
	qualified := regexp.MustCompile("(?:^|[\\s`(\\[*])([a-z]+)\\.([A-Z]\\w*)")
	for _, p := range passages(t) {
		if ext := path.Ext(p.file); ext != ".go" && ext != ".md" {
			continue
		}
		for _, m := range qualified.FindAllStringSubmatch(p.text, -1) {
			if names := exported[m[1]]; names != nil && !names[m[2]] {
				p.errorf(t, "names %s.%s, which there is not", m[1], m[2])
			}
		}
	}
}

func namesIn(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// Modules of the Python package and what lies in them, as import lines and
// documents spell them: kymogram.pandas.read. A private name may stand alone.
func TestNamedPythonModulesAreThere(t *testing.T) {
	sources := pythonWords(t)
	dotted := regexp.MustCompile(`\bkymogram((?:\.[a-z_]\w*)+)`)
	private := regexp.MustCompile("`(_[a-z]\\w*)`")
	others := regexp.MustCompile(`^\.(?:example|key|service)\b`) // a host, a file and a unit
	for _, p := range passages(t) {
		if ext := path.Ext(p.file); ext != ".py" && ext != ".pyi" && ext != ".md" {
			continue
		}
		for _, m := range private.FindAllStringSubmatch(p.text, -1) {
			if !sources[""][m[1]] {
				p.errorf(t, "names %s, which Python's sources do not", m[1])
			}
		}
		for _, m := range dotted.FindAllStringSubmatch(p.text, -1) {
			if others.MatchString(m[1]) {
				continue
			}
			module := "kymogram"
			for _, part := range strings.Split(m[1], ".")[1:] {
				next := module + "." + part
				if sources[next] == nil {
					if !sources[module][part] {
						p.errorf(t, "names kymogram%s, and %s has no %s", m[1], module, part)
					}
					break
				}
				module = next
			}
		}
	}
}

// pythonWords are the words of each module's source, by its dotted name; a
// package's are those of its __init__. Those of "" are of all modules, and their
// names.
func pythonWords(t *testing.T) map[string]map[string]bool {
	t.Helper()
	word := regexp.MustCompile(`\w+`)
	modules := map[string]map[string]bool{"": {}}
	for _, f := range written(t, ".py", ".pyi") {
		name, ok := strings.CutPrefix(strings.TrimSuffix(f, path.Ext(f)), "python/src/")
		if !ok {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name = strings.ReplaceAll(strings.TrimSuffix(name, "/__init__"), "/", ".")
		if modules[name] == nil {
			modules[name] = map[string]bool{}
		}
		for _, w := range append(word.FindAllString(string(data), -1), strings.Split(name, ".")...) {
			modules[name][w], modules[""][w] = true, true
		}
	}
	return modules
}
