package model

import "strconv"

// Uniqueness says when two points of one series are the same point, so that the
// later replaces the earlier (docs/design/points.md, "The same point, door by door").
type Uniqueness uint8

// The rules of uniqueness.
const (
	// UniqueAxes: same writer (or pinned logger), attempt and all axes.
	UniqueAxes Uniqueness = 0
	// UniqueTime: same time in nanoseconds, whoever wrote it (Influx, remote write).
	UniqueTime Uniqueness = 1
	// UniqueStep: same step, whoever wrote it (lines of a console).
	UniqueStep Uniqueness = 2
)

// Batch is what one writer says in one message: taken whole or not at all.
//
// A native batch carries sequences: First = mark + 1 → stored and the mark moves
// to Last in the same WAL record; Last ≤ mark → acked, nothing stored; anything
// else is refused with CodeGap and the mark. Foreign receivers leave First and
// Last zero: the batch is stored and no mark is kept.
type Batch struct {
	Run     RunID
	Writer  WriterID
	Attempt uint32 // number of the attempt, as Open returned it
	First   uint64
	Last    uint64
	// Skipped ranges lie inside First…Last: numbers that can never be sent.
	Skipped []Skipped
	Groups  []RowGroup
	Updates []Update
	// Unreadable are the sequences of updates that the receiver could not read;
	// ingest refuses their records.
	Unreadable []uint64
}

// Points counts the values of all groups.
func (b *Batch) Points() int {
	n := 0
	for i := range b.Groups {
		n += b.Groups[i].Rows() * len(b.Groups[i].Columns)
	}
	return n
}

// Skipped is a range of sequence numbers without a record.
type Skipped struct {
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Reason string `json:"reason"` // torn, quarantined, dropped, restored
	// Points that were in the range, when known.
	Points uint64 `json:"points,omitempty"`
}

// RowGroup is a block of rows that share their axes: each axis and the time
// once, then one column of values a series. All columns have Rows() entries.
type RowGroup struct {
	Unique Uniqueness
	Axes   []AxisColumn // in the order of Axes(), each axis at most once
	TimeNs []int64      // Unix nanoseconds
	Seq    []uint64     // sequence of the record a row came from; nil for foreign writers
	// Turn is the place of each row among those of a batch without sequences. All groups
	// have it, or none: then the rows of a group come after those of the group before.
	Turn    []uint32
	Columns []Column
}

// Rows is the number of rows.
func (g *RowGroup) Rows() int { return len(g.TimeNs) }

// AxisColumn is one axis of a [RowGroup].
type AxisColumn struct {
	Axis   Axis
	Values []int64
	// Relative: the values are +k (0, 1, …) after a start that the store fixes
	// once per (writer, series), for ENVIRONMENT_STEP series per (writer,
	// series, episode): 1 + the last step of the curve, 0 when there is none. A
	// least k of 1 there counts from 1: the start is 1 less, unless there is none.
	Relative bool
}

// Column holds the values of one series, by Kind in exactly one of the slices.
type Column struct {
	Series SeriesKey
	// Text is that of Series, where it is known already: many columns of a batch may be of
	// one series. Else it is empty.
	Text string
	// Place is 1 and the place that the store found the series in when these names came in
	// an earlier batch, 0 where it did not. It saves looking them up and checking them again.
	Place  uint32
	Kind   Kind
	Floats []float64
	Ints   []int64
	Texts  []string // text
	Docs   [][]byte // histogram, scatter
}

// Len is the number of values.
func (c *Column) Len() int {
	switch c.Kind {
	case KindFloat:
		return len(c.Floats)
	case KindInt:
		return len(c.Ints)
	case KindText:
		return len(c.Texts)
	}
	return len(c.Docs)
}

// UpdateOp says what an [Update] does.
type UpdateOp string

// The operations.
const (
	OpSetAttribute    UpdateOp = "set_attribute"     // Path, Value; nil Value removes
	OpSetEnvAttribute UpdateOp = "set_env_attribute" // Env, Episode, Path, Value
	OpSetTags         UpdateOp = "set_tags"
	OpAddTags         UpdateOp = "add_tags"
	OpRemoveTags      UpdateOp = "remove_tags"
	OpSetDescription  UpdateOp = "set_description"  // Text
	OpSetDisplayName  UpdateOp = "set_display_name" // Text
	OpLog             UpdateOp = "event"            // an event: Path is its name, Text its text, Value its tags
	OpRendering       UpdateOp = "rendering"        // Rendering
	OpClose           UpdateOp = "close"            // Text is the status: finished or failed
	OpGone            UpdateOp = "gone"             // the writer's process ended without a close
	OpDropped         UpdateOp = "dropped"          // Count points were dropped by the client, Text is the reason
	OpRefused         UpdateOp = "refused"          // Count points were refused by ingest; never sent by a client
	OpSetTree         UpdateOp = "set_tree"         // Path is the tree's name, Text its JSON; "" removes; only from receivers
	OpSetFile         UpdateOp = "set_file"         // Path is the file's name, File says what it is; nil removes; only from receivers
	OpShared          UpdateOp = "shared"           // Env is logged by Other too, at the same time; found by ingest, never sent by a client
)

// ThisAttempt is the path by which a client says what its attempt is, as a set of PATH=VALUE:
// it may not know its number yet. The attribute is kept as attempts/N.
const ThisAttempt = "attempts/this"

// AttemptPath is the attribute that says what an attempt is.
func AttemptPath(number uint32) string { return "attempts/" + strconv.FormatUint(uint64(number), 10) }

// Update changes a run without being a point. Updates travel through the WAL
// and are applied to the catalog idempotently, in order.
type Update struct {
	Op      UpdateOp `json:"op"`
	Seq     uint64   `json:"seq,omitempty"`
	TimeNs  int64    `json:"time_ns,omitempty"`
	Path    string   `json:"path,omitempty"`
	Value   *Value   `json:"value,omitempty"`
	Env     string   `json:"env,omitempty"`
	Episode *int64   `json:"episode,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Text    string   `json:"text,omitempty"`
	Count   uint64   `json:"count,omitempty"`
	// Initial: a value under config/ that init was given and the open had no room
	// for. It counts as if it were in the open (OpenRequest.Initial).
	Initial bool `json:"initial,omitempty"`
	// Signal of a close (its text is then failed, for servers that do not know this
	// field) or of a gone: what ended the process, SIGINT or SIGTERM.
	Signal string `json:"signal,omitempty"`

	Rendering *Rendering `json:"rendering,omitempty"`
	File      *RunFile   `json:"file,omitempty"`
	Other     *WriterID  `json:"other,omitempty"`
}

// Refusal names a record that will never be taken.
type Refusal struct {
	Seq     uint64 `json:"seq"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Ack answers a batch. Everything up to Mark is durable or refused for good.
type Ack struct {
	Mark uint64
	// Stored counts the points of this batch that were written, 0 for a repeat.
	Stored  uint64
	Refused []Refusal
	// Shared names environments that another writer logs too, each once a session.
	Shared []SharedWith
	// LSN is the position of the WAL record, 0 when nothing was written.
	LSN uint64
}
