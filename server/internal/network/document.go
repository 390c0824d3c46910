package network

import (
	"math"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/report"
	"github.com/kymogram/kymogram/internal/state"
)

// Document is a project's network at one moment. docs/network.md describes it.
type Document struct {
	Workspace string  `json:"workspace"`
	Project   string  `json:"project"`
	Netuid    *uint16 `json:"netuid"` // null: no record names a subnet
	Netuids   []int   `json:"netuids"`
	// Index is how many records of the project's log this is of.
	Index uint64 `json:"index"`
	// Judging is nil when all records were judged; else the next answer knows more.
	Judging    *Judging    `json:"judging,omitempty"`
	TimeMs     int64       `json:"time_ms"`
	Chain      *ChainState `json:"chain"` // null: the server knows no chain
	GPUs       []GPU       `json:"gpus"`
	Miners     []Miner     `json:"miners"`
	Validators []Validator `json:"validators"`
	Findings   []Finding   `json:"findings"`
	LeftOut    LeftOut     `json:"left_out"`
}

// Judging is how far the judging of a large project is, in records.
type Judging struct {
	Done uint64 `json:"done"`
	Of   uint64 `json:"of"`
}

// ChainState says how new the chain's part is.
type ChainState struct {
	Block uint64 `json:"block"`
	Error string `json:"error,omitempty"`
}

// GPU is a kind of hardware that reports name: [name, number].
type GPU report.GPU

// MarshalJSON writes a pair.
func (g GPU) MarshalJSON() ([]byte, error) {
	out := append(model.AppendJSONText([]byte{'['}, g.Name), ',')
	return append(strconv.AppendInt(out, int64(g.Count), 10), ']'), nil
}

// Node is what the newest record of a node says of the node itself.
type Node struct {
	Hotkey    string        `json:"hotkey"`
	UID       *uint16       `json:"uid"`
	RunID     string        `json:"run_id"` // empty: reported by others, without a run
	Run       string        `json:"run"`
	Verdict   state.Verdict `json:"verdict"`
	Reason    string        `json:"reason"`
	Sequence  uint64        `json:"sequence"`
	Block     uint64        `json:"block"`
	TimeMs    uint64        `json:"time_ms"`
	ExpiresMs uint64        `json:"expires_ms"`
	Version   *int64        `json:"version"`
	Endpoint  *Endpoint     `json:"endpoint"`
}

// Endpoint is what the chain has registered for a hotkey.
type Endpoint struct {
	Address string `json:"address"`
	Block   uint64 `json:"block"`
	Answers *bool  `json:"answers"` // null: not tried
	Error   string `json:"error,omitempty"`
}

// Miner is a row.
type Miner struct {
	Node
	Allocated string  `json:"allocated"`
	PortOpen  *bool   `json:"port_open"`
	Result    *Result `json:"result"`
}

// Result is the report that most votes carry; package report has the rule.
type Result struct {
	Hotkey      string  `json:"hotkey"` // which the report is of: it may be another than the row's
	Score       float64 `json:"score"`
	GPU         int     `json:"gpu"` // in Document.GPUs, -1 for none
	Reliability float64 `json:"reliability_score"`
	CreatedAt   string  `json:"created_at"`
	Carried     []int   `json:"carried"` // places in Document.Validators
	Against     int     `json:"against"` // votes for another report
}

// Validator is a column: its own state, and its report on each miner in order.
type Validator struct {
	Node
	Stake   *float64 `json:"stake"` // in tokens; null: unknown
	Counted bool     `json:"counted"`
	Notes   []string `json:"notes"`
	Agrees  int      `json:"agrees"`
	Differs int      `json:"differs"`
	Index   uint64   `json:"index"`
	Scores  scores   `json:"scores"`
	Flags   numbers  `json:"flags"`
	GPUs    numbers  `json:"gpus"`
}

// The bits of a report's flags.
const (
	flagOwn = 1 << iota
	flagAllocated
	flagOtherHotkey // it names another hotkey than the row's
	flagDiffers     // it has a vote, and the result is another one
)

// scores are NaN, written as null, where there is no report.
type scores []float64

// MarshalJSON writes a list.
func (s scores) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 8*len(s)+2), '[')
	for i, v := range s {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(v) {
			out = append(out, "null"...)
		} else {
			out = model.AppendJSONFloat(out, v)
		}
	}
	return append(out, ']'), nil
}

type numbers []int16

// Finding is something that a person should look at, with a name to it.
type Finding struct {
	Kind   string `json:"kind"` // a verdict, double_vote, dissent or other_hotkey
	Role   string `json:"role"`
	Hotkey string `json:"hotkey"`
	RunID  string `json:"run_id"`
	Text   string `json:"text"`
}

// LeftOut counts what did not fit the answer.
type LeftOut struct {
	Miners     int `json:"miners"`
	Validators int `json:"validators"`
}
