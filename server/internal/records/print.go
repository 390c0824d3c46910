package records

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Judged is a record and what a reader may think of it.
type Judged struct {
	*state.Entry
	Judgement state.Judgement
}

// Document is a judged record as JSON.
type Document struct {
	state.Judgement
	Run      string      `json:"run"`
	RunID    string      `json:"run_id"`
	Envelope state.Entry `json:"entry"`
}

// Document is the JSON form of a judged record.
func (j *Judged) Document() Document {
	return Document{j.Judgement, j.Run, j.RunID.String(), *j.Entry}
}

// Documents are those of a list.
func Documents(list []Judged) []Document {
	out := make([]Document, len(list))
	for i := range list {
		out[i] = list[i].Document()
	}
	return out
}

// paint colours a verdict for a terminal.
func paint(v state.Verdict, colour bool) string {
	if !colour {
		return string(v)
	}
	code := "31" // red
	switch v {
	case state.Verified:
		code = "32"
	case state.Stale, state.Legacy, state.SharedKey:
		code = "33"
	}
	return "\x1b[" + code + "m" + string(v) + "\x1b[0m"
}

// PrintRecord shows one record, field by field, and its payload.
func PrintRecord(out io.Writer, j *Judged, colour bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("verdict", "%s", paint(j.Judgement.Verdict, colour))
	line("reason", "%s", table.Printable(j.Judgement.Reason))
	if r := j.Judgement.Record; r != nil {
		line("hotkey", "%s", r.Hotkey)
		line("role", "%s", r.Role)
		line("place", "subnet %d, %s/%s/%s", r.Netuid, r.Workspace, r.Project, r.Run)
		line("sequence", "%d", r.Sequence)
		line("signed", "%s, block %d", r.Time().UTC().Format(time.RFC3339), r.Block)
		line("expires", "%s", r.Expires().UTC().Format(time.RFC3339))
		line("machine", "%s", r.Machine)
		line("payload", "%s, %s", r.PayloadType, table.Bytes(int64(len(j.Payload))))
	}
	line("hash", "%s", j.Judgement.Hash)
	if err := w.Flush(); err != nil {
		return err
	}
	if j.Judgement.Payload == nil {
		return nil
	}
	_, err := fmt.Fprintln(out, table.Printable(string(j.Judgement.Payload)))
	return err
}

// PrintList shows the newest record of every run.
func PrintList(out io.Writer, list []Judged, colour bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROLE\tHOTKEY\tRUN\tSEQUENCE\tRECEIVED\tREASON\tVERDICT")
	for i := range list {
		j := &list[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", table.Printable(j.Role), table.Printable(j.Hotkey), table.Printable(j.Run), j.Sequence,
			table.When(j.ReceivedNs), table.Printable(j.Judgement.Reason), paint(j.Judgement.Verdict, colour))
	}
	return w.Flush()
}

// PrintHistory shows records by sequence.
func PrintHistory(out io.Writer, history func(each func(*state.Entry) error) error) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SEQUENCE\tINDEX\tRECEIVED\tPAYLOAD\tHASH\tNOTE")
	err := history(func(e *state.Entry) error {
		note := ""
		switch {
		case e.Fork:
			note = "second record with this sequence"
		case e.Dropped:
			note = "payload dropped"
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\n", e.Sequence, e.Index, table.When(e.ReceivedNs), table.Bytes(int64(len(e.Payload))), e.Digest, note)
		return nil
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// OK reports whether nothing was caught, and a record alone may be trusted now.
func (r *FileReport) OK() bool {
	return r.Kind != "split" && (r.Verdict == "" || r.Verdict.Trusted()) && (r.History == nil || r.History.OK())
}

// Print shows what a file proves.
func (r *FileReport) Print(out io.Writer, colour bool) error {
	if r.History != nil {
		return r.History.Print(out, colour)
	}
	told := r.Kind
	if r.Verdict != "" {
		told += ", " + paint(r.Verdict, colour)
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", told, table.Printable(r.Told))
	return err
}

func (r *Report) summary() string {
	told := fmt.Sprintf("%s: %d records, %d faults, %d sequences signed twice", r.Run, r.Records, len(r.Faults), len(r.Proofs))
	if r.Dropped > 0 {
		told += fmt.Sprintf(", %d payloads dropped", r.Dropped)
	}
	return told
}

// Print shows what a check found.
func (r *Report) Print(out io.Writer, colour bool) error {
	fmt.Fprintln(out, table.Printable(r.summary()))
	if r.Newest != nil {
		fmt.Fprintf(out, "newest: %s: %s\n", paint(r.Newest.Verdict, colour), table.Printable(r.Newest.Reason))
	}
	for _, f := range r.Faults {
		fmt.Fprintf(out, "sequence %d: %s\n", f.Sequence, table.Printable(f.Reason))
	}
	for i, reason := range r.Reasons {
		verdict := state.SharedKey
		if v, _, err := r.Proofs[i].Check(); err == nil {
			verdict = v
		}
		fmt.Fprintf(out, "%s: %s\n", paint(verdict, colour), table.Printable(reason))
	}
	return nil
}
