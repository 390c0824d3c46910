package delivery

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/table"
)

// The states of a writer's backlog.
const (
	Delivering = "delivering"
	Retrying   = "retrying" // its server does not answer
	Refused    = "refused"  // its server does not take the key
	Nobody     = "nobody delivers"
	Unreadable = "unreadable"
)

// Waiting is what one program left to deliver.
type Waiting struct {
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
func (w *Waiting) empty() bool {
	return w.State != Unreadable && w.Live && w.Records == 0 && w.Renderings == 0
}

// List lists what waits in a folder, the oldest first.
func List(folder *spool.Folder) ([]Waiting, error) {
	ids, err := folder.Writers()
	if err != nil {
		return nil, err
	}
	_, held, err := folder.Held()
	if err != nil {
		return nil, err
	}
	list := []Waiting{}
	for _, id := range ids {
		one, err := waitingOf(folder, id)
		if errors.Is(err, os.ErrNotExist) {
			continue // delivered meanwhile
		}
		if err != nil {
			one.State, one.Error = Unreadable, err.Error()
		} else if !held {
			one.State = Nobody // a heartbeat outlives its deliverer by seconds
		}
		if !one.empty() {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b Waiting) int { return cmp.Compare(a.OldestNs, b.OldestNs) })
	return list, nil
}

func waitingOf(folder *spool.Folder, id model.WriterID) (Waiting, error) {
	one := Waiting{Writer: id.String()}
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
	one.judge(&page)
	one.OldestNs, err = spool.Oldest(dir, id, page.Mark)
	return one, err
}

// judge says how its delivery fares.
func (w *Waiting) judge(page *spool.Page) {
	w.Failures = page.Failures
	failed := page.State == spool.StateWaiting || page.State == spool.StateRefused
	if failed {
		w.Error = page.Error
	}
	switch {
	case !page.Delivering(time.Now()):
		w.State = Nobody
	case page.State == spool.StateRefused:
		w.State = Refused
	case failed:
		w.State = Retrying
	default:
		w.State = Delivering
	}
}

// remedy is what a person can do about a state; nothing for one that heals itself.
func (w *Waiting) remedy() string {
	switch w.State {
	case Nobody:
		return "`kymogram sync` delivers it once " + table.Printable(w.Server) + " answers, `kymogram agent` from now on"
	case Retrying:
		return "it goes on by itself when " + table.Printable(w.Server) + " answers; `kymogram sync --server URL` delivers to another one"
	case Refused:
		return "`kymogram sync --key KEY` delivers with another key; `kymogram key create` makes one"
	case Unreadable:
		return "see the message of " + table.Printable(w.Writer) + "; nothing there is deleted"
	}
	return ""
}
