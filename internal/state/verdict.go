package state

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Verdict is what a reader may think of a record, in one word.
type Verdict string

// The verdicts.
const (
	// Verified: signed by this hotkey for this place, fresh, and newer than all
	// that was seen before.
	Verified Verdict = "verified"
	// Legacy: only the old signature of the run's id holds. The content is not
	// covered by it.
	Legacy Verdict = "legacy"
	// Broken: form, signature, payload, place or order is wrong.
	Broken Verdict = "broken"
	// Stale: expired, of an old block, or of another time than now.
	Stale Verdict = "stale"
	// SharedKey: another machine signed the same sequence, and nothing that both
	// say contradicts.
	SharedKey Verdict = "shared_key"
	// Equivocated: the hotkey signed two records with one sequence that contradict.
	Equivocated Verdict = "equivocated"
	// Rollback: the server shows less than was seen before. It was restored from a
	// backup, or it hides records; the signer did nothing wrong.
	Rollback Verdict = "rollback"
	// Unregistered: the hotkey is not on the subnet, or has no permit.
	Unregistered Verdict = "unregistered"
)

// Trusted reports whether the content may be used.
func (v Verdict) Trusted() bool { return v == Verified || v == SharedKey }

// Judgement is a verdict with its reason.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"`          // one sentence for a person
	Record  *Record `json:"record"`          // nil when no record could be read
	Hash    Hash    `json:"hash"`            // of the record's bytes
	Payload []byte  `json:"-"`               // the signed bytes; nil unless trusted
	Proof   *Proof  `json:"proof,omitempty"` // of an equivocation or a shared key
}

// Expect is what a reader knows of the place before it reads. An empty Run, Role
// or Hotkey allows any; the rest must be given, or Anywhere be set.
type Expect struct {
	Anywhere  bool // judge a file whose place nobody knows: the record's own counts
	Genesis   Hash
	Netuid    uint16
	Workspace string
	Project   string
	Run       string
	Role      string
	Hotkey    *wallet.Account
}

// Check reports where a record of another place was meant to be.
func (x *Expect) Check(p Place) error {
	switch {
	case x.Anywhere:
		return nil
	case p.Genesis != x.Genesis:
		return moved("chain", p.Genesis.String(), x.Genesis.String())
	case p.Netuid != x.Netuid:
		return moved("subnet", p.Netuid, x.Netuid)
	case p.Workspace != x.Workspace:
		return moved("workspace", p.Workspace, x.Workspace)
	case p.Project != x.Project:
		return moved("project", p.Project, x.Project)
	case x.Run != "" && p.Run != x.Run:
		return moved("run", p.Run, x.Run)
	case x.Role != "" && p.Role != x.Role:
		return moved("role", p.Role, x.Role)
	case x.Hotkey != nil && p.Hotkey != *x.Hotkey:
		return moved("hotkey", p.Hotkey, *x.Hotkey)
	}
	return nil
}

func moved(what string, signed, here any) error {
	return refuse("it was signed for the %s %v and is shown here for %v: a record moved from its place", what, signed, here)
}

// Clock is what a reader knows of the time. Skew is how far two honest clocks may
// differ.
type Clock struct {
	Now       time.Time
	Skew      time.Duration // default 5 minutes
	Block     uint64        // of the chain now; 0: no chain
	MaxBlocks uint64        // how old a record may be in blocks; 0: any
}

// DefaultSkew is how far clocks may differ unless a reader says otherwise.
const DefaultSkew = 5 * time.Minute

// Check reports why a record is not of now.
func (c Clock) Check(r *Record) error {
	if err := c.ahead(r); err != nil {
		return err
	}
	if late := c.Now.Sub(r.Expires()); late > 0 {
		return refuse("it expired %s ago, at %s: its signer is silent, or this clock is ahead", round(late), r.Expires().UTC().Format(time.RFC3339))
	}
	switch {
	case c.MaxBlocks == 0 || c.Block == 0:
		return nil
	case r.Block == 0:
		return refuse("it names no block, and this reader has a chain")
	case r.Block+c.MaxBlocks < c.Block:
		return refuse("it was signed at block %d, %d blocks ago; %d are allowed", r.Block, c.Block-r.Block, c.MaxBlocks)
	}
	return nil
}

// ahead reports a record of the future.
func (c Clock) ahead(r *Record) error {
	skew := c.Skew
	if skew == 0 {
		skew = DefaultSkew
	}
	if by := r.Time().Sub(c.Now); by > skew {
		return refuse("it was signed %s ahead of this clock: the signer's clock or this one is wrong", round(by))
	}
	if c.Block > 0 && r.Block > c.Block+blocks(skew) {
		return refuse("it was signed at block %d, ahead of the chain's %d", r.Block, c.Block)
	}
	return nil
}

// blocks are those that the chain makes in a time, 12 s each.
func blocks(d time.Duration) uint64 { return uint64(d/(12*time.Second)) + 1 }

func round(d time.Duration) string {
	if d < time.Second {
		return duration.Text(d)
	}
	return duration.Text(d.Round(time.Second))
}

// CheckLegacy judges the old signature: sr25519 over the SHA-256 of the run's
// name, in hexadecimal. It covers no content, so it is never trusted alone.
func CheckLegacy(hotkey wallet.Account, run, signature string) Judgement {
	var s Signature
	if err := s.UnmarshalText([]byte(signature)); err != nil {
		return Judgement{Verdict: Broken, Reason: "the old signature is not 128 hexadecimal characters"}
	}
	digest := sha256.Sum256([]byte(run))
	if !wallet.Verify(hotkey, digest[:], s) {
		return Judgement{Verdict: Broken, Reason: fmt.Sprintf("the old signature is not one of hotkey %s over run %q", hotkey, model.Clip(run))}
	}
	return Judgement{Verdict: Legacy, Reason: "hotkey " + hotkey.String() + " signed the run's id once; the content can be anybody's"}
}

// SignLegacy makes the old signature, for readers that know no other.
func SignLegacy(run string, signer Signer) (string, error) {
	digest := sha256.Sum256([]byte(run))
	signature, err := signer.Sign(digest[:])
	if err != nil {
		return "", err
	}
	text, err := Signature(signature).MarshalText()
	return string(text), err
}
