package httpapi

import (
	"encoding/csv"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
)

// runFields are the columns of a run itself; all others are attributes and metrics.
var runFields = []string{"id", "name", "display_name", "status", "tags", "description", "created", "last", "duration_ms", "attempt"}

// runsCSV writes all runs of a filter, a page in memory at a time. A page begins after the last
// run of the one before, so runs that come meanwhile neither repeat nor hide others.
func (a *API) runsCSV(w http.ResponseWriter, r *http.Request, request query.RunsRequest) error {
	columns := request.Columns
	if len(columns) == 0 {
		columns = runFields
	}
	request.Limit = query.MaxRuns
	request.Columns = slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return slices.Contains(runFields, c) })
	out := csv.NewWriter(w)
	for first := true; first || request.Cursor != ""; first = false {
		err := a.leased(r, request.Bytes(), func(texts query.Admit) error {
			request.Texts = texts
			page, err := a.query.RunRows(r.Context(), request)
			if err != nil {
				return err
			}
			if first {
				setHint(w, page.Hint)
				w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
				w.Header().Set("Content-Disposition", `attachment; filename="runs.csv"`)
				if err := writeRecords(out, slices.Values([][]string{safeTexts(columns)})); err != nil {
					return err
				}
			}
			request.Cursor = page.Next
			return writeRecords(out, runRecords(columns, page.Rows))
		})
		if err != nil && w.Header().Get("Content-Disposition") == "" {
			return err // nothing is written yet
		}
		if err := a.cut(r, err); err != nil {
			return err
		}
	}
	return nil
}

func safeTexts(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = model.SafeCSV(t)
	}
	return out
}

// runRecords reads the runs of a page as records. Each lasts until the next.
func runRecords(columns []string, page []query.RunRow) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		record := make([]string, len(columns))
		for i := range page {
			value := 0
			for c, name := range columns {
				if slices.Contains(runFields, name) {
					record[c] = runField(&page[i].Run, name)
					continue
				}
				record[c] = valueField(page[i].Values[value])
				value++
			}
			if !yield(record) {
				return
			}
		}
	}
}

func runField(r *catalog.Run, name string) string {
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
	switch name {
	case "id":
		return r.ID.String()
	case "name":
		return model.SafeCSV(r.Name)
	case "display_name":
		return model.SafeCSV(r.DisplayName)
	case "status":
		return string(r.Status)
	case "tags":
		return model.SafeCSV(strings.Join(r.Tags, ", "))
	case "description":
		return model.SafeCSV(r.Description)
	case "created":
		return at(r.CreatedNs)
	case "last":
		return at(r.LastNs)
	case "duration_ms":
		return strconv.FormatInt(durationMs(r), 10)
	}
	return strconv.FormatUint(uint64(r.Attempt), 10)
}

// valueField is a number with all its digits, or a text that is no formula.
func valueField(v model.Value) string {
	switch v.Type {
	case "":
		return ""
	case model.TypeBool:
		return strconv.FormatBool(v.Bool)
	case model.TypeInt, model.TypeTime:
		return strconv.FormatInt(v.Int, 10)
	case model.TypeFloat:
		return model.FloatText(v.Float)
	case model.TypeStringSet:
		return model.SafeCSV(strings.Join(v.Set, ", "))
	}
	return model.SafeCSV(v.Str)
}
