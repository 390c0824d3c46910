package manual

import (
	"encoding/json"
	"strings"
)

// entry is a part of a page in the index: from one heading to the next.
type entry struct {
	Page    string `json:"page"`
	Section string `json:"section,omitempty"`
	Address string `json:"address"`
	Words   string `json:"words"`
}

// index is what the script of the site searches. The decisions of contributors are not in it:
// a user who searches wants what holds.
func (s *site) index() ([]byte, error) {
	entries := []entry{}
	for _, p := range s.ordered() {
		if strings.HasPrefix(p.address, "design/0") {
			continue
		}
		for i := range p.heads {
			h := &p.heads[i]
			e := entry{Page: p.title, Address: p.Address(), Words: strings.Join(strings.Fields(h.words.String()), " ")}
			if h.Level > 1 {
				e.Section, e.Address = h.Title, e.Address+"#"+h.ID
			}
			entries = append(entries, e)
		}
	}
	return json.Marshal(entries)
}
