package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Report is the state of a spool, as `kymogram spool --json` prints it.
type Report struct {
	Spool       string        `json:"spool"`
	UsedBytes   int64         `json:"used_bytes"`
	CapBytes    int64         `json:"cap_bytes"`
	DeliveredBy *spool.Holder `json:"delivered_by"` // nil: nobody
	Waiting     []Waiting     `json:"waiting"`
	Left        Left          `json:"left"`
	Rejected    []Rejected    `json:"rejected"`
}

// Rejected is a file of what a server refused for good, or a damaged segment.
type Rejected struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	AtNs  int64  `json:"at_ns"` // last change
}

// Inspect looks at a spool and changes nothing.
func Inspect(folder *spool.Folder) (*Report, error) {
	r := &Report{Spool: folder.Path, Rejected: []Rejected{}}
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
	if r.Waiting, err = List(folder); err != nil {
		return nil, err
	}
	r.Left.add(r.Waiting)
	entries, err := os.ReadDir(filepath.Join(folder.Path, "rejected"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list what was refused: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			r.Rejected = append(r.Rejected, Rejected{filepath.Join(folder.Path, "rejected", e.Name()), info.Size(), info.ModTime().UnixNano()})
		}
	}
	return r, nil
}

// Print writes it for a person.
func (r *Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "%s: %s of at most %s used\n", table.Printable(r.Spool), table.Bytes(r.UsedBytes), table.Bytes(r.CapBytes))
	if h := r.DeliveredBy; h != nil {
		fmt.Fprintf(out, "process %d (%s, version %s) delivers it\n", h.PID, h.Kind, table.Printable(h.Version))
	}
	if len(r.Waiting) == 0 {
		fmt.Fprintln(out, "nothing waits")
	}
	if err := printWaiting(out, r.Waiting); err != nil {
		return err
	}
	damaged := 0
	for _, one := range r.Rejected {
		if spool.IsSetAside(one.File) {
			damaged++
		}
	}
	if n := len(r.Rejected) - damaged; n > 0 {
		fmt.Fprintf(out, "%d files of what a server refused for good (each line says why): %s\n", n, table.Printable(filepath.Dir(r.Rejected[0].File)))
	}
	if damaged > 0 {
		_, err := fmt.Fprintf(out, "%d damaged segments, not read to their ends: %s\n", damaged, table.Printable(filepath.Dir(r.Rejected[0].File)))
		return err
	}
	return nil
}

// printWaiting is a table of what waits, then what to do about it.
func printWaiting(out io.Writer, list []Waiting) error {
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tPROCESS\tPOINTS\tSIZE\tAGE\tSTATE")
	var remedies []string
	for i := range list {
		one := &list[i]
		process := table.Printable(one.Host) + " " + strconv.FormatInt(one.PID, 10)
		if !one.Live {
			process += ", ended"
		}
		state := one.State
		if one.Error != "" {
			state += ": " + table.Printable(one.Error)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", table.Printable(cmp.Or(one.Run, one.Writer)), process, table.Count(one.Points),
			table.Bytes(int64(one.Bytes)), table.Age(one.OldestNs), state)
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
