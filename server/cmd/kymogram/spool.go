package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
)

// The states of a writer's backlog.
const (
	waitDelivering = "delivering"
	waitRetrying   = "retrying" // its server does not answer
	waitRefused    = "refused"  // its server does not take the key
	waitNobody     = "nobody delivers"
	waitUnreadable = "unreadable"
)

// waiting is what one program left to deliver.
type waiting struct {
	Writer     string `json:"writer"`
	Run        string `json:"run"` // workspace/project/name
	Server     string `json:"server"`
	Host       string `json:"host"`
	PID        int64  `json:"pid"`
	Rank       *int64 `json:"rank,omitempty"`
	Live       bool   `json:"live"` // the program still logs
	Records    uint64 `json:"records"`
	Points     uint64 `json:"points"`
	Bytes      uint64 `json:"bytes"`
	Renderings int    `json:"renderings"`
	// OldestNs is when the first of them was logged; 0: unknown.
	OldestNs int64  `json:"oldest_ns"`
	State    string `json:"state"`
	Failures uint64 `json:"failures"` // tries in a row
	Error    string `json:"error,omitempty"`
}

// empty: a program that runs and is delivered so far leaves nothing.
func (w *waiting) empty() bool {
	return w.State != waitUnreadable && w.Live && w.Records == 0 && w.Renderings == 0
}

// waitingIn lists what waits in a folder, the oldest first.
func waitingIn(folder *spool.Folder) ([]waiting, error) {
	ids, err := folder.Writers()
	if err != nil {
		return nil, err
	}
	_, held, err := folder.Held()
	if err != nil {
		return nil, err
	}
	list := []waiting{}
	for _, id := range ids {
		one, err := waitingOf(folder, id)
		if errors.Is(err, os.ErrNotExist) {
			continue // delivered meanwhile
		}
		if err != nil {
			one.State, one.Error = waitUnreadable, err.Error()
		} else if !held {
			one.State = waitNobody // a heartbeat outlives its deliverer by seconds
		}
		if !one.empty() {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return cmp.Compare(a.OldestNs, b.OldestNs) })
	return list, nil
}

func waitingOf(folder *spool.Folder, id model.WriterID) (waiting, error) {
	one := waiting{Writer: id.String()}
	dir := folder.WriterPath(id)
	open, err := spool.ReadOpen(dir)
	if err != nil {
		return one, err
	}
	run := &open.Open
	one.Run = run.Workspace + "/" + run.Project + "/" + run.RunName
	one.Server, one.Host, one.PID, one.Rank = open.Server, run.Host, run.PID, run.Rank
	backlog, err := uplink.Left(folder, id)
	if err != nil {
		return one, err
	}
	one.Records, one.Points, one.Bytes = backlog.Records, backlog.Points, backlog.Bytes
	one.Live, one.Renderings = backlog.Live, backlog.Renderings
	status, err := spool.OpenStatus(dir)
	if err != nil {
		return one, err
	}
	defer status.Close()
	page, err := status.Read()
	if err != nil {
		return one, err
	}
	one.tell(&page)
	one.OldestNs, err = spool.Oldest(dir, id, page.Mark)
	return one, err
}

// tell says how its delivery fares.
func (w *waiting) tell(page *spool.Page) {
	w.Failures = page.Failures
	failed := page.State == spool.StateWaiting || page.State == spool.StateRefused
	if failed {
		w.Error = page.Error
	}
	switch {
	case !page.Delivering(time.Now()):
		w.State = waitNobody
	case page.State == spool.StateRefused:
		w.State = waitRefused
	case failed:
		w.State = waitRetrying
	default:
		w.State = waitDelivering
	}
}

// remedy is what a person can do about a state; nothing for one that heals itself.
func (w *waiting) remedy() string {
	switch w.State {
	case waitNobody:
		return "`kymogram sync` delivers it now, `kymogram agent` from now on"
	case waitRetrying:
		return "it goes on by itself when " + printable(w.Server) + " answers; `kymogram sync --server URL` delivers to another one"
	case waitRefused:
		return "`kymogram sync --key KEY` delivers with another key; `kymogram key create` makes one"
	case waitUnreadable:
		return "see the message of " + printable(w.Writer) + "; nothing there is deleted"
	}
	return ""
}

