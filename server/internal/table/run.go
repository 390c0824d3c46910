package table

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// runLine is what tables show of a run.
type runLine struct {
	ID          string                     `json:"id"`
	Workspace   string                     `json:"workspace"`
	Project     string                     `json:"project"`
	Name        string                     `json:"name"`
	DisplayName string                     `json:"display_name"`
	Description string                     `json:"description"`
	Status      string                     `json:"status"`
	Tags        []string                   `json:"tags"`
	CreatedNs   int64                      `json:"created_ns"`
	LastNs      int64                      `json:"last_ns"`
	DurationMs  int64                      `json:"duration_ms"`
	Config      map[string]json.RawMessage `json:"config"`
	Summary     map[string]struct {
		Step  *int64          `json:"step"`
		Value json.RawMessage `json:"value"`
	} `json:"summary"`
}

// called is the name by which commands know a run, with the one that pages show.
func (r *runLine) called() string {
	if r.DisplayName == "" || r.DisplayName == r.Name {
		return r.Name
	}
	return cmp.Or(r.Name, r.ID) + " (" + r.DisplayName + ")"
}

// shortTags are the first tags of a run; a thousand would make its line as long as a page.
func shortTags(tags []string) string {
	const most = 60
	text := strings.Join(tags, ",")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "… (" + strconv.Itoa(len(tags)) + " tags)"
}

// Runs is the list of a project; colour is for terminals.
func Runs(out io.Writer, items []json.RawMessage, colour bool) error {
	return runs(out, items, colour, "", func(*runLine) string { return "" })
}

// RunsOfAll is a list with the project of each run.
func RunsOfAll(out io.Writer, items []json.RawMessage, colour bool) error {
	return runs(out, items, colour, "PROJECT\t", func(r *runLine) string { return r.Workspace + "/" + r.Project + "\t" })
}

func runs(out io.Writer, items []json.RawMessage, colour bool, head string, place func(*runLine) string) error {
	status := palette{colour}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%sNAME\tCREATED\tDURATION\tTAGS\tID\n", status.cell("STATUS", ""), head)
	for _, raw := range items {
		var r runLine
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read run: %w", err)
		}
		fmt.Fprintf(w, "%s\t%s%s\t%s\t%s\t%s\t%s\n", status.cell(r.Status, r.Status), place(&r), Printable(r.called()),
			When(r.CreatedNs), Duration(r.DurationMs), Printable(shortTags(r.Tags)), r.ID)
	}
	return w.Flush()
}

// projectLine is what the table of projects shows.
type projectLine struct {
	Workspace string `json:"workspace"`
	Project   string `json:"project"`
	Runs      uint64 `json:"runs"`
	LastNs    int64  `json:"last_ns"`
}

