package rig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Client reads the JSON API. It shares no code with the server.
type Client struct {
	base, key string
}

// NewClient reads the server at an address, such as http://127.0.0.1:7070.
func NewClient(address, key string) *Client { return &Client{base: address, key: key} }

// Run is what the tests read of a run.
type Run struct {
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	Status string         `json:"status"`
	Tags   []string       `json:"tags"`
	Config map[string]any `json:"config"`
}

// Series is what the tests read of a series.
type Series struct {
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels"`
	Kind   string            `json:"kind"`
	Count  int               `json:"count"`
	Last   struct {
		Step  *int64 `json:"step"`
		Value any    `json:"value"`
	} `json:"last"`
}

// Points are the columns of one series, all pages of it.
type Points map[string][]any

// Get reads one document; the answer must be 200.
func (c *Client) Get(t *testing.T, path string, query url.Values, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := (&http.Client{Timeout: 60 * time.Second}).Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s?%s: %s\n%s", path, query.Encode(), resp.Status, body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // int64 is exact
	if err := dec.Decode(into); err != nil {
		t.Fatalf("GET %s: %v\n%.200s", path, err, body)
	}
}

// Metric reads one of the server's own figures, 0 when there is none.
func (c *Client) Metric(t *testing.T, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("GET /metrics: %v", err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if key, text, ok := strings.Cut(lines.Text(), " "); ok && key == name {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("%s is %q", name, text)
			}
			return v
		}
	}
	return 0
}

// Runs lists a project, given as workspace/project.
func (c *Client) Runs(t *testing.T, project string) []Run {
	t.Helper()
	return pages(t, c, "/api/v1/projects/"+project+"/runs", url.Values{"limit": {"7"}}, "runs", []Run(nil))
}

// Run finds a run by name; it fails the test when there is not exactly one.
func (c *Client) Run(t *testing.T, project, name string) Run {
	t.Helper()
	runs := pages(t, c, "/api/v1/projects/"+project+"/runs", url.Values{"name": {name}}, "runs", []Run(nil))
	if len(runs) != 1 {
		t.Fatalf("%d runs named %s in %s", len(runs), name, project)
	}
	return runs[0]
}

// Series lists the series of a run.
func (c *Client) Series(t *testing.T, run string) []Series {
	t.Helper()
	return pages(t, c, "/api/v1/runs/"+run+"/series", url.Values{"limit": {"50"}}, "series", []Series(nil))
}

// Points reads every point of every attempt of a series.
func (c *Client) Points(t *testing.T, run, metric, scale string, labels map[string]string) Points {
	t.Helper()
	query := url.Values{"metric": {metric}, "scale": {scale}, "attempt": {"all"}, "limit": {"50000"}}
	for k, v := range labels {
		query.Set("label."+k, v)
	}
	all := Points{}
	for {
		var page struct {
			Columns Points  `json:"columns"`
			Next    *string `json:"next"`
		}
		c.Get(t, "/api/v1/runs/"+run+"/points", query, &page)
		for name, column := range page.Columns {
			all[name] = append(all[name], column...)
		}
		if page.Next == nil || *page.Next == "" {
			return all
		}
		query.Set("cursor", *page.Next)
	}
}

// pages reads a list to its end.
func pages[T any](t *testing.T, c *Client, path string, query url.Values, field string, all []T) []T {
	t.Helper()
	for {
		var page map[string]json.RawMessage
		c.Get(t, path, query, &page)
		var rows []T
		if err := json.Unmarshal(page[field], &rows); err != nil {
			t.Fatalf("%s of %s: %v", field, path, err)
		}
		all = append(all, rows...)
		var next *string
		if err := json.Unmarshal(page["next"], &next); len(page["next"]) > 0 && err != nil {
			t.Fatalf("next of %s: %v", path, err)
		}
		if next == nil || *next == "" {
			return all
		}
		query.Set("cursor", *next)
	}
}

// Row is one point as text, its columns in the order asked for; for multisets.
func (p Points) Row(i int, columns ...string) string {
	var b bytes.Buffer
	for _, name := range columns {
		fmt.Fprintf(&b, "%s=", name)
		if column, ok := p[name]; ok {
			b.WriteString(Text(column[i]))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// Text is a JSON number or one of the words NaN, Infinity, -Infinity, so that
// equal numbers have equal texts.
func Text(v any) string {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return strconv.FormatInt(i, 10)
		}
		f, err := v.Float64()
		if err != nil {
			return "not a number: " + v.String()
		}
		return number(f)
	case float64:
		return number(v)
	}
	return fmt.Sprint(v)
}

func number(f float64) string {
	if f == float64(int64(f)) && f < 1<<53 && f > -1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
