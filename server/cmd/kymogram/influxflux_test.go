package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// snippet is what one of Templar's Flux snippets asks for.
type snippet struct {
	measurements, fields []string
	role                 string // "": any of a variable; "-": not asked for
	by                   string // one more dimension
	last                 bool   // the latest value: of all, or of the means
	text                 bool
}

// fluxSnippets are Templar's 22.
func fluxSnippets() map[string]snippet {
	const miner, window, scores = "Mtraining_step_v2", "Vvalidator_window_v2", "Vvalidator_scores"
	list := func(names ...string) []string { return names }
	return map[string]snippet{
		"Mtraining_step_loss":                   {measurements: list(miner), fields: list("loss")},
		"Mtraining_step_tokens_per_sec":         {measurements: list(miner), fields: list("tokens_per_sec")},
		"Mtraining_step_batch_size":             {measurements: list(miner), fields: list("effective_batch_size")},
		"Mtraining_step_batch_time":             {measurements: list(miner), fields: list("batch_duration")},
		"Mtraining_step_grad_step_time":         {measurements: list(miner), fields: list("model_update_time")},
		"Mtraining_step_optimizer_state_size":   {measurements: list(miner), fields: list("optimizer_state_size")},
		"Mtraining_step_active_peers":           {measurements: list(miner), fields: list("active_peers"), role: "miner"},
		"Mtraining_step_gather_peers":           {measurements: list(miner), fields: list("gather_peers"), role: "miner", last: true, text: true},
		"Vvalidator_window_loss_comparison":     {measurements: list(window), fields: list("loss_own_before", "loss_own_after", "loss_random_before", "loss_random_after")},
		"Vvalidator_window_improvement":         {measurements: list(window), fields: list("loss_own_improvement", "loss_random_improvement")},
		"Vvalidator_operation_times":            {measurements: list(window), fields: list("gather_time", "evaluation_time", "model_update_time", "peer_update_time")},
		"Vvalidator_slashing":                   {measurements: list("Vvalidator_inactivity", "Vvalidator_slash"), fields: list("score_before", "score_after"), role: "-", by: "eval_uid"},
		"Vtemplar_metrics_v2_weight":            {measurements: list(scores), fields: list("weight"), by: "eval_uid"},
		"Vtemplar_metrics_v2_binary_indicators": {measurements: list(scores), fields: list("binary_indicator", "binary_moving_avg", "normalised_binary"), role: "validator", by: "eval_uid"},
		"Ebenchmark_task_score":                 {measurements: list("Ebenchmark_task"), fields: list("score"), role: "evaluator", by: "task"},
		"Ebenchmark_metrics_runtime":            {measurements: list("Ebenchmark_metrics"), fields: list("benchmark_runtime_s"), role: "evaluator"},
		"gather_success_rate":                   {measurements: list(miner, window), fields: list("gather_success_rate")},
		"cpu_usage":                             {fields: list("sys_cpu_usage", "cpu_usage")},
		"memory_usage":                          {fields: list("sys_mem_used", "sys_mem_total", "mem_used", "mem_total")},
		"gpu_memory_usage":                      {fields: list("gpu_mem_allocated_mb", "gpu_mem_cached_mb", "gpu_mem_total_mb")},
		"gpu_utilization":                       {fields: list("gpu_utilization")},
		"gpu_mem_segments":                      {fields: list("gpu_mem_segments"), last: true},
	}
}

const (
	fluxStart = 1_700_000_400 // s, the start of an interval
	fluxSpan  = 7200
	fluxEvery = 600
)

