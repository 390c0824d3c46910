package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/table"
)

const (
	limit = 5 * time.Second
	// maxSkew is how far clocks may differ before times in a chart mislead.
	maxSkew = 2 * time.Second
)

// Finding is one thing that the doctor looked at.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Diagnosis is all of them, as `kymogram doctor --json` prints it.
type Diagnosis struct {
	Findings []Finding `json:"findings"`
	OK       bool      `json:"ok"`
}

// Question is what a person asks the doctor, and the environment of who asks.
type Question struct {
	Version string // of this program
	Spool   string // the folder; empty: the one that programs use
	Server  string // its address
	Key     string // empty: the one that programs find
	Env     func(string) string
	// Recovered is the project of runs whose names the server's catalog has lost.
	Recovered string
}

// Examine looks at everything, whatever is wrong with the things before.
func Examine(ctx context.Context, q Question) *Diagnosis {
	d := &Diagnosis{OK: true}
	d.add("version", fmt.Sprintf("kymogram %s, %s %s/%s", q.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), nil)
	folder := d.checkSpool(q)
	d.checkServer(ctx, q, folder)
	return d
}

func (d *Diagnosis) add(name, detail string, err error) {
	f := Finding{Name: name, OK: err == nil, Detail: detail}
	if err != nil {
		f.Detail = err.Error()
		var e *model.Error
		if errors.As(err, &e) {
			f.Hint = e.Hint
		}
	}
	d.Findings = append(d.Findings, f)
	d.OK = d.OK && f.OK
}

// Print writes it for a person.
func (d *Diagnosis) Print(out io.Writer) error {
	for _, f := range d.Findings {
		mark := "ok  "
		if !f.OK {
			mark = "FAIL"
		}
		if _, err := fmt.Fprintf(out, "%s  %-8s %s\n", mark, f.Name, table.Printable(f.Detail)); err != nil {
			return err
		}
		if f.Hint != "" {
			fmt.Fprintf(out, "               %s\n", f.Hint)
		}
	}
	return nil
}

// Err is what a program ends with that found something wrong.
func (d *Diagnosis) Err() error {
	var failed []string
	for _, f := range d.Findings {
		if !f.OK {
			failed = append(failed, f.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed: %s", len(failed), len(d.Findings), strings.Join(failed, ", "))
}
