package logs

import (
	"cmp"
	"io"
	"strings"
	"time"

	"github.com/kymogram/kymogram/server/internal/table"
)

// Line is a line of a stream.
type Line struct {
	Stream  string `json:"stream,omitempty"`  // stdout, stderr, log; none of W&B's
	Process string `json:"process,omitempty"` // of several that log into one run
	Step    int64  `json:"step"`              // its number
	TimeNs  int64  `json:"time_ns"`
	Text    string `json:"text"`
}

// printer writes lines as the user wants them.
type printer struct {
	out         io.Writer
	json, times bool
}

func (p *printer) print(l *Line) error {
	if p.json {
		return table.JSON(p.out, l)
	}
	text := table.Printable(strings.ReplaceAll(l.Text, "\t", "    "))
	if p.times {
		text = time.Unix(0, l.TimeNs).Format("2006-01-02 15:04:05.000 ") + text
	}
	_, err := io.WriteString(p.out, text+"\n")
	return err
}

func byTime(a, b Line) int {
	return cmp.Or(cmp.Compare(a.TimeNs, b.TimeNs), strings.Compare(a.Stream, b.Stream), cmp.Compare(a.Step, b.Step))
}