// flux writes a snippet as Templar's file has it, but for two things: measurements stay
// apart, and what last() takes is in the order of time.
func (s *snippet) flux() string {
	or := func(column string, names []string) string {
		var parts []string
		for _, name := range names {
			parts = append(parts, fmt.Sprintf("r[%q] == %q", column, name))
		}
		return " |> filter(fn: (r) => " + strings.Join(parts, " or ") + ")"
	}
	at := func(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }
	text := fmt.Sprintf(`from(bucket: "p/autogen") |> range(start: %s, stop: %s)`, at(fluxStart), at(fluxStart+fluxSpan))
	if len(s.measurements) > 0 {
		text += or("_measurement", s.measurements)
	}
	text += or("_field", s.fields)
	for _, tag := range []string{"uid", "role", "group", "version"} {
		switch {
		case tag == "role" && s.role != "" && s.role != "-":
			text += or("role", []string{s.role})
		case (tag == "role" || tag == "group") && s.role != "":
		default:
			text += fmt.Sprintf(` |> filter(fn: (r) => r[%q] =~ /%s/)`, tag, fluxVariables()[tag])
		}
	}
	columns := []string{`"_measurement"`, `"uid"`, `"_field"`}
	if s.by != "" {
		columns = append(columns, `"`+s.by+`"`)
	}
	text += " |> group(columns: [" + strings.Join(columns, ", ") + "])"
	if !s.text {
		text += fmt.Sprintf(" |> aggregateWindow(every: %ds, fn: mean, createEmpty: false)", fluxEvery)
	}
	if s.last {
		text += ` |> sort(columns: ["_time"]) |> last()`
	}
	return text
}

// fluxVariables are the dashboards'.
func fluxVariables() map[string]string {
	return map[string]string{"uid": "^(1|2|12)$", "role": "^(miner|validator)$", "group": "^.*$", "version": "^2.1.[34]$"}
}

// subnetLines are what miners, validators and an evaluator send in three hours, in two lives
// of two versions.
func subnetLines(seed uint64) (lines []string) {
	r := rand.New(rand.NewPCG(seed, 22))
	point := func(second int64, measurement, process, tags string, fields ...string) {
		for i, name := range fields {
			if !strings.Contains(name, "=") {
				fields[i] = fmt.Sprintf("%s=%.4f", name, r.NormFloat64()*10)
			}
		}
		lines = append(lines, fmt.Sprintf("%s,%s%s %s %d", measurement, process, tags, strings.Join(fields, ","), second*1e9+r.Int64N(1e9)))
	}
	system := []string{"sys_cpu_usage", "sys_mem_used", "sys_mem_total", "gpu_mem_segments=3i", "gpu_mem_allocated_mb", "gpu_mem_cached_mb", "gpu_mem_total_mb"}
	for i := range int64(120) {
		at, window := fluxStart-1800+i*90, fmt.Sprintf(",window=%d,global_step=%d", 4000+i, 100+i)
		version, life := "2.1.3", "a"
		if i > 40 {
			version, life = "2.1.4", "b"
		}
		if i > 90 {
			version, life = "2.2.0", "c" // which no variable lets through
		}
		process := func(prefix, role, group, uid string) string {
			return fmt.Sprintf("prefix=%s,role=%s,group=%s,uid=%s,version=%s,runtime_id=%s%s%s", prefix, role, group, uid, version, role, uid, life)
		}
		for _, uid := range []string{"1", "2", "3"} {
			point(at, "Mtraining_step_v2", process("M", "miner", "miner", uid), window, "loss", "tokens_per_sec", "model_update_time", "gather_success_rate", fmt.Sprintf("gather_peers=\"[%d]\"", r.IntN(99)))
		}
		validator := process("V", "validator", "validator", "12")
		point(at, "Vvalidator_window_v2", validator, window, append([]string{
			"loss_own_before", "loss_own_after", "loss_random_before", "loss_random_after", "loss_own_improvement", "loss_random_improvement",
			"gather_time", "evaluation_time", "model_update_time", "peer_update_time", "gather_success_rate",
		}, system...)...)
		for _, eval := range []string{"1", "2"} {
			point(at+1, "Vvalidator_scores", validator, ",eval_uid="+eval+window, append([]string{"weight", "binary_indicator", "binary_moving_avg"}, slices.Clone(system)...)...)
		}
		if i%9 == 0 {
			point(at+2, "Vvalidator_slash", validator, ",eval_uid=2"+window, "score_before", "score_after")
			point(at+3, "Vvalidator_inactivity", validator, window, "score_before", "score_after")
			point(at+4, "Ebenchmark_task", process("E", "evaluator", "evaluations", "1"), ",task=piqa,metric=acc"+window, "score")
		}
	}
	return lines
}

// documentedQueries are those of the guide, by the names of the snippets.
func documentedQueries(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guides", "templar-queries.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(raw), "\n-- ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		query, _, _ := strings.Cut(rest, ";")
		out[name] = query
	}
	return out
}

