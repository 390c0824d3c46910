package view_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/view"
)

const panel = `{"title":"p","kind":"line","query":{"metrics":["m"]}}`

func doc(panels ...string) string {
	return `{"format":1,"title":"t","panels":[` + strings.Join(panels, ",") + `]}`
}

// with is a document whose panel has more fields, or others of a kind.
func with(kind, fields string) string {
	return doc(`{"title":"p","kind":"` + kind + `","query":{"metrics":["m"]}` + fields + `}`)
}

// ranged is a document with more fields of its own.
func ranged(fields string) string {
	return `{"format":1,"title":"t",` + fields + `,"panels":[` + panel + `]}`
}

// paged is a document of the page of a project.
func paged(fields string) string {
	return `{"format":1,"title":"t","page":{` + fields + `}}`
}

// documents are texts, with what the error must say, "" for those that are taken; strict
// are errors that a JSON Schema cannot see.
func documents() map[string]struct {
	says   string
	strict bool
} {
	type verdict = struct {
		says   string
		strict bool
	}
	deep := strings.Repeat(`{"a":`, 100_000)
	return map[string]verdict{
		doc(panel): {},
		with("line", `,"axis":"window","reduce":"mean","order":"desc","top":20,"unit":"s"`):                                   {},
		with("stat", `,"by":[],"reduce":"time"`):                                                                              {},
		with("table", `,"by":["label.uid","run"],"columns":"label.task"`):                                                     {},
		doc(`{"title":"Ä\n\u00e4","kind":"stat","query":{"metrics":["**"],"runs":"r*","tags":["x"],"labels":{"Title":"*"}}}`): {},
		ranged(`"last":"24h","axes":{"window":[-3,200],"step":[0,9007199254740992]}`):                                         {},
		ranged(`"last":"9999w"`):                                        {},
		ranged(`"axes":{}`):                                             {},
		ranged(`"last":"all"`):                                          {`last is "all", it must be a whole number and one of m, h, d, w`, false},
		ranged(`"last":"0h"`):                                           {`last is "0h"`, false},
		ranged(`"last":"1h\n"`):                                         {`last is`, false},
		ranged(`"last":24`):                                             {"not the JSON expected", false},
		ranged(`"axes":{"windows":[1,2]}`):                              {`axes is "windows", it must be one of`, false},
		ranged(`"axes":{"time_ns":[1,2]}`):                              {"axes has time_ns: last is the range of time", false},
		ranged(`"axes":{"window":[1]}`):                                 {"axes.window has 1 numbers", false},
		ranged(`"axes":{"window":[1,2,3]}`):                             {"axes.window has 3 numbers", false},
		ranged(`"axes":{"window":[2,2]}`):                               {"axes.window is from 2 to 2", true},
		ranged(`"axes":{"window":[1,9007199254740993]}`):                {"within ±2^53", true},
		ranged(`"axes":{"window":[1.5,2]}`):                             {"not the JSON expected", false},
		ranged(`"axes":{"window":[1,2],"window":[1,2]}`):                {`"window" is given twice`, true},
		`{"format":2,"title":"t","panels":[` + panel + `]}`:             {"format is 2", false},
		`{"title":"t","panels":[` + panel + `]}`:                        {"format is 0", false},
		`{"format":1,"panels":[` + panel + `]}`:                         {"title is empty", false},
		`{"format":1,"title":" ","panels":[` + panel + `]}`:             {"title is empty", false},
		`{"format":1,"title":"t","panels":[]}`:                          {"panels has 0 entries", false},
		`{"format":1,"title":"t","panels":null}`:                        {"panels is null: leave it out", false},
		`{"format":1,"title":"t","panels":{}}`:                          {"not the JSON expected", false},
		`{"format":1,"title":"t","panels":[1]}`:                         {"not the JSON expected", false},
		`{"format":1,"title":"t","panels":[` + panel + `],"x":1}`:       {`unknown field "x"`, false},
		`{"format":1,"Title":"t","panels":[` + panel + `]}`:             {`there is no field "Title"`, false},
		`{"format":1,"title":"t","title":"u","panels":[` + panel + `]}`: {`"title" is given twice`, true},
		doc(panel) + ` {}`:                                              {"more follows", true},
		doc(slices.Repeat([]string{panel}, 200)...):                     {},
		doc(slices.Repeat([]string{panel}, 201)...):                     {"more than 200 entries", false},
		paged(``): {},
		paged(`"params":{"filter":"lr<0.1","by":"lr"},"pinned":["a/b","__proto__"],"order":["+Mine","/train"],"folded":["/"]`): {},
		paged(`"sections":[{"title":"Mine","made":true,"metrics":["x"]},{"title":"Mine","metrics":["Mine/x"]},{"title":""}]`):  {},
		paged(`"newer":{"fields":[1,true,"x"]},"sections":[{"title":"Mine","made":true,"icon":"star"}]`):                       {},
		paged(`"pinned":[` + strings.Repeat(`"m",`, 1_999) + `"m"]`):                                                           {},
		paged(`"pinned":[` + strings.Repeat(`"m",`, 2_000) + `"m"]`):                                                           {"pinned has more than 2000 entries", false},
		paged(`"pinned":"m"`):                                                     {"not the JSON expected", false},
		paged(`"params":{"filter":1}`):                                            {"not the JSON expected", false},
		paged(`"sections":[{"title":" ","made":true}]`):                           {"page.sections[0].title is empty", true},
		paged(`"sections":[{"title":"a","made":true},{"title":"a","made":true}]`): {`page.sections[1] is "a" a second time`, true},
		paged(`"sections":[` + strings.Repeat(`{},`, 200) + `{}]`):                {"page.sections has 201 entries", false},
		paged(`"pinned":null`):                                                    {"pinned is null", false},
		`{"format":1,"title":"t","page":1}`:                                       {"page must be an object", false},
		`{"format":1,"title":"t","page":{},"panels":[` + panel + `]}`:             {"a view has one of the two", false},
		`{"format":1,"title":"t","page":{},"last":"1h"}`:                          {"these are for panels", true},
		`{"format":1,"title":"t"}`:                                                {"panels has 0 entries", false},
		doc(strings.Repeat("{},", 80_000) + "{}"):                                 {"more than 200 entries", false},
		strings.Repeat(" ", view.MaxBytes) + doc(panel):                           {"the most is 262144", true},
		deep:                                     {"the most is 262144", true},
		deep[:200_000]:                           {"nested more than 6 deep", true},
		"":                                       {"not JSON", true},
		"null":                                   {"the view is null", false},
		"[]":                                     {"not the JSON expected", false},
		"\xff":                                   {"not UTF-8", true},
		with("pie", ""):                          {`panels[0].kind is "pie", it must be one of line, stat, table`, false},
		with("line", `,"axis":"windows"`):        {`panels[0].axis is "windows"`, false},
		with("line", `,"reduce":"median"`):       {`panels[0].reduce is "median"`, false},
		with("line", `,"order":"up"`):            {`panels[0].order is "up"`, false},
		with("line", `,"order":"asc","top":201`): {"panels[0].top is 201", false},
		with("line", `,"order":"asc","top":-1`):  {"panels[0].top is -1", false},
		with("line", `,"order":"asc","top":1.5`): {"not the JSON expected", false},
		with("line", `,"top":5`):                 {"panels[0].top needs an order", true},
		with("line", `,"by":["run"]`):            {"panels[0].by is for stat and table", true},
		with("stat", `,"axis":"window"`):         {"panels[0].axis is for lines; this panel is a stat", true},
		with("stat", `,"columns":"run"`):         {"panels[0].columns is for tables", true},
		with("table", `,"columns":"run","order":"asc"`):                                             {"panels[0].order is for tables whose columns are metrics", true},
		with("table", `,"by":["metric"]`):                                                           {"which the columns are made of", true},
		with("stat", `,"by":["run","run"]`):                                                         {"a second time", false},
		with("stat", `,"by":["uid"]`):                                                               {`panels[0].by[0] is "uid", it must be run, metric or label.NAME`, false},
		with("stat", `,"by":["label."]`):                                                            {"panels[0].by[0]", false},
		with("stat", `,"unit":"`+strings.Repeat("u", 41)+`"`):                                       {"panels[0].unit has 41 characters", false},
		doc(`{"title":"p\u0000","kind":"stat","query":{"metrics":["m"]}}`):                          {"panels[0].title holds a control character", true},
		doc(`{"title":"p","kind":"stat","query":{"metrics":[]}}`):                                   {"panels[0].query.metrics has 0 entries", false},
		doc(`{"title":"p","kind":"stat","query":{"metrics":[""]}}`):                                 {"panels[0].query.metrics[0] is empty", false},
		doc(`{"title":"p","kind":"stat","query":{"metrics":["m","m"]}}`):                            {"a second time", false},
		doc(`{"title":"p","kind":"stat","query":{}}`):                                               {"panels[0].query.metrics has 0 entries", false},
		doc(`{"title":"p","kind":"stat"}`):                                                          {"panels[0].query.metrics has 0 entries", false},
		doc(`{"title":"p","kind":"stat","query":{"metrics":["m"],"labels":{"":"x"}}}`):              {"has an empty name", false},
		doc(`{"title":"p","kind":"stat","query":{"metrics":["m"],"labels":{"a":""}}}`):              {"panels[0].query.labels.a is empty", false},
		doc(`{"title":"p","kind":"stat","query":{"metrics":["m"],"labels":{"a":1}}}`):               {"not the JSON expected", false},
		doc(`{"title":"p","kind":"stat","query":{"metrics":["` + strings.Repeat("m", 513) + `"]}}`): {"has 513 characters", false},
	}
}

