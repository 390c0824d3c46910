package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/read"
)

// nameRule is a cell of docs/names.md, read as a person reads it.
type nameRule struct {
	text        string
	least, most int
	allowed     func(r rune, first bool) bool
	noFirst     []string
	spelled     bool // what it does not allow is kept in another spelling
}

var (
	bytesPhrase = regexp.MustCompile(`^([\d,]+) to ([\d,]+) bytes$`)
	quoted      = regexp.MustCompile("`([^`]+)`")
)

// spell is what is kept of a name that the rule does not allow.
func (n *nameRule) spell(s string) string {
	var out strings.Builder
	for _, r := range s {
		if !n.allowed(r, false) {
			r = '_'
		}
		if out.Len()+utf8.RuneLen(r) > n.most {
			break
		}
		out.WriteRune(r)
	}
	return out.String()
}

// allows is the rule, applied naively.
func (n *nameRule) allows(s string) bool {
	if len(s) < n.least || len(s) > n.most || slices.ContainsFunc(n.noFirst, func(p string) bool { return strings.HasPrefix(s, p) }) {
		return false
	}
	for i, r := range s {
		if !n.allowed(r, i == 0) {
			return false
		}
	}
	return true
}

func parseRule(t *testing.T, cell string) *nameRule {
	t.Helper()
	out := &nameRule{text: cell}
	var rules []func(r rune, first bool) bool
	for phrase := range strings.SplitSeq(cell, "; ") {
		set := ""
		if m := quoted.FindStringSubmatch(phrase); m != nil {
			set = strings.ReplaceAll(m[1], `\|`, "|")
		}
		switch m := bytesPhrase.FindStringSubmatch(phrase); {
		case m != nil:
			out.least, _ = strconv.Atoi(m[1])
			out.most, _ = strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
		case phrase == "no white space":
			rules = append(rules, func(r rune, _ bool) bool { return !unicode.IsSpace(r) })
		case phrase == "no control characters":
			rules = append(rules, func(r rune, _ bool) bool { return !unicode.IsControl(r) })
		case strings.HasPrefix(phrase, "none of "):
			rules = append(rules, func(r rune, _ bool) bool { return !strings.ContainsRune(set, r) })
		case strings.HasPrefix(phrase, "letters, digits and "):
			rules = append(rules, func(r rune, _ bool) bool {
				return r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune(set, r)
			})
		case strings.HasPrefix(phrase, "no ") && strings.HasSuffix(phrase, " first") && set == "._-":
			out.noFirst = append(out.noFirst, ".", "_", "-")
		case strings.HasPrefix(phrase, "no ") && strings.HasSuffix(phrase, " first"):
			out.noFirst = append(out.noFirst, set)
		case phrase == "else `_`, and cut":
			out.spelled = true
		default:
			t.Fatalf("docs/names.md: the test cannot read %q of %q", phrase, cell)
		}
	}
	out.allowed = func(r rune, first bool) bool {
		return !slices.ContainsFunc(rules, func(ok func(rune, bool) bool) bool { return !ok(r, first) })
	}
	return out
}

// nameTable is docs/names.md: kind → door → rule, nil where a door has no such name.
func nameTable(t *testing.T) map[string]map[string]*nameRule {
	t.Helper()
	text, err := os.ReadFile("../../../docs/names.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]*nameRule{}
	var doors []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := regexp.MustCompile(` \| `).Split(strings.Trim(strings.TrimSuffix(line, "|"), "| "), -1)
		if doors == nil {
			doors = cells
			continue
		}
		row := map[string]*nameRule{}
		for i, cell := range cells[1:] {
			switch cell = strings.TrimSpace(cell); cell {
			case "–":
			case "as the SDKs":
				row[doors[i]] = parseRule(t, cells[1])
			default:
				row[doors[i]] = parseRule(t, cell)
			}
		}
		out[cells[0]] = row
	}
	return out
}

// examples are names at the edges of all rules.
func examples() (out []string) {
	out = []string{"", "a", "A9", "train/loss", "a b", "a\u3000b", "a\u2028b", "a\tb", "a\x7fb", "a\u0085b", "é漢字😀", ":a", "a:b", "sys/a", "sysa", "/a//"}
	for c := '!'; c <= '~'; c++ {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			out = append(out, "a"+string(c)+"b")
			if c != '#' { // begins a comment in line protocol
				out = append(out, string(c)+"b")
			}
		}
	}
	for _, size := range []int{128, 256, 512, 1022, 1024} {
		out = append(out, strings.Repeat("x", size), strings.Repeat("x", size+1), strings.Repeat("é", size/2), strings.Repeat("é", size/2)+"x")
	}
	return out
}

// door is one way in: it takes a name of a kind, and says why not.
type door func(kind, name string) (refusal string)