// Each of Templar's Flux snippets, asked of InfluxDB 1.8.3, has the values of its InfluxQL,
// asked of Kymogram.
func TestTemplarsFluxAndOurInfluxQL(t *testing.T) {
	influx, s := startInflux(t, "influxd-1.8", "flux-enabled = true\n"), serveNode(t, true)
	if status, text := askInflux(t, influx, "CREATE DATABASE p"); status != http.StatusOK {
		t.Fatal(text)
	}
	body := strings.Join(subnetLines(uint64(time.Now().UnixNano())), "\n")
	for _, address := range []string{influx, "http://" + s.address} {
		if status, text := post(t, address+"/write?db=p", body); status != http.StatusNoContent {
			t.Fatal(address, status, text)
		}
	}
	queries, filled := documentedQueries(t), 0
	if len(queries) != 22 || len(fluxSnippets()) != 22 {
		t.Fatalf("%d queries, %d snippets", len(queries), len(fluxSnippets()))
	}
	for name, snippet := range fluxSnippets() {
		want := fluxValues(t, influx, &snippet)
		got := influxQLValues(t, "http://"+s.address, queries[name], &snippet)
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
			t.Errorf("%s (-Flux +InfluxQL):\n%.2000s", name, diff)
		}
		if len(want) > 0 {
			filled++
		}
	}
	if filled < 14 {
		t.Errorf("only %d of the snippets have points", filled)
	}
}

// fluxValues are the values of an answer by measurement, tags, field and the interval's start.
func fluxValues(t *testing.T, address string, s *snippet) map[string]any {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/api/v2/query?org=o", strings.NewReader(s.flux()))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/vnd.flux")
	q.Header.Set("Accept", "application/csv")
	answer, err := http.DefaultClient.Do(q)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	defer answer.Body.Close()
	reader := csv.NewReader(answer.Body)
	reader.FieldsPerRecord = -1
	lines, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out, columns := map[string]any{}, []string(nil)
	for _, line := range lines {
		if strings.HasPrefix(line[0], "#") {
			continue
		}
		if slices.Contains(line, "_value") {
			columns = line
			continue
		}
		cell := func(name string) string {
			if i := slices.Index(columns, name); i >= 0 && i < len(line) {
				return line[i]
			}
			return ""
		}
		at, err := time.Parse(time.RFC3339Nano, cell("_time"))
		if err != nil {
			t.Fatalf("%v: %v", line, err)
		}
		if !s.text {
			at = at.Add(-fluxEvery * time.Second)
		}
		out[s.key(cell("_measurement"), cell("uid"), cell(s.by), cell("_field"), at.UnixNano())] = number(cell("_value"))
	}
	return out
}

func (s *snippet) key(measurement, uid, by, field string, ns int64) string {
	return fmt.Sprintf("%s uid=%s by=%s %s %d", measurement, uid, by, field, ns)
}

// number reads a value, which may be a text.
func number(text string) any {
	var f float64
	if json.Unmarshal([]byte(text), &f) == nil {
		return f
	}
	return text
}

func influxQLValues(t *testing.T, address, query string, s *snippet) map[string]any {
	t.Helper()
	replace := []string{"$timeFilter", fmt.Sprintf("time >= %ds AND time < %ds", int64(fluxStart), int64(fluxStart+fluxSpan)), "$__interval", fmt.Sprintf("%ds", int64(fluxEvery))}
	for name, value := range fluxVariables() {
		replace = append(replace, "/^$"+name+"$/", "/"+value+"/")
	}
	status, text := post(t, address+"/query?"+url.Values{"db": {"p"}, "epoch": {"ns"}, "q": {strings.NewReplacer(replace...).Replace(query)}}.Encode(), "")
	var doc struct {
		Results []struct {
			Error  string
			Series []struct {
				Name    string
				Tags    map[string]string
				Columns []string
				Values  [][]any
			}
		}
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil || status != http.StatusOK || doc.Results[0].Error != "" {
		t.Fatal(query, text, err)
	}
	out := map[string]any{}
	for _, series := range doc.Results[0].Series {
		for _, values := range series.Values {
			ns, _ := values[0].(json.Number).Int64()
			for i, v := range values[1:] {
				if v != nil {
					out[s.key(series.Name, series.Tags["uid"], series.Tags[s.by], series.Columns[i+1], ns)] = number(fmt.Sprint(v))
				}
			}
		}
	}
	return out
}
