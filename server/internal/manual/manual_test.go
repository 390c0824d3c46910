package manual_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"

	"github.com/kymogram/kymogram/api"
	"github.com/kymogram/kymogram/docs"
	"github.com/kymogram/kymogram/server/internal/manual"
)

const root = "../../.."

type answer struct {
	code   int
	body   string
	header http.Header
}

func get(t *testing.T, h http.Handler, address string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Body.String(), w.Header()}
}

// walk calls visit for every element.
func walk(n *html.Node, visit func(n *html.Node, attributes map[string]string)) {
	if n.Type == html.ElementNode {
		attributes := map[string]string{}
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
		}
		visit(n, attributes)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, visit)
	}
}

// visited is a page: the ids that it has, and where it links.
type visited struct {
	ids   map[string]bool
	links []string
	text  string
}

func visit(t *testing.T, h http.Handler, address string) visited {
	t.Helper()
	a := get(t, h, address)
	if a.code != http.StatusOK {
		t.Fatalf("%s: %d", address, a.code)
	}
	tree, err := html.Parse(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	v := visited{ids: map[string]bool{}, text: a.body}
	walk(tree, func(n *html.Node, attributes map[string]string) {
		if id := attributes["id"]; id != "" {
			if v.ids[id] {
				t.Errorf("%s has the id %q twice", address, id)
			}
			v.ids[id] = true
		}
		for _, name := range []string{"href", "src"} {
			if link := attributes[name]; link != "" {
				v.links = append(v.links, link)
			}
		}
		for name := range attributes {
			if name == "style" || strings.HasPrefix(name, "on") {
				t.Errorf("%s: <%s %s>: the content policy forbids it", address, n.Data, name)
			}
		}
		if (n.Data == "script" || n.Data == "style") && n.FirstChild != nil {
			t.Errorf("%s has an inline %s", address, n.Data)
		}
	})
	return v
}

// Every page that is in the repository is reached from the first one, and every link of every
// page leads to a page, a heading, or a file of the repository.
func TestEveryLinkLeads(t *testing.T) {
	h := manual.New(docs.Files, api.Files)
	pages, queue := map[string]visited{}, []string{"/docs"}
	for len(queue) > 0 {
		address := queue[0]
		queue = queue[1:]
		if _, ok := pages[address]; ok {
			continue
		}
		pages[address] = visit(t, h, address)
		for _, link := range pages[address].links {
			target, _, _ := strings.Cut(link, "#")
			if isPage := strings.HasPrefix(target, "/docs") && path.Ext(target) == ""; isPage {
				queue = append(queue, target)
			}
		}
	}
	for address, p := range pages {
		for _, link := range p.links {
			checkLink(t, h, pages, address, link)
		}
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "api/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			name, _ := filepath.Rel(root, strings.TrimSuffix(file, ".md"))
			address := path.Join("/docs", strings.TrimPrefix(filepath.ToSlash(name), "docs/"))
			if _, ok := pages[address]; !ok {
				t.Errorf("no link leads to %s", address)
			}
		}
	}
}

func checkLink(t *testing.T, h http.Handler, pages map[string]visited, address, link string) {
	t.Helper()
	target, fragment, hasFragment := strings.Cut(link, "#")
	if target == "" {
		target = address
	}
	switch {
	case strings.HasPrefix(target, "https://github.com/kymogram/kymogram/blob/main/"):
		name := strings.TrimPrefix(target, "https://github.com/kymogram/kymogram/blob/main/")
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("%s links to %s, which the repository has not", address, name)
		}
	case strings.Contains(target, "://"), target == "/", target == "/icon.svg": // elsewhere, or of the page
	case get(t, h, target).code != http.StatusOK:
		t.Errorf("%s links to %s: %d", address, target, get(t, h, target).code)
	case hasFragment && !pages[target].ids[fragment]:
		t.Errorf("%s links to %s, which has no such heading", address, link)
	}
}