func TestParse(t *testing.T) {
	for text, want := range documents() {
		got, err := view.Parse([]byte(text))
		switch {
		case want.says == "" && err != nil:
			t.Errorf("%.80s: %v", text, err)
		case want.says == "":
			again, err := view.Parse(got.Text())
			if err != nil || !reflect.DeepEqual(got, again) {
				t.Errorf("%.80s: its text is %s, %v", text, got.Text(), err)
			}
		case err == nil || !strings.Contains(err.Error(), want.says) || model.Shown(err) == nil || model.Shown(err).Hint == "":
			t.Errorf("%.80s: %v, want %q and a hint", text, err, want.says)
		}
	}
}

// The schema, which was written by hand for editors, takes what the parser takes.
func TestTheSchemaAgrees(t *testing.T) {
	text, err := os.ReadFile("../../../docs/format/view.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(text, &s.root); err != nil {
		t.Fatal(err)
	}
	for text, want := range documents() {
		var value any
		if want.strict || json.Unmarshal([]byte(text), &value) != nil {
			continue
		}
		if fault := s.fault(s.root, value, "$"); (fault == "") != (want.says == "") {
			t.Errorf("%.80s: the schema says %q, the parser %q", text, fault, want.says)
		}
	}
}

// schema interprets the part of JSON Schema that the file uses.
type schema struct{ root map[string]any }

