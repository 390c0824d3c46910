package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/server"
)

type document map[string]any

func readDocument(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var raw any
	if err := yaml.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(raw) // one form for maps
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(asJSON, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// find follows a chain of keys and references; nil when there is nothing.
func (d document) find(node any, keys ...string) any {
	for _, key := range keys {
		m, ok := d.follow(node).(map[string]any)
		if !ok {
			return nil
		}
		node = m[key]
	}
	return d.follow(node)
}

func (d document) follow(node any) any {
	for {
		m, ok := node.(map[string]any)
		if !ok {
			return node
		}
		ref, ok := m["$ref"].(string)
		if !ok {
			return node
		}
		node = any(map[string]any(d))
		for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			node = d.find(node, key)
		}
		if node == nil {
			panic("the document has no " + ref)
		}
	}
}

var methods = []string{"get", "head", "put", "post", "patch", "delete"}

// described is a pattern as OpenAPI writes it, which has no word for a rest with slashes.
func described(pattern string) string { return strings.Replace(pattern, "...}", "}", 1) }

// The server's policy lists everything that can be served; the page's own files
// are no part of the API.
func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	doc := readDocument(t)
	served := map[string]bool{}
	for pattern := range server.DefaultPolicy().HTTP {
		served[described(pattern)] = true
	}
	delete(served, "GET /")
	paths := map[string]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		for _, method := range methods {
			if doc.find(item, method) != nil {
				paths[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	if !maps.Equal(served, paths) {
		t.Errorf("served %v\ndescribed %v", slices.Sorted(maps.Keys(served)), slices.Sorted(maps.Keys(paths)))
	}
	for _, r := range newLab(t, httpapi.Options{}).api.Routes() {
		if !paths[described(r.Method+" "+r.Pattern)] || r.Scope == "" {
			t.Errorf("%s %s, scope %q, is not described", r.Method, r.Pattern, r.Scope)
		}
	}
}

// A route takes the parameters that the document lists, and no other.
func TestTheDocumentHasEveryParameter(t *testing.T) {
	doc := readDocument(t)
	l := newLab(t, httpapi.Options{})
	for _, r := range l.api.Routes() {
		path := strings.NewReplacer("{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{workspace}", "w", "{project}", "p", "{name}", "v").Replace(described(r.Pattern))
		hint := decode(t, l.do(r.Method, path, values("surely-unknown", "1"), "{}").body)["error"].(map[string]any)["hint"].(string)
		var taken []string
		if list, ok := strings.CutPrefix(hint, "this route takes "); ok && list != "none" {
			taken = strings.Split(list, ", ")
		}
		var listed []string
		item := doc.find(doc["paths"], described(r.Pattern))
		for _, from := range []any{doc.find(item, "parameters"), doc.find(item, strings.ToLower(r.Method), "parameters")} {
			all, _ := from.([]any)
			for _, p := range all {
				if doc.find(p, "in") == "query" {
					listed = append(listed, doc.find(p, "name").(string))
				}
			}
		}
		slices.Sort(taken)
		slices.Sort(listed)
		if !slices.Equal(taken, listed) {
			t.Errorf("%s %s takes %v, the document lists %v", r.Method, r.Pattern, taken, listed)
		}
	}
}

func TestTheDocumentHasEveryCode(t *testing.T) {
	doc := readDocument(t)
	var listed []string
	for _, code := range doc.find(map[string]any(doc), "components", "schemas", "Error", "properties", "error", "properties", "code", "enum").([]any) {
		listed = append(listed, code.(string))
		if s := httpapi.Status(model.Code(code.(string))); (s == 500) != (code == "internal" || code == "damaged") {
			t.Errorf("code %s has the status %d", code, s)
		}
	}
	source, err := os.ReadFile("../../../internal/model/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if !slices.Contains(listed, m[1]) {
			t.Errorf("the code %s is not described", m[1])
		}
	}
}

// check compares a value with a schema: types, required and unknown fields.
func (d document) check(schema, value any, at string) []string {
	s, ok := d.follow(schema).(map[string]any)
	if !ok {
		return []string{at + ": no schema"}
	}
	if value == nil {
		if s["nullable"] == true || s["type"] == nil && s["oneOf"] == nil {
			return nil
		}
		return []string{at + ": null"}
	}
	if choices, ok := s["oneOf"].([]any); ok {
		var all []string
		for _, c := range choices {
			faults := d.check(c, value, at)
			if len(faults) == 0 {
				return nil
			}
			all = append(all, faults...)
		}
		return all
	}
	if enum, ok := s["enum"].([]any); ok && !slices.ContainsFunc(enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(value) }) {
		return []string{fmt.Sprintf("%s: %v is none of %v", at, value, enum)}
	}
	switch s["type"] {
	case "object":
		return d.checkObject(s, value, at)
	case "array":
		list, ok := value.([]any)
		if !ok {
			return []string{at + ": not a list"}
		}
		var faults []string
		for i, item := range list {
			faults = append(faults, d.check(s["items"], item, fmt.Sprintf("%s[%d]", at, i))...)
		}
		return faults
	}
	_, isText := value.(string)
	_, isBool := value.(bool)
	number, isNumber := value.(json.Number)
	fits := map[any]bool{nil: true, "string": isText, "boolean": isBool, "number": isNumber, "integer": isNumber && !strings.ContainsAny(number.String(), ".eE")}
	if !fits[s["type"]] {
		return []string{fmt.Sprintf("%s: %v is no %v", at, value, s["type"])}
	}
	return nil
}

func (d document) checkObject(s map[string]any, value any, at string) (faults []string) {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{at + ": not an object"}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			faults = append(faults, fmt.Sprintf("%s.%s is missing", at, name))
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, field := range object {
		switch schema, known := properties[name]; {
		case known:
			faults = append(faults, d.check(schema, field, at+"."+name)...)
		case s["additionalProperties"] != nil && s["additionalProperties"] != false:
			faults = append(faults, d.check(s["additionalProperties"], field, at+"."+name)...)
		default:
			faults = append(faults, at+"."+name+" is not described")
		}
	}
	return faults
}

func TestAnswersAreAsDescribed(t *testing.T) {
	doc := readDocument(t)
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", func(r *model.OpenRequest) {
		rank := int64(0)
		r.Rank = &rank
		r.Initial = []model.Update{
			{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(math.Inf(-1))},
			{Op: model.OpSetAttribute, Path: "config/tags", Value: model.SetValue([]string{"a"})},
			{Op: model.OpSetAttribute, Path: "started", Value: model.TimeValue(1)},
			{Op: model.OpSetTags, Tags: []string{"x"}},
		}
	})
	w.log(model.NewSeriesKey("loss", "", map[string]string{"a": "b"}), steps(0, 4, func(i int) any { return []float64{1, math.NaN(), math.Inf(1), 2}[i] })...)
	w.log(model.NewSeriesKey("n", "", nil), steps(0, 2, func(int) any { return int64(math.MaxInt64) })...)
	w.log(model.NewSeriesKey("time", "", nil), point{timeNs: 5, value: 1.0})
	b := &model.Batch{First: w.seq + 1, Last: w.seq + 2, Updates: []model.Update{
		{Op: model.OpLog, Seq: w.seq + 1, TimeNs: 1, Path: "slash", Text: "oops"},
		{Op: model.OpSetEnvAttribute, Seq: w.seq + 2, Env: "e", Path: "seed", Value: model.IntValue(1)},
	}}
	if _, err := w.session.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	run := "/api/v1/runs/" + w.run.String()
	for _, c := range []struct{ method, pattern, path, body string }{
		{"get", "/api/v1/projects", "/api/v1/projects", ""},
		{"get", "/api/v1/projects/{workspace}/{project}/runs", digits + "?limit=1", ""},
		{"get", "/api/v1/projects/{workspace}/{project}/runs", digits + "?column=config/lr&column=at(time,1)", ""},
		{"get", "/api/v1/projects/{workspace}/{project}/groups", digits[:len(digits)-len("runs")] + "groups?by=config/lr&by=tag&column=config/lr&column=last(n)", ""},
		{"post", "/api/v1/edits", "/api/v1/edits", `{"runs":["` + w.run.String() + `","01ARZ3NDEKTSV4RRFFQ69G5FAV"],"add_tags":["y"]}`},
		{"post", "/api/v1/deletions", "/api/v1/deletions", `{"runs":["` + w.run.String() + `"]}`},
		{"post", "/api/v1/restorations", "/api/v1/restorations", `{"runs":["` + w.run.String() + `"]}`},
		{"get", "/api/v1/resolve", "/api/v1/resolve?run=lab/digits/run", ""},
		{"get", "/api/v1/runs/{id}", run, ""},
		{"patch", "/api/v1/runs/{id}", run, `{"description":"x"}`},
		{"get", "/api/v1/runs/{id}/series", run + "/series?preview=2&limit=2", ""},
		{"get", "/api/v1/runs/{id}/series", run + "/series?int64=string", ""},
		{"get", "/api/v1/runs/{id}/points", run + "/points?metric=loss&label.a=b&limit=2", ""},
		{"get", "/api/v1/runs/{id}/points", run + "/points?metric=n&int64=string", ""},
		{"get", "/api/v1/runs/{id}/points", run + "/points?metric=time", ""},
		{"get", "/api/v1/runs/{id}/buckets", run + "/buckets?metric=loss&label.a=b", ""},
		{"get", "/api/v1/runs/{id}/buckets", run + "/buckets?metric=loss&label.a=b&from=90", ""},
		{"post", "/api/v1/buckets", "/api/v1/buckets", `{"queries":[{"run":"` + w.run.String() + `","metric":"n"},{"run":"` + w.run.String() + `","metric":"?"}]}`},
		{"post", "/api/v1/open", "/api/v1/open", `{"writer":"0900000000000000000000000000000a","workspace":"lab","project":"digits","run_name":"r2","orchestration_id":"o","resume_strategy":"never","local_run":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`},
		{"put", "/api/v1/projects/{workspace}/{project}/views/{name}", digits[:len(digits)-len("runs")] + "views/v", fullView},
		{"get", "/api/v1/projects/{workspace}/{project}/views", digits[:len(digits)-len("runs")] + "views", ""},
		{"get", "/api/v1/projects/{workspace}/{project}/views/{name}", digits[:len(digits)-len("runs")] + "views/v", ""},
		{"delete", "/api/v1/runs/{id}", run, ""},
		{"post", "/api/v1/runs/{id}/restore", run + "/restore", ""},
	} {
		a := l.do(strings.ToUpper(c.method), c.path, nil, c.body)
		if a.status != 200 {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
			continue
		}
		schema := doc.find(doc["paths"], c.pattern, c.method, "responses", "200", "content", "application/json", "schema")
		for _, fault := range doc.check(schema, decode(t, a.body), "") {
			t.Errorf("%s %s: %s", c.method, c.path, fault)
		}
	}
	a := l.do("GET", "/api/v1/runs/x", nil, "")
	for _, fault := range doc.check(doc.find(map[string]any(doc), "components", "schemas", "Error"), decode(t, a.body), "") {
		t.Error(fault)
	}
}
