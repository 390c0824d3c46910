package table

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// seriesLine is a series as the API lists it.
type seriesLine struct {
	Metric     string            `json:"metric"`
	Scale      string            `json:"scale"`
	Labels     map[string]string `json:"labels"`
	Kind       string            `json:"kind"`
	Axes       []string          `json:"axes"`
	Count      uint64            `json:"count"`
	Superseded uint64            `json:"superseded"`
	Last       *struct {
		Step  *json.Number    `json:"step"`
		Value json.RawMessage `json:"value"`
	} `json:"last"`
}

// Series is the list of a run's series with their ends.
func Series(out io.Writer, items []json.RawMessage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "METRIC\tSCALE\tLABELS\tKIND\tPOINTS\tLAST STEP\tLAST VALUE")
	for _, raw := range items {
		var s seriesLine
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("read series: %w", err)
		}
		step, value := "-", "-"
		if s.Last != nil {
			value = Compact(s.Last.Value)
			if s.Last.Step != nil {
				step = s.Last.Step.String()
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", Printable(s.Metric), Printable(s.Scale), Printable(labels(s.Labels)), s.Kind, s.Count, step, Printable(short(value)))
	}
	return w.Flush()
}

func labels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}

// short cuts a text value to what a table has room for.
func short(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
