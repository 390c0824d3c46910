package logs

import (
	"cmp"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
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

// Age reads a time such as 90s, 1h or 30d.
func Age(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	number, isDays := strings.CutSuffix(text, "d")
	age, err := time.ParseDuration(text)
	if isDays {
		var days float64
		days, err = strconv.ParseFloat(number, 64)
		age = time.Duration(days * float64(day))
	}
	if err != nil || age <= 0 {
		return 0, model.Errorf(model.CodeInvalid, "%q is no time", text).WithHint("write it as 90s, 15m, 1h or 30d")
	}
	return age, nil
}

func byTime(a, b Line) int {
	return cmp.Or(cmp.Compare(a.TimeNs, b.TimeNs), strings.Compare(a.Stream, b.Stream), cmp.Compare(a.Step, b.Step))
}
