package manual

import (
	"bytes"
	"html/template"
	"slices"
	"strings"
)

// missing is the address of the page for what is not there.
const missing = "404"

// sections are the navigation, in the order in which a new user needs them. A page that none
// of them lists is in the section of its folder, or in the last one.
var sections = []section{
	{Title: "Start", Names: []string{"start", "words", "python", "go", "guides/ml", "guides/rl", "guides/distributed", "guides/crash-safety", "names", "console"}},
	{Title: "Look", Names: []string{"guides/charts", "guides/compare", "guides/table", "guides/filter", "guides/kymograph", "terminal", "mcp", "dashboards"}},
	{Title: "Bring your data", Names: []string{"guides/migrate-wandb", "wandb", "guides/migrate-tensorboard", "guides/migrate-mlflow", "guides/migrate-neptune", "guides/migrate-metrana", "import"}},
	{Title: "Other clients", Names: []string{"influx", "opentelemetry", "prometheus-remote-write", "prometheus", "guides/metrics", "endpoint", "telemetry", "guides/templar-queries"}},
	{Title: "Run a server", Names: []string{"server", "limits", "login", "data", "deploy", "release", "platforms", "scale", "scale-out"}},
	{Title: "Subnets", Names: []string{"network", "netstate", "chain", "state"}},
	{Title: "Reference", Names: []string{"python-reference", "api/http", "benchmarks", "benchmarks-client"}},
	{Title: "More"},
	{Title: "File formats", Folder: "format/"},
	{Title: "Contribute", Names: []string{"development", "how-to-add-a-receiver", "how-to-add-an-engine"}, Folder: "design/"},
}

type section struct {
	Title  string
	Names  []string
	Folder string // whose other pages it has, too
	Pages  []*page
}

// site is all pages in their sections.
type site struct{ sections []section }

func arrange(pages []*page) *site {
	left := map[string]*page{}
	for _, p := range pages {
		left[p.address] = p
	}
	s := &site{sections: slices.Clone(sections)}
	for i := range s.sections {
		for _, name := range s.sections[i].Names {
			if p := left[name]; p != nil {
				s.sections[i].Pages = append(s.sections[i].Pages, p)
				delete(left, name)
			}
		}
	}
	slices.SortFunc(pages, func(a, b *page) int { return strings.Compare(a.address, b.address) })
	for _, p := range pages {
		if left[p.address] == nil {
			continue
		}
		at := slices.IndexFunc(s.sections, func(one section) bool { return one.Folder != "" && strings.HasPrefix(p.address, one.Folder) })
		if at < 0 {
			at = slices.IndexFunc(s.sections, func(one section) bool { return one.Title == "More" })
		}
		s.sections[at].Pages = append(s.sections[at].Pages, p)
	}
	s.sections = slices.DeleteFunc(s.sections, func(one section) bool { return len(one.Pages) == 0 })
	return s
}

// ordered are the pages as the navigation lists them.
func (s *site) ordered() (out []*page) {
	for _, one := range s.sections {
		out = append(out, one.Pages...)
	}
	return out
}

// Address and the others are for the frame.
func (p *page) Address() string     { return Root + "/" + p.address }
func (p *page) Title() string       { return p.title }
func (p *page) Summary() string     { return p.summary }
func (p *page) Body() template.HTML { return p.body }

// Contents are the headings of the second level.
func (p *page) Contents() (out []*head) {
	for i := range p.heads {
		if p.heads[i].Level == 2 {
			out = append(out, &p.heads[i])
		}
	}
	return out
}

var frame = template.Must(template.ParseFS(templates, "asset/frame.html"))

// view is what the frame shows: a page, the list of all, or that there is none.
type view struct {
	Title          string
	Sections       []section
	Page           *page
	Previous, Next *page
	IsMissing      bool
}

func execute(v view) ([]byte, error) {
	var out bytes.Buffer
	err := frame.Execute(&out, v)
	return out.Bytes(), err
}

func (s *site) page(p *page) ([]byte, error) {
	v := view{Title: p.title, Sections: s.sections, Page: p}
	all := s.ordered()
	at := slices.Index(all, p)
	if at > 0 {
		v.Previous = all[at-1]
	}
	if at+1 < len(all) {
		v.Next = all[at+1]
	}
	return execute(v)
}

func (s *site) first() ([]byte, error) {
	return execute(view{Title: "Documentation", Sections: s.sections})
}

func (s *site) missing() ([]byte, error) {
	return execute(view{Title: "No such page", Sections: s.sections, IsMissing: true})
}