// spoolReport is what spool --json prints.
type spoolReport struct {
	Spool       string        `json:"spool"`
	UsedBytes   int64         `json:"used_bytes"`
	CapBytes    int64         `json:"cap_bytes"`
	DeliveredBy *spool.Holder `json:"delivered_by"` // nil: nobody
	Waiting     []waiting     `json:"waiting"`
	Left        left          `json:"left"`
	Rejected    []rejected    `json:"rejected"`
}

// rejected is a file of what a server refused for good.
type rejected struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	AtNs  int64  `json:"at_ns"` // last change
}

func spoolCommand(io stdio) *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "spool",
		Short: "Show what waits to be delivered, how old it is, and why",
		Long: `Show what programs on this machine logged and no server has acknowledged yet:
how much, how old, what holds it up, and what to do. It changes nothing.`,
		Example: "  kymogram spool\n  kymogram spool --spool /data/spool --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			folder, err := viewSpool(io, path)
			if err != nil {
				return err
			}
			report, err := inspectSpool(folder)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(io.out, report)
			}
			return report.print(io.out)
		},
	}
	cmd.Flags().StringVar(&path, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else as kymogram doctor says)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// viewSpool is the folder that a flag names, else the first that is there.
func viewSpool(io stdio, path string) (*spool.Folder, error) {
	paths := []string{path}
	if path == "" {
		paths = spool.Candidates(io.env)
	}
	for _, path := range paths {
		folder, err := spool.ViewFolder(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return folder, err
		}
	}
	return nil, model.Errorf(model.CodeNotFound, "there is no spool at %s", paths[0]).
		WithHint("programs print where theirs is; `kymogram doctor` shows the default")
}

func inspectSpool(folder *spool.Folder) (*spoolReport, error) {
	r := &spoolReport{Spool: folder.Path, Rejected: []rejected{}}
	var err error
	if r.UsedBytes, err = folder.Used(); err != nil {
		return nil, err
	}
	if r.CapBytes, err = folder.Cap(); err != nil {
		return nil, err
	}
	if holder, held, err := folder.Held(); err != nil {
		return nil, err
	} else if held {
		r.DeliveredBy = &holder
	}
	if r.Waiting, err = waitingIn(folder); err != nil {
		return nil, err
	}
	r.Left.add(r.Waiting)
	entries, err := os.ReadDir(filepath.Join(folder.Path, "rejected"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list what was refused: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			r.Rejected = append(r.Rejected, rejected{filepath.Join(folder.Path, "rejected", e.Name()), info.Size(), info.ModTime().UnixNano()})
		}
	}
	return r, nil
}

func (r *spoolReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s: %s of at most %s used\n", printable(r.Spool), bytesText(r.UsedBytes), bytesText(r.CapBytes))
	if h := r.DeliveredBy; h != nil {
		fmt.Fprintf(out, "process %d (%s, version %s) delivers it\n", h.PID, h.Kind, printable(h.Version))
	}
	if len(r.Waiting) == 0 {
		fmt.Fprintln(out, "nothing waits")
	}
	if err := printWaiting(out, r.Waiting); err != nil {
		return err
	}
	if n := len(r.Rejected); n > 0 {
		_, err := fmt.Fprintf(out, "%d files of what a server refused for good (each line says why): %s\n", n, printable(filepath.Dir(r.Rejected[0].File)))
		return err
	}
	return nil
}

// printWaiting is a table of what waits, then what to do about it.
func printWaiting(out io.Writer, list []waiting) error {
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tPROCESS\tPOINTS\tSIZE\tAGE\tSTATE")
	var remedies []string
	for i := range list {
		one := &list[i]
		process := printable(one.Host) + " " + strconv.FormatInt(one.PID, 10)
		if !one.Live {
			process += ", ended"
		}
		state := one.State
		if one.Error != "" {
			state += ": " + printable(one.Error)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(cmp.Or(one.Run, one.Writer)), process, thousands(one.Points),
			bytesText(int64(one.Bytes)), age(one.OldestNs), state)
		if text := one.remedy(); text != "" && !slices.Contains(remedies, text) {
			remedies = append(remedies, text)
		}
	}
	err := w.Flush()
	for _, text := range remedies {
		fmt.Fprintf(out, "  %s\n", text)
	}
	return err
}

// thousands writes a count with commas.
func thousands(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// age is how long ago something was, in its two largest units.
func age(ns int64) string {
	if ns == 0 {
		return "-"
	}
	d := time.Since(time.Unix(0, ns))
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "in the future" // a clock was wrong
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
