package network

import (
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/report"
)

// section is the part of a run's config section that the page draws.
type section struct {
	version   *int64
	allocated string
	portOpen  *bool
	reports   report.Reports
}

// readSection reads a payload. A part of another form than ours is as if it were
// not there: the record is authentic all the same. Of the reports those with the
// lowest uids are read, as many as there are rows.
func readSection(payload []byte) (s section) {
	if !report.Valid(payload) {
		return s
	}
	var stats []byte
	report.Members(payload, func(name string, value []byte) {
		switch name {
		case "version":
			s.version = nil
			if n, ok := report.Whole(value); ok {
				s.version = &n
			}
		case "allocated":
			text, _ := report.Text(value)
			s.allocated = model.Clip(text)
		case "is_port_open":
			s.portOpen = nil
			if open, ok := report.Bool(value); ok {
				s.portOpen = &open
			}
		case "stats":
			stats = value
		}
	})
	s.reports = report.Read(stats, MaxMiners)
	return s
}