// The words of each page are in the index, at an address that has them.
func TestTheIndexHasEveryPage(t *testing.T) {
	h := manual.New(docs.Files, api.Files)
	var index []struct{ Page, Section, Address, Words string }
	if err := json.Unmarshal([]byte(get(t, h, "/docs/search.json").body), &index); err != nil {
		t.Fatal(err)
	}
	pages, has := map[string]visited{}, map[string]bool{}
	for _, e := range index {
		address, fragment, isPart := strings.Cut(e.Address, "#")
		if _, ok := pages[address]; !ok {
			pages[address] = visit(t, h, address)
		}
		if isPart && !pages[address].ids[fragment] {
			t.Errorf("the index leads to %s, which has no such heading", e.Address)
		}
		has[e.Address] = true
		if e.Page == "" || isPart != (e.Section != "") {
			t.Errorf("an entry without a title: %+v", e)
		}
	}
	// What a reader looks for: words of the files, found by reading them.
	for words, address := range map[string]string{
		"KYMOGRAM_RUN_ID":    "/docs/guides/distributed",
		"SELECT":             "/docs/influx",
		"write_relabel":      "/docs/prometheus",
		"/api/v1/edits":      "/docs/api/http",
		"KYMOGRAM_SPOOL_DIR": "/docs/python",
	} {
		found := false
		for _, e := range index {
			page, _, _ := strings.Cut(e.Address, "#")
			found = found || page == address && strings.Contains(e.Words, words)
		}
		source, err := os.ReadFile(filepath.Join(root, sourceOf(address)))
		if err != nil {
			t.Fatal(err)
		}
		if !found && strings.Contains(string(source), words) {
			t.Errorf("%s has %q, the index does not", address, words)
		}
	}
}

func sourceOf(address string) string {
	name := strings.TrimPrefix(address, "/docs/")
	if strings.HasPrefix(name, "api/") {
		return name + ".md"
	}
	return path.Join("docs", name+".md")
}

func TestAnswers(t *testing.T) {
	h := manual.New(docs.Files, api.Files)
	for address, want := range map[string]string{"/docs/": "/docs", "/docs/python.md": "/docs/python", "/docs/guides/ml/": "/docs/guides/ml"} {
		if a := get(t, h, address); a.code != http.StatusMovedPermanently || a.header.Get("Location") != want {
			t.Errorf("%s: %d to %q, want a redirect to %s", address, a.code, a.header.Get("Location"), want)
		}
	}
	for _, address := range []string{"/docs/nothing", "/docs/../../etc/passwd", "/docs/embed.go", "/docs//evil.example/"} {
		a := get(t, h, address)
		if a.code != http.StatusNotFound || !strings.Contains(a.body, `href="/docs/python"`) {
			t.Errorf("%s: %d, and a list of pages: %t", address, a.code, strings.Contains(a.body, `href="/docs/python"`))
		}
	}
	a := get(t, h, "/docs/python")
	again := get(t, h, "/docs/python", "If-None-Match", a.header.Get("Etag"))
	if again.code != http.StatusNotModified || again.body != "" {
		t.Errorf("the same page again: %d, %d bytes", again.code, len(again.body))
	}
	packed := get(t, h, "/docs/python", "Accept-Encoding", "gzip")
	if packed.header.Get("Content-Encoding") != "gzip" || len(packed.body)*2 > len(a.body) {
		t.Errorf("compressed: %q, %d of %d bytes", packed.header.Get("Content-Encoding"), len(packed.body), len(a.body))
	}
}

// HTML and addresses of scripts in Markdown never reach a browser as such.
func TestMarkdownIsNoHTML(t *testing.T) {
	hostile := fstest.MapFS{"evil.md": {Data: []byte("# <img src=x onerror=alert(1)>\n\n<script>alert(1)</script>\n\n[a](javascript:alert(1)) `</code><script>`\n\n```html\n<script>alert(2)</script>\n```\n")}}
	body := get(t, manual.New(hostile, fstest.MapFS{}), "/docs/evil").body
	if strings.Contains(body, "<script>") || strings.Contains(body, "<img src=x") || strings.Contains(body, `href="javascript:`) {
		t.Error(body)
	}
}

// The site has the colours of the page.
func TestColours(t *testing.T) {
	ours, err := os.ReadFile("asset/site.css")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(filepath.Join(root, "web/src/style/page.css"))
	if err != nil {
		t.Fatal(err)
	}
	colour := regexp.MustCompile(`--[a-z-]+: #[0-9a-f]{6};`)
	mine := colour.FindAllString(string(ours), -1)
	if len(mine) < 18 {
		t.Fatalf("%d colours", len(mine))
	}
	for _, c := range mine {
		if !strings.Contains(string(theirs), c) {
			t.Errorf("the page has no %s", c)
		}
	}
}
