package state

import "github.com/kymogram/kymogram/internal/model"

// Page is a part of a list of entries.
type Page struct {
	Entries []Entry `json:"entries"`
	// Next is where to go on: the sequence to give as after, or the index to give
	// as since.
	Next uint64 `json:"next"`
	// Size is the number of records of the project's log; 0 in a history.
	Size uint64 `json:"size,omitempty"`
	More bool   `json:"more"` // the page was full
	// Evidence are the sequences signed twice whose second record has an index from
	// since on and before Next; of one run those that speak against its newest record.
	// A server that sends none says so with an empty list; nil: it knows no evidence.
	Evidence []Evidence `json:"evidence,omitzero"`
	// Chain is [ChainEvidence] over all second records before Next, in their order,
	// which a reader compares with what it was sent: evidence that was withheld once
	// is asked for again.
	Chain Hash `json:"evidence_chain,omitzero"`
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

// Follows refuses a page of a project's list that no honest server gives to who reads
// from since: its reader would wait for what never comes, or never come to an end.
func (p *Page) Follows(since uint64) error {
	switch {
	case p.Next < since || p.Next > MaxNumber:
		return refuse("the server's answer is wrong: the list from record %d on continues at record %d", since, p.Next)
	case p.More && (p.Next == since || len(p.Entries)+len(p.Evidence) == 0):
		return refuse("the server's answer is wrong: the list from record %d on has nothing and says that there is more", since)
	}
	return nil
}

// Filter chooses among the newest records of a project.
type Filter struct {
	Role   string // empty: any
	Netuid *uint16
	Since  uint64 // the least index
	Limit  int
	Bare   bool // without payloads, also of the evidence
}

// Span chooses a part of a history by sequence: the records above After, or the
// newest ones below Before where that is not 0.
type Span struct {
	After, Before uint64
	Limit         int
}

// Evidence is a second record with a sequence that was taken before, and the first.
type Evidence struct {
	RunID model.RunID `json:"run_id"`
	Proof
}

// ChainEvidence is the hash over all second records up to one, from that over those
// before it, zeros for none.
func ChainEvidence(before, second Hash) Hash { return HashOf(append(before[:], second[:]...)) }

// Newest is the newest record of a run, nil for none, with what speaks against it.
type Newest struct {
	Head     *Entry     `json:"head"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Proofs are those of the evidence.
func (n *Newest) Proofs() []Proof {
	out := make([]Proof, len(n.Evidence))
	for i := range n.Evidence {
		out[i] = n.Evidence[i].Proof
	}
	return out
}