// stored is what is read back of a kind, in the runs of a workspace.
func (k *kitchen) storedNames(workspace string) map[string]map[string]bool {
	k.t.Helper()
	client, err := read.Dial(k.env["KYMOGRAM_SERVER"], k.key())
	if err != nil {
		k.t.Fatal(err)
	}
	out := map[string]map[string]bool{"metric": {}, "label name": {}, "label value": {}, "run": {}, "project, workspace": {}, "tag": {}, "attribute path": {}}
	ctx := k.t.Context()
	for p, err := range client.Projects(ctx) {
		if err != nil {
			k.t.Fatal(err)
		}
		out["project, workspace"][p.Project] = true
		if p.Workspace != workspace {
			continue
		}
		for run, err := range client.Runs(ctx, p.Workspace, p.Project, read.RunFilter{}) {
			if err != nil {
				k.t.Fatal(err)
			}
			out["run"][run.Name] = true
			for _, tag := range run.Tags {
				out["tag"][tag] = true
			}
			attributes, err := run.Attributes(ctx)
			if err != nil {
				k.t.Fatal(err)
			}
			for path := range attributes {
				out["attribute path"][path] = true
			}
			for series, err := range run.Series(ctx, "") {
				if err != nil {
					k.t.Fatal(err)
				}
				out["metric"][series.Metric] = true
				for name, value := range series.Labels {
					out["label name"][name], out["label value"][value] = true, true
				}
			}
		}
	}
	return out
}

// Each cell of docs/names.md, tried with names at the edges of its rule: what it allows is
// read back as it was given; what it does not is refused with a reason, or spelled anew.
func TestTheTableOfNames(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	table := nameTable(t)
	if len(table) != 7 {
		t.Fatalf("docs/names.md has %d rows", len(table))
	}
	try := func(column, workspace string, door door, flush func()) {
		for kind, row := range table {
			rule := row[column]
			if rule == nil {
				continue
			}
			for _, name := range examples() {
				refusal := door(kind, name)
				if allowed := rule.allows(name); allowed != (refusal == "") && name != "" {
					t.Errorf("%s of %s: %q: refused with %q, the table says %v: %s", kind, column, short(name), refusal, allowed, rule.text)
				}
			}
		}
		flush()
		got := k.storedNames(workspace)
		for kind, row := range table {
			for _, name := range examples() {
				given := name
				if column == "line protocol" && kind == "metric" {
					given = "m/" + name
				}
				if rule := row[column]; rule != nil && rule.allows(name) != got[kind][given] && name != "" {
					t.Errorf("%s of %s: %q is stored: %v, the table says %v: %s", kind, column, short(name), got[kind][given], rule.allows(name), rule.text)
				}
			}
		}
	}
	sdk, flush := k.sdkDoor("sdk")
	try("Python and Go SDK", "sdk", sdk, flush)
	try("line protocol", "line", k.lineDoor("line"), func() {})
	try("remote write", "remote", k.remoteDoor("remote"), func() {})
	k.importAll(table)
}

func short(name string) string { return name[:min(len(name), 12)] }

