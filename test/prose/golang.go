package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// public are the packages whose comments users read.
var public = []string{".", "read", "read/record", "metrics", "telemetry", "telemetry/influx", "chain", "netstate"}

// goTexts are the doc comments of the public packages, and the messages and help texts of
// all code that runs at a user's.
func goTexts(root string) ([]text, error) {
	var out []text
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		if d.IsDir() {
			switch name {
			case "gen", "test", "tools", "web", "docs", "python", "examples", "bin", ".git", ".venv", "internal/testkit", "internal/repository":
				return filepath.SkipDir
			}
			if d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") && name != "server/internal/store/storetest" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		g := &goFile{name: name, files: files}
		ast.Inspect(file, g.visit)
		if isPublic(name) {
			g.comments(file)
		}
		out = append(out, g.texts...)
		return nil
	})
	return out, err
}

func isPublic(name string) bool {
	folder := filepath.ToSlash(filepath.Dir(name))
	for _, p := range public {
		if p == folder {
			return true
		}
	}
	return false
}

type goFile struct {
	name  string
	files *token.FileSet
	texts []text
}

// visit takes strings that read as prose: messages, hints, help, usage of flags.
func (g *goFile) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field:
		if n.Tag != nil {
			return false
		}
	case *ast.BinaryExpr, *ast.BasicLit:
		words, isText := literal(n.(ast.Expr))
		if !isText {
			return true
		}
		g.add(n.Pos(), words, message)
		return false
	}
	return true
}

// literal is a string, also one that is put together of several; what is no literal is one word.
func literal(e ast.Expr) (words string, isText bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		words, err := strconv.Unquote(e.Value)
		return words, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, isLeft := literal(e.X)
		right, isRight := literal(e.Y)
		if !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "x"
		}
		if !isRight {
			right = "x"
		}
		return left + right, true
	}
	return "", false
}

// add takes words, a paragraph at a time; what is indented is an example.
func (g *goFile) add(at token.Pos, words string, r rule) {
	if !isProse(words) {
		return
	}
	first := g.files.Position(at).Line
	g.texts = append(g.texts, paragraphs(g.name, first, words, r)...)
}

// small are words that hardly any long sentence lacks; a list of names does.
var small = regexp.MustCompile(`(?i)\b(a|an|and|are|at|by|for|from|in|is|it|no|not|of|on|or|the|to|with)\b`)

// isProse is false for lists of names, formats, SQL and markup.
func isProse(words string) bool {
	return len(strings.Fields(words)) > 3 && !strings.ContainsAny(words, "<{\\") && !isSQL(words) &&
		strings.Count(words, ";") < 5 && small.MatchString(words)
}

func isSQL(words string) bool {
	switch first := strings.Fields(words)[0]; first {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "WITH", "PRAGMA", "REPLACE", "select", "WHERE", "AND", "FROM":
		return true
	}
	return false
}

// paragraphs cuts plain text: an empty line ends one, and so does a line that is indented, or
// that begins as an item or a table does.
func paragraphs(file string, first int, words string, r rule) []text {
	var out []text
	var t text
	flush := func() {
		if strings.TrimSpace(t.words) != "" {
			out = append(out, t)
		}
		t = text{file: file, rule: r}
	}
	flush()
	for i, line := range strings.Split(words, "\n") {
		trimmed := strings.TrimSpace(line)
		isExample := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t") || strings.Contains(trimmed, "  ")
		switch {
		case trimmed == "" || isExample:
			flush()
			continue
		case strings.HasPrefix(trimmed, "- "), strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "|"):
			flush()
		}
		t.lines = append(t.lines, mark{len(t.words), first + i})
		t.words += trimmed + " "
	}
	flush()
	return out
}

// comments takes the doc comments of what is exported.
func (g *goFile) comments(file *ast.File) {
	g.doc(file.Doc)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				g.doc(d.Doc)
			}
		case *ast.GenDecl:
			g.doc(d.Doc)
			for _, s := range d.Specs {
				g.spec(s)
			}
		}
	}
}

func (g *goFile) spec(s ast.Spec) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		g.doc(s.Doc)
		ast.Inspect(s.Type, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && (len(f.Names) == 0 || f.Names[0].IsExported()) {
				g.doc(f.Doc)
				g.doc(f.Comment)
			}
			return true
		})
	case *ast.ValueSpec:
		if s.Names[0].IsExported() {
			g.doc(s.Doc)
			g.doc(s.Comment)
		}
	}
}

func (g *goFile) doc(c *ast.CommentGroup) {
	if c == nil {
		return
	}
	first := g.files.Position(c.Pos()).Line
	g.texts = append(g.texts, paragraphs(g.name, first, c.Text(), strict)...)
}