func (s schema) fault(node map[string]any, value any, at string) string {
	if ref, ok := node["$ref"].(string); ok {
		node = s.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if enum, ok := node["enum"].([]any); ok && !slices.Contains(enum, value) {
		return at + ": none of the enum"
	}
	number := func(name string, otherwise float64) float64 {
		if n, ok := node[name].(float64); ok {
			return n
		}
		return otherwise
	}
	within := func(n int, low, high string) bool {
		return float64(n) >= number(low, 0) && float64(n) <= number(high, 1e9)
	}
	switch v := value.(type) {
	case string:
		pattern, _ := node["pattern"].(string)
		if node["type"] != "string" && node["type"] != nil || !within(utf8.RuneCountInString(v), "minLength", "maxLength") || !regexp.MustCompile(pattern).MatchString(v) {
			return at + ": text"
		}
	case float64:
		if node["type"] != "integer" && node["type"] != nil || v != float64(int(v)) || !within(int(v), "minimum", "maximum") {
			return at + ": number"
		}
	case []any:
		if node["type"] != "array" || !within(len(v), "minItems", "maxItems") {
			return at + ": list"
		}
		for i, item := range v {
			if node["uniqueItems"] == true && slices.Contains(v[:i], item) {
				return at + ": twice"
			}
			if f := s.fault(node["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", at, i)); f != "" {
				return f
			}
		}
	case map[string]any:
		return s.object(node, v, at)
	case bool:
		if node["type"] != "boolean" && node["type"] != nil {
			return at + ": bool"
		}
	default:
		return at + ": null"
	}
	return ""
}

// without names a field that is required and not there.
func without(node, v map[string]any) string {
	required, _ := node["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return name.(string)
		}
	}
	return ""
}

func (s schema) object(node, v map[string]any, at string) string {
	if node["type"] != "object" || node["maxProperties"] != nil && float64(len(v)) > node["maxProperties"].(float64) {
		return at + ": object"
	}
	if name := without(node, v); name != "" {
		return at + ": without " + name
	}
	if ways, ok := node["oneOf"].([]any); ok && len(slices.DeleteFunc(slices.Clone(ways), func(way any) bool { return without(way.(map[string]any), v) != "" })) != 1 {
		return at + ": not one of the two"
	}
	properties, _ := node["properties"].(map[string]any)
	for name, field := range v {
		child, known := properties[name].(map[string]any)
		if free := node["additionalProperties"]; !known && (free == true || free == nil) {
			continue // a field of a newer version
		}
		if !known {
			child, known = node["additionalProperties"].(map[string]any)
		}
		if names, ok := node["propertyNames"].(map[string]any); !known || ok && s.fault(names, name, at) != "" {
			return at + ": field " + name
		}
		if f := s.fault(child, field, at+"."+name); f != "" {
			return f
		}
	}
	return ""
}

// A hostile document takes no more memory than a few of the largest honest ones.
func TestParseIsBounded(t *testing.T) {
	hostile := []string{
		doc(strings.Repeat("{},", 80_000) + "{}"),
		doc(`{"query":{"labels":{` + strings.Repeat(`"":"",`, 40_000) + `"":""}}}`),
		doc(`{"query":{"metrics":[` + strings.Repeat(`"",`, 80_000) + `""]}}`),
		strings.Repeat("[", 250_000),
		strings.Repeat("{\"a\":[", 40_000),
		`{"` + strings.Repeat("t", 250_000) + `":1}`,
	}
	for _, text := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := view.Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 4<<20 || len(err.Error()) > 2_000 {
			t.Errorf("%.60s: took %d bytes, %.300v", text, took, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"training": true, "a": true, "9.b_c-d": true, strings.Repeat("a", 100): true,
		"": false, ".": false, "..": false, "-a": false, "a/b": false, "a b": false, "ä": false, strings.Repeat("a", 101): false, "a\n": false,
	} {
		if err := view.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for text := range documents() {
		if len(text) < 10_000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := view.Parse(text)
		if err != nil {
			return
		}
		again, err := view.Parse(got.Text())
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("%s becomes %s: %v", text, got.Text(), err)
		}
	})
}