func (k *kitchen) sdkDoor(workspace string) (door, func()) {
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	open := func(options kymogram.Options) (*kymogram.Run, error) {
		options.Workspace, options.SpoolDir, options.NoUplink, options.Log = workspace, k.spool(), true, slog.New(slog.DiscardHandler)
		options.Server, options.APIKey, options.CloseTimeout = "http://"+k.address, k.key(), time.Millisecond
		return kymogram.Init(context.Background(), options)
	}
	main, err := open(kymogram.Options{RunName: "main"})
	if err != nil {
		k.t.Fatal(err)
	}
	others := []*kymogram.Run{main}
	through := func(kind, name string) error {
		switch kind {
		case "metric":
			return main.Log(name, 1)
		case "label name":
			return main.Log("m", 1, kymogram.Labels(map[string]string{name: "v"}))
		case "label value":
			return main.Log("m", 1, kymogram.Labels(map[string]string{"l": name}))
		case "tag":
			return main.AddTags(name)
		case "attribute path":
			return main.LogAttributes(name, 1)
		}
		options := kymogram.Options{RunName: name}
		if kind != "run" {
			options = kymogram.Options{RunName: "r", Project: name}
		}
		r, err := open(options)
		if err == nil {
			others = append(others, r)
			err = r.Log("m", 1)
		}
		return err
	}
	return func(kind, name string) string { return said(through(kind, name)) }, func() {
		for _, r := range others {
			_ = r.Close(context.Background()) // says that sync delivers
		}
		k.ok("sync", "--server", "http://"+k.address)
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// post sends a body and gives the refusal.
func (k *kitchen) post(path string, query url.Values, header http.Header, body []byte) string {
	k.t.Helper()
	q, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, "http://"+k.address+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	q.Header = header
	q.Header.Set("Authorization", "Bearer "+k.key())
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		k.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	if answer.StatusCode >= 300 && len(text) == 0 {
		k.t.Errorf("%s answers %d without a reason", path, answer.StatusCode)
	}
	if answer.StatusCode < 300 {
		return ""
	}
	return string(text)
}

func (k *kitchen) lineDoor(workspace string) door {
	escape := strings.NewReplacer(",", `\,`, "=", `\=`, " ", `\ `)
	return func(kind, name string) string {
		query := url.Values{"org": {workspace}, "bucket": {"b"}}
		line := "m,run=r f=1 5"
		switch kind {
		case "metric":
			line = "m,run=r " + escape.Replace(name) + "=1 5"
		case "label name":
			line = "m,run=r," + escape.Replace(name) + "=v f=1 5"
		case "label value":
			line = "m,run=r,l=" + escape.Replace(name) + " f=1 5"
		case "run":
			line = "m,run=" + escape.Replace(name) + " f=1 5"
		case "project, workspace":
			query.Set("bucket", name)
		}
		return k.post("/api/v2/write", query, http.Header{}, []byte(line))
	}
}

func (k *kitchen) remoteDoor(workspace string) door {
	return func(kind, name string) string {
		query := url.Values{"workspace": {workspace}, "project": {"p"}}
		labels := map[string]string{"__name__": "m", "run": "r"}
		switch kind {
		case "metric":
			labels["__name__"] = name
		case "label name":
			labels[name] = "v"
		case "label value":
			labels["l"] = name
		case "run":
			labels["run"] = name
		case "project, workspace":
			query.Set("project", name)
		}
		series := prompb.TimeSeries{Samples: []prompb.Sample{{Value: 1, Timestamp: 5}}}
		for name, value := range labels {
			series.Labels = append(series.Labels, prompb.Label{Name: name, Value: value})
		}
		slices.SortFunc(series.Labels, func(a, b prompb.Label) int { return strings.Compare(a.Name, b.Name) })
		raw, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{series}}).Marshal()
		if err != nil {
			k.t.Fatal(err)
		}
		header := http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}}
		return k.post("/api/v1/write", query, header, snappy.Encode(nil, raw))
	}
}

// importAll imports a table for each kind of name. Labels that are not allowed are refused
// by the server, and counted by the import.
func (k *kitchen) importAll(table map[string]map[string]*nameRule) {
	rules := map[string]*nameRule{}
	for kind, row := range table {
		rules[kind] = row["importers"]
	}
	labels := func(name, value string) string {
		text, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			k.t.Fatal(err)
		}
		return string(text)
	}
	long, wide := []string{"metric", "labels", "step", "value"}, []string{"run", "step", "x"}
	tables := map[string][][]string{"metric": {long}, "label name": {long}, "label value": {long}, "run": {wide}}
	refused := map[string]int{}
	add := func(kind string, cells ...string) { tables[kind] = append(tables[kind], cells) }
	for i, name := range examples()[1:] {
		step := strconv.Itoa(i)
		add("metric", name, "", step, "1")
		add("label name", "m", labels(name, "v"), step, "1")
		add("label value", "m", labels("l", name), step, "1")
		for _, kind := range []string{"label name", "label value"} {
			if !rules[kind].allows(name) {
				refused[kind]++
			}
		}
		if rules["run"].allows(name) { // two runs of one name are refused as a whole
			add("run", name, step, "1")
		}
		if i%8 == 0 {
			err := k.importTable("imports", name, [][]string{wide, {"r", "1", "1"}})
			if rule := rules["project, workspace"]; rule.allows(name) != (err == "") {
				k.t.Errorf("the project %q of importers: refused with %q, the table says %v", short(name), err, rule.allows(name))
			}
		}
	}
	add("run", "c\td", "1", "1")
	for kind, rows := range tables {
		said := k.importTable("imports", "tables", rows)
		if want := fmt.Sprintf("refused %d points", refused[kind]); refused[kind] > 0 != strings.Contains(said, want) || refused[kind] == 0 && said != "" {
			k.t.Errorf("%s: the import says %q, want %s", kind, said, want)
		}
	}
	got := k.storedNames("imports")
	is := func(kind, name string, want bool) {
		k.t.Helper()
		if got[kind][name] != want {
			k.t.Errorf("%s of importers: %q is stored: %v, the table says %v", kind, short(name), !want, want)
		}
	}
	for _, name := range examples()[1:] {
		for kind := range tables {
			is(kind, name, rules[kind].allows(name))
		}
		is("metric", rules["metric"].spell(name), true)
	}
	is("run", rules["run"].spell("c\td"), true)
}

// importTable imports a table into a project and gives what a failure says.
func (k *kitchen) importTable(workspace, project string, rows [][]string) string {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		k.t.Fatal(err)
	}
	path := filepath.Join(k.t.TempDir(), "table.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		k.t.Fatal(err)
	}
	code, _, errs := k.run("import", "csv", path, "--workspace", workspace, "--project", project)
	if code == 0 {
		return ""
	}
	return errs
}
