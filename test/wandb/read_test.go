//go:build e2e

package wandb

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// scale is that of every series of a history.
const scale = "ML_STEP"

// document is what the tests read of a run.
type document struct {
	ID          string   `json:"id"`
	DisplayName string   `json:"display_name"`
	Description string   `json:"description"`
	Status      string   `json:"status"`
	Tags        []string `json:"tags"`
	Attributes  []struct {
		Path  string `json:"path"`
		Value any    `json:"value"`
	} `json:"attributes"`
	Attempts []struct {
		Number     int    `json:"number"`
		ResumeFrom *int64 `json:"resume_from_step"`
	} `json:"attempts"`
	Ledger struct {
		Logged     int   `json:"logged"`
		Stored     int   `json:"stored"`
		Superseded int   `json:"superseded"`
		Refused    int   `json:"refused"`
		Dropped    int   `json:"dropped"`
		Skipped    []any `json:"skipped"`
	} `json:"ledger"`
}

// stored reads a run through our own API.
func (r *room) stored(name string) *document {
	r.Helper()
	d := &document{}
	r.client.Get(r.T, "/api/v1/runs/"+r.client.Run(r.T, place, name).ID, url.Values{}, d)
	return d
}

// attribute is the value of a path as text, "" where it has none.
func (d *document) attribute(path string) string {
	for _, a := range d.Attributes {
		if a.Path == path {
			return rig.Text(a.Value)
		}
	}
	return ""
}

// ends waits until a run has a status.
func (r *room) ends(name, status string) *document {
	r.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		d := r.stored(name)
		if d.Status == status || time.Now().After(deadline) {
			if d.Status != status {
				r.Errorf("the run %s is %s, want %s", name, d.Status, status)
			}
			return d
		}
	}
}

// curve is a series as texts of its values by step, of the attempts that count.
func (r *room) curve(d *document, metric string, labels map[string]string) map[string][]string {
	r.Helper()
	query := url.Values{"metric": {metric}, "scale": {scale}, "limit": {"50000"}}
	for k, v := range labels {
		query.Set("label."+k, v)
	}
	got := map[string][]string{}
	if !slices.ContainsFunc(r.client.Series(r.T, d.ID), func(s rig.Series) bool { return s.Metric == metric && (labels == nil || maps.Equal(s.Labels, labels)) }) {
		return got // a series that is not there has no points
	}
	for {
		var page struct {
			Columns rig.Points `json:"columns"`
			Next    *string    `json:"next"`
		}
		r.client.Get(r.T, "/api/v1/runs/"+d.ID+"/points", query, &page)
		for i, step := range page.Columns["step"] {
			key := rig.Text(step)
			got[key] = append(got[key], rig.Text(page.Columns["value"][i]))
		}
		if page.Next == nil || *page.Next == "" {
			return got
		}
		query.Set("cursor", *page.Next)
	}
}

// wants compares a series with values by step.
func (r *room) wants(d *document, metric string, labels map[string]string, want map[int]string) {
	r.Helper()
	got := r.curve(d, metric, labels)
	if len(got) != len(want) {
		r.Errorf("%s has %d steps, want %d", metric, len(got), len(want))
	}
	wrong := 0
	for step, value := range want {
		if have := got[fmt.Sprint(step)]; !slices.Equal(have, []string{value}) {
			if wrong++; wrong <= 3 {
				r.Errorf("%s at step %d is %v, want %s", metric, step, have, value)
			}
		}
	}
}

// one is a series with a single value at a step.
func (r *room) one(d *document, metric, kind string, step int, want string) {
	r.Helper()
	var labels map[string]string
	if kind != "" {
		labels = map[string]string{"type": kind}
	}
	r.wants(d, metric, labels, map[int]string{step: want})
}

// attributes compares attributes with texts.
func (r *room) attributes(d *document, want map[string]string) {
	r.Helper()
	for path, value := range want {
		if have := d.attribute(path); have != value {
			r.Errorf("the attribute %s is %q, want %q", path, have, value)
		}
	}
}

// whole checks that nothing that a client logged was lost or refused.
func (r *room) whole(d *document) {
	r.Helper()
	l := d.Ledger
	if l.Logged != l.Stored || l.Refused+l.Dropped+len(l.Skipped) > 0 {
		r.Errorf("the ledger is %+v", l)
	}
}

// console is the text of the console by line, of each process.
func (r *room) console(d *document) []string {
	r.Helper()
	var all []string
	for _, s := range r.client.Series(r.T, d.ID) {
		if s.Metric != "console" {
			continue
		}
		for _, value := range r.client.Points(r.T, d.ID, s.Metric, scale, s.Labels)["value"] {
			all = append(all, fmt.Sprint(value))
		}
	}
	return all
}

// machine counts the series of system metrics.
func (r *room) machine(d *document) (n int) {
	r.Helper()
	for _, s := range r.client.Series(r.T, d.ID) {
		if len(s.Metric) > 7 && s.Metric[:7] == "system/" && s.Count > 0 {
			n++
		}
	}
	return n
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