// Projects is the list of projects, the latest activity first.
func Projects(out io.Writer, items []json.RawMessage) error {
	lines := make([]projectLine, len(items))
	for i, raw := range items {
		if err := json.Unmarshal(raw, &lines[i]); err != nil {
			return fmt.Errorf("read project: %w", err)
		}
	}
	slices.SortStableFunc(lines, func(a, b projectLine) int { return cmp.Compare(b.LastNs, a.LastNs) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROJECT\tRUNS\tLAST ACTIVITY")
	for _, p := range lines {
		fmt.Fprintf(w, "%s/%s\t%s\t%s\n", p.Workspace, p.Project, Count(p.Runs), When(p.LastNs))
	}
	return w.Flush()
}

// palette colours the status on a terminal. Every cell gets escapes of one
// length, so that columns stay aligned.
type palette struct{ on bool }

func (p palette) cell(text, status string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + StatusColour(status) + "m" + text + "\x1b[0m"
}

// StatusColour is the SGR code of a run's status.
func StatusColour(status string) string {
	code := map[string]string{"running": "36", "finished": "32", "failed": "31", "interrupted": "33", "lost": "33", "silent": "90"}[status]
	return cmp.Or(code, "39")
}

// Restored tells of a run that came back from the trash.
func Restored(w io.Writer, doc json.RawMessage) error {
	var r runLine
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("read run: %w", err)
	}
	_, err := fmt.Fprintf(w, "restored %s/%s/%s (%s)\n", r.Workspace, r.Project, Printable(r.Name), r.ID)
	return err
}

// Deleted tells of a run that went into the trash, or for good.
func Deleted(w io.Writer, name string, doc json.RawMessage) error {
	var d struct {
		ID    string `json:"id"`
		Freed bool   `json:"freed"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if d.Freed {
		_, err := fmt.Fprintf(w, "deleted %s (%s) for good\n", Printable(name), d.ID)
		return err
	}
	_, err := fmt.Fprintf(w, "moved %s (%s) to the trash; `kymogram runs restore %s` brings it back for 7 days\n", Printable(name), d.ID, d.ID)
	return err
}

// runDetail is what `runs show` prints beside a runLine.
type runDetail struct {
	runLine
	Series   uint64 `json:"series"`
	Points   uint64 `json:"points"`
	Attempts []struct {
		Number uint32 `json:"number"`
	} `json:"attempts"`
	Writers []struct {
		ID      string `json:"id"`
		Attempt uint32 `json:"attempt"`
		State   string `json:"state"`
		Host    string `json:"host"`
		PID     int64  `json:"pid"`
		Rank    *int64 `json:"rank"`
	} `json:"writers"`
	Ledger struct {
		Logged     uint64  `json:"logged"`
		Stored     uint64  `json:"stored"`
		Superseded uint64  `json:"superseded"`
		Refused    uint64  `json:"refused"`
		Dropped    uint64  `json:"dropped"`
		Spooled    *uint64 `json:"spooled"`

		Skipped []model.Skipped `json:"skipped"`
		Damaged []model.Damage  `json:"damaged"`
	} `json:"ledger"`
	Shared  []model.SharedEnvironment `json:"shared_environments"`
	Lineage struct {
		Ancestors []struct {
			Name string `json:"name"`
			UpTo *int64 `json:"up_to"`
		} `json:"ancestors"`
		Broken *struct {
			Name string     `json:"name"`
			Code model.Code `json:"code"`
		} `json:"broken"`
		Forks []struct {
			Name string `json:"name"`
			Step *int64 `json:"fork_step"`
		} `json:"forks"`
	} `json:"lineage"`
}

// who names a writer by its host, process and rank.
func (r *runDetail) who(id model.WriterID) string {
	for _, w := range r.Writers {
		if w.ID == id.String() {
			return fmt.Sprintf("%s (%s pid %d%s)", w.ID[:8], w.Host, w.PID, Rank(w.Rank))
		}
	}
	return id.String()[:8]
}

// Run is everything of one run but its points.
func Run(out io.Writer, doc json.RawMessage) error {
	var r runDetail
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("read run: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, Printable(fmt.Sprintf(format, args...)))
	}
	line("run", "%s/%s/%s", r.Workspace, r.Project, r.Name)
	line("id", "%s", r.ID)
	line("status", "%s", r.Status)
	if r.DisplayName != "" && r.DisplayName != r.Name {
		line("display name", "%s", r.DisplayName)
	}
	if r.Description != "" {
		line("description", "%s", r.Description)
	}
	line("tags", "%s", cmp.Or(strings.Join(r.Tags, ", "), "-"))
	last := "ended"
	if r.Status == string(model.StatusRunning) {
		last = "last activity"
	}
	line("created", "%s, %s %s, %s", When(r.CreatedNs), last, When(r.LastNs), Duration(r.DurationMs))
	for _, a := range r.Lineage.Ancestors {
		line("goes on from", "%s%s", a.Name, stepText(", up to step ", a.UpTo))
	}
	if b := r.Lineage.Broken; b != nil {
		line("goes on from", "%s, which cannot be read (%s)", b.Name, b.Code)
	}
	for _, f := range r.Lineage.Forks {
		line("fork", "%s%s", f.Name, stepText(" at step ", f.Step))
	}
	line("holds", "%d series, %d points, %d attempts", r.Series, r.Points, len(r.Attempts))
	l := r.Ledger
	spooled := "unknown" // a client that is not connected
	if l.Spooled != nil {
		spooled = strconv.FormatUint(*l.Spooled, 10)
	}
	line("ledger", "%d logged, %s spooled, %d stored, %d superseded, %d refused, %d dropped", l.Logged, spooled, l.Stored, l.Superseded, l.Refused, l.Dropped)
	for _, s := range l.Skipped {
		line("skipped", "records %d to %d (%s)", s.First, s.Last, s.Reason)
	}
	for _, d := range l.Damaged {
		line("damaged", "%d points from %s to %s in %s cannot be read", d.Points, When(d.MinTimeNs), When(d.MaxTimeNs), d.File)
	}
	for _, s := range r.Shared {
		line("shared", "environment %s is logged by %s and by %s at once: their steps mix", s.Env, r.who(s.Writers[0]), r.who(s.Writers[1]))
	}
	for _, wr := range r.Writers {
		line("writer", "%s %s, attempt %d, %s pid %d%s", wr.ID[:min(8, len(wr.ID))], wr.State, wr.Attempt, wr.Host, wr.PID, Rank(wr.Rank))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Config)) {
		line("config "+Printable(name), "%s", Compact(r.Config[name]))
	}
	for _, metric := range slices.Sorted(maps.Keys(r.Summary)) {
		line("last "+Printable(metric), "%s", Compact(r.Summary[metric].Value))
	}
	return w.Flush()
}

func stepText(before string, step *int64) string {
	if step == nil {
		return ""
	}
	return before + strconv.FormatInt(*step, 10)
}
