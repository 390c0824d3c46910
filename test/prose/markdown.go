package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	source "github.com/yuin/goldmark/text"
)

// ruleOf is the rule of a page.
func ruleOf(file string) rule {
	switch {
	case strings.HasPrefix(file, "docs/design/"), strings.HasPrefix(file, "docs/format/"),
		strings.HasPrefix(file, "docs/benchmarks"), strings.HasPrefix(file, "docs/how-to-"),
		file == "docs/development.md", file == "docs/scale.md":
		return record
	}
	return strict
}

// pages are the texts of the Markdown that users read.
func pages(root string) ([]text, error) {
	files := []string{"README.md", "python/README.md", "api/http.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			name, _ := filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []text
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		out = append(out, pageTexts(file, data)...)
	}
	return out, nil
}

// pageTexts are the paragraphs, items, headings and cells of a page.
func pageTexts(file string, data []byte) []text {
	tree := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(source.NewReader(data))
	var out []text
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		_, isCell := n.(*extast.TableCell)
		switch n.Kind() {
		case ast.KindParagraph, ast.KindTextBlock, ast.KindHeading, extast.KindTableCell:
			t := text{file: file, rule: ruleOf(file), cell: isCell || n.Kind() == ast.KindHeading}
			var words strings.Builder
			inline(n, data, &words, &t.lines)
			t.words = words.String()
			out = append(out, t)
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return out
}

// inline appends the words below a node.
func inline(n ast.Node, data []byte, words *strings.Builder, lines *[]mark) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			*lines = append(*lines, markOf(c, data, words.Len()))
			words.Write(c.Segment.Value(data))
			if c.SoftLineBreak() || c.HardLineBreak() {
				words.WriteByte(' ')
			}
		case *ast.CodeSpan:
			if code, ok := c.FirstChild().(*ast.Text); ok {
				*lines = append(*lines, markOf(code, data, words.Len()))
			}
			words.WriteString("`x`")
		case *ast.String:
			words.Write(c.Value)
		default:
			inline(c, data, words, lines)
		}
	}
}

func markOf(t *ast.Text, data []byte, offset int) mark {
	return mark{offset, 1 + bytes.Count(data[:t.Segment.Start], []byte("\n"))}
}
