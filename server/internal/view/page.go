package view

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The limits of a page. Its lists may be longer than those of panels.
const (
	MaxPageList = 2_000
	maxSections = 200
	maxParams   = 100
)

// page is what this version knows of a document's page field: how the page of the project shows
// its runs and charts. The text is stored as it came, so that fields of newer versions are kept.
type page struct {
	// Params are the parameters of the page's address.
	Params map[string]string `json:"params"`
	// Pinned are metrics whose charts come first.
	Pinned   []string  `json:"pinned"`
	Sections []section `json:"sections"`
	// Order has the sections that come first, Folded those that show only their name.
	Order  []string `json:"order"`
	Folded []string `json:"folded"`
}

// section holds charts in the order of the reader.
type section struct {
	Title string `json:"title"`
	// Made sections are those of a reader. The others are of all metrics with a prefix.
	Made    bool     `json:"made"`
	Metrics []string `json:"metrics"`
}

func (d *Document) checkPage() error {
	if len(d.Panels) > 0 {
		return invalid("page", "is there, and panels too: a view has one of the two")
	}
	if d.Last != "" || d.Axes != nil {
		return invalid("page", "is there, and last or axes too: these are for panels")
	}
	if d.Page[0] != '{' {
		return invalid("page", "must be an object")
	}
	var p page
	if err := json.Unmarshal(d.Page, &p); err != nil {
		return invalid("", "the page of the view is not the JSON expected: %s", err)
	}
	return p.check()
}

func (p *page) check() error {
	if len(p.Params) > maxParams {
		return invalid("page.params", "has %d entries, the most is %d", len(p.Params), maxParams)
	}
	if len(p.Sections) > maxSections {
		return invalid("page.sections", "has %d entries, the most is %d", len(p.Sections), maxSections)
	}
	type named struct {
		title string
		made  bool
	}
	seen := map[named]bool{}
	for i, s := range p.Sections {
		at := fmt.Sprintf("page.sections[%d]", i)
		if s.Made && strings.TrimSpace(s.Title) == "" {
			return invalid(at+".title", "is empty")
		}
		if s.Made {
			if err := checkText(at+".title", s.Title, maxTitle); err != nil {
				return err
			}
		}
		if seen[named{s.Title, s.Made}] {
			return invalid(at, "is %q a second time", s.Title)
		}
		seen[named{s.Title, s.Made}] = true
	}
	return nil
}
