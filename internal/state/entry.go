package state

import (
	"encoding/json"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
)

// Entry is an envelope as a server keeps it, with what the server notes of it.
type Entry struct {
	Envelope
	Notes
}

// Notes are for lists and for finding one's way; a reader believes the record only.
type Notes struct {
	Index      uint64      `json:"index"` // its leaf in the project's log
	ReceivedNs int64       `json:"received_ns"`
	RunID      model.RunID `json:"run_id"`
	Run        string      `json:"run"`
	Sequence   uint64      `json:"sequence"`
	Digest     Hash        `json:"hash"` // of the record
	Hotkey     string      `json:"hotkey"`
	Role       string      `json:"role"`
	// Fork: a second record with a sequence that was taken before. It is no part
	// of the history and kept as evidence.
	Fork bool `json:"fork,omitempty"`
	// Dropped: the server kept the record and let the payload go.
	Dropped bool `json:"payload_dropped,omitempty"`
	// Verdict and Reason are the server's word on a record of a history.
	Verdict Verdict `json:"verdict,omitempty"`
	Reason  string  `json:"reason,omitempty"`
}

// UnmarshalJSON reads the envelope strictly and the notes as they come.
func (e *Entry) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &e.Notes); err != nil {
		return refuse("the entry is not JSON: %v", err)
	}
	return e.Envelope.UnmarshalJSON(text)
}

// Authentic is [Envelope.Open] that takes a record whose payload the server let go.
func (e *Entry) Authentic() (*Record, error) {
	if !e.Dropped {
		return e.Open()
	}
	r, err := Decode(e.Record)
	if err != nil {
		return nil, err
	}
	return r, e.verify(r)
}

// Page is a part of a list of entries.
type Page struct {
	Entries []Entry `json:"entries"`
	// Next is where to go on: the sequence to give as after, or the index to give
	// as since.
	Next uint64 `json:"next"`
	// Size is the number of records of the project's log; 0 in a history.
	Size uint64 `json:"size,omitempty"`
	More bool   `json:"more"` // the page was full
	// Before and Tip are the hashes of the records before the page and at its end, in
	// the project's log. A reader whose last Tip is not this Before reads from the
	// start: the server was restored from a backup.
	Before Hash `json:"before,omitzero"`
	Tip    Hash `json:"tip,omitzero"`
	// Deleted are all runs of the project that are in the trash or purged, whether
	// the page has their records or not. They have no vote; one that is missing
	// here later was restored.
	Deleted []model.RunID `json:"deleted,omitempty"`
}

// Filter chooses among the newest records of a project.
type Filter struct {
	Role   string // empty: any
	Netuid *uint16
	Since  uint64 // the least index
	Limit  int
}

// Span chooses a part of a history by sequence: the records above After, or the
// newest ones below Before where that is not 0.
type Span struct {
	After, Before uint64
	Limit         int
}

// Conflict answers a record that does not follow the newest one. Its signer reads
// Head and signs again.
type Conflict struct {
	Head *Entry // nil: the server has none
}

func (c *Conflict) Error() string {
	if c.Head == nil {
		return "the server has no record of this run: the first one names no previous record"
	}
	return fmt.Sprintf("the record does not follow the newest one, sequence %d, hash %s", c.Head.Sequence, c.Head.Digest)
}
