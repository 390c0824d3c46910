package console

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// Spec is what the program says when it starts its relay: the first line of the control
// socket, as JSON.
type Spec struct {
	Spool    string            `json:"spool"`
	Server   string            `json:"server"`
	Open     model.OpenRequest `json:"open"` // of the program itself
	PID      int               `json:"pid"`  // hears of a new size of the terminal
	Secrets  []string          `json:"secrets"`
	Marker   string            `json:"marker"` // see marks
	Channels []Channel         `json:"channels"`
}

// Channel is a pipe or pseudo-terminal that the program writes to, and where its bytes go.
type Channel struct {
	Source   int    `json:"source"` // descriptors
	Target   int    `json:"target"`
	Stream   string `json:"stream"` // of what has no mark
	Terminal bool   `json:"terminal"`
}

// The series of the lines.
const (
	metric       = "console"
	labelStream  = "stream"
	labelProcess = "process" // the rank of a process other than the first
)

// log is the run's lines in the spool, as a writer of its own: it joins the attempt of the
// program, and the run's end does not wait for it.
type log struct {
	writer *spool.Writer
	rank   int64
	series map[string]*spool.Series
}

func newLog(folder *spool.Folder, spec *Spec, version string) (*log, error) {
	open := &spec.Open
	parent := open.Writer
	request := model.OpenRequest{
		Workspace: open.Workspace, Project: open.Project, RunName: open.RunName, LocalRun: open.LocalRun,
		OrchestrationID: open.OrchestrationID, ResumeStrategy: open.ResumeStrategy, RestartCount: open.RestartCount,
		ParentAttempt: &parent, Host: open.Host, PID: int64(spec.PID), OpenedNs: time.Now().UnixNano(),
		Offline: true, SDK: model.ObserverSDK + "console/" + version,
	}
	_, _ = rand.Read(request.Writer[:]) // never fails, see crypto/rand
	writer, err := spool.Create(folder, spec.Server, request, spool.WriterOptions{})
	if err != nil {
		return nil, err
	}
	l := &log{writer: writer, series: map[string]*spool.Series{}}
	if open.Rank != nil {
		l.rank = *open.Rank
	}
	return l, nil
}

// line appends a line. Its step is relative: a run that goes on counts after the lines that
// it has.
func (l *log) line(stream string, step, timeNs int64, text string) error {
	series := l.series[stream]
	if series == nil {
		labels := map[string]string{labelStream: stream}
		if l.rank > 0 {
			labels[labelProcess] = strconv.FormatInt(l.rank, 10)
		}
		key := model.NewSeriesKey(metric, model.ScaleStep, labels)
		var err error
		if series, err = l.writer.Series(model.KindText, key); err != nil {
			return err
		}
		l.series[stream] = series
	}
	return l.writer.Document(series, spool.FlagStep|spool.FlagRelative, step, timeNs, []byte(text))
}

func (l *log) close() {
	_ = l.writer.Updates([]model.Update{{Op: model.OpClose, TimeNs: time.Now().UnixNano(), Text: string(model.StatusFinished)}})
	_, _ = l.writer.Close()
	_ = l.writer.Status().Close()
}

func readSpec(line []byte) (*Spec, error) {
	spec := &Spec{}
	if err := json.Unmarshal(line, spec); err != nil {
		return nil, fmt.Errorf("read the settings of the console: %w", err)
	}
	return spec, nil
}
