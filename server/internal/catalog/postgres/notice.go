package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
)

// Change is what other servers did.
type Change struct {
	// Lost: some of what they did was not heard. Whatever is kept of the catalog may be out of date.
	Lost bool
	News []model.RunChange // runs with new points, or changed ones
	Keys []string          // ids of keys that were stored or revoked
	Runs []model.RunID     // those that went into the trash, came out of it or were purged
	// Records are of projects with new signed records; no run is named.
	Records []model.RunChange
}

// notice is a change on its way, in JSON.
type notice struct {
	From string        `json:"from"` // the server
	Lost bool          `json:"lost,omitempty"`
	News []news        `json:"news,omitempty"`
	Keys []string      `json:"keys,omitempty"`
	Runs []model.RunID `json:"runs,omitempty"`
}

// news are runs of one project. That of zeros stands for its signed records.
type news struct {
	Workspace string        `json:"workspace"`
	Project   string        `json:"project"`
	Runs      []model.RunID `json:"runs"`
}

// PostgreSQL takes notices of less than 8,000 bytes.
const (
	mostNotice  = 7_500
	runBytes    = 29 // a ULID in quotes, and a comma
	placeBytes  = 50 // what stands round the names of a project, which hold nothing to escape
	headerBytes = 100
)

// split divides news into notices that PostgreSQL takes. Runs of a project share its name.
func split(from string, all []model.RunChange) (out []notice) {
	type place struct{ workspace, project string }
	var order []place
	by := map[place][]model.RunID{}
	for _, c := range all {
		at := place{c.Workspace, c.Project}
		if by[at] == nil {
			order = append(order, at)
		}
		by[at] = append(by[at], c.Run)
	}
	left := 0
	for _, at := range order {
		head := placeBytes + len(at.workspace) + len(at.project)
		for runs := by[at]; len(runs) > 0; {
			if left < head+runBytes {
				out = append(out, notice{From: from})
				left = mostNotice - headerBytes
			}
			n := min(len(runs), (left-head)/runBytes)
			last := &out[len(out)-1]
			last.News = append(last.News, news{at.workspace, at.project, runs[:n]})
			left -= head + n*runBytes
			runs = runs[n:]
		}
	}
	return out
}

// payload is a notice as it is sent. One that would be too long only says that something changed.
func (n *notice) payload() (string, error) {
	text, err := json.Marshal(n)
	if err == nil && len(text) > mostNotice {
		text, err = json.Marshal(notice{From: n.From, Lost: true})
	}
	if err != nil {
		return "", fmt.Errorf("encode a notice: %w", err)
	}
	return string(text), nil
}

// heard reads a notice of another server; false for one of this server. What is none counts as
// a loss: a newer version may have said something.
func heard(self, payload string) (c Change, other bool) {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		return Change{Lost: true}, true
	}
	if n.From == self {
		return Change{}, false
	}
	c = Change{Lost: n.Lost, Keys: n.Keys, Runs: n.Runs}
	for _, p := range n.News {
		for _, run := range p.Runs {
			change := model.RunChange{Run: run, Workspace: p.Workspace, Project: p.Project}
			if run == (model.RunID{}) {
				c.Records = append(c.Records, change)
			} else {
				c.News = append(c.News, change)
			}
		}
	}
	return c, true
}
