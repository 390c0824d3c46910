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
	return e.Signed()
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
