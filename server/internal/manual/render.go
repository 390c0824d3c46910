package manual

import (
	"bytes"
	"html/template"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository has what the pages link to and the site does not show.
const repository = "https://github.com/kymogram/kymogram/blob/main/"

// page is a page that is rendered, without its frame.
type page struct {
	address string // below Root
	title   string
	summary string // the first sentence
	body    template.HTML
	heads   []head // with what stands below them
}

// head is a heading and the words below it, for the page's contents and the search.
type head struct {
	Level     int
	ID, Title string
	words     strings.Builder
}

// render makes a page of the file's Markdown. HTML in it is shown as text.
func render(name string, source []byte, files map[string][]byte) (*page, error) {
	p := &page{address: strings.TrimSuffix(name, ".md")}
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithXHTML()),
	)
	context := parser.NewContext(parser.WithIDs(&slugs{seen: map[string]bool{}}))
	tree := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))
	err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			p.visit(n, source, name, files)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, tree); err != nil {
		return nil, err
	}
	p.body = template.HTML(out.String()) //nolint:gosec // of our own Markdown, whose HTML goldmark leaves out
	return p, nil
}

// visit notes headings and words, and points links to the site.
func (p *page) visit(n ast.Node, source []byte, name string, files map[string][]byte) {
	switch n := n.(type) {
	case *ast.Heading:
		p.heading(n, source)
	case *ast.Paragraph, *ast.TextBlock:
		if p.summary == "" && n.Kind() == ast.KindParagraph {
			p.summary = firstSentence(plain(n, source))
		}
		p.note(plain(n, source))
	case *ast.FencedCodeBlock:
		p.note(string(n.Lines().Value(source)))
	case *ast.Link:
		n.Destination = []byte(resolve(name, string(n.Destination), files))
	case *ast.Image:
		n.Destination = []byte(resolve(name, string(n.Destination), files))
	default:
		if n.Kind().String() == "TableCell" {
			p.note(plain(n, source))
		}
	}
}

func (p *page) note(words string) {
	if len(p.heads) > 0 {
		at := &p.heads[len(p.heads)-1].words
		at.WriteString(words)
		at.WriteByte(' ')
	}
}

func (p *page) heading(n *ast.Heading, source []byte) {
	title := plain(n, source)
	id, _ := n.AttributeString("id")
	slug, _ := id.([]byte)
	p.heads = append(p.heads, head{Level: n.Level, ID: string(slug), Title: title})
	if n.Level == 1 {
		p.title = title
		return
	}
	link := ast.NewLink()
	link.Destination = []byte("#" + string(slug))
	link.SetAttributeString("class", []byte("anchor"))
	link.SetAttributeString("aria-label", []byte("Link to “"+title+"”"))
	link.AppendChild(link, ast.NewString([]byte("#")))
	n.AppendChild(n, link)
}

// plain are the words of a node, as they are read.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

func firstSentence(words string) string {
	if end := strings.Index(words, ". "); end >= 0 {
		words = words[:end+1]
	}
	return strings.TrimSuffix(words, ":")
}

// resolve is a link of a page as one of the site, or of the repository.
func resolve(name, link string, files map[string][]byte) string {
	target, fragment, hasFragment := strings.Cut(link, "#")
	if target == "" || strings.Contains(target, ":") {
		return link
	}
	folder := "docs"
	if strings.HasPrefix(name, "api/") {
		folder = ""
	}
	inRepository := path.Join(folder, path.Dir(name), target)
	address, isDocs := strings.CutPrefix(inRepository, "docs/")
	if !isDocs && strings.HasPrefix(inRepository, "api/") {
		address, isDocs = inRepository, true
	}
	out := repository + inRepository
	if _, ok := files[address]; ok && isDocs {
		out = path.Join(Root, strings.TrimSuffix(address, ".md"))
	}
	if hasFragment {
		out += "#" + fragment
	}
	return out
}

// slugs names headings as the hosts of repositories do, so that a link holds in both places.
type slugs struct{ seen map[string]bool }

func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, string(value))
	id := slug
	for i := 1; s.seen[id]; i++ {
		id = slug + "-" + strconv.Itoa(i)
	}
	s.seen[id] = true
	return []byte(id)
}

func (s *slugs) Put(value []byte) { s.seen[util.BytesToReadOnlyString(value)] = true }
