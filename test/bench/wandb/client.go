package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The place of every run that is logged here.
const entity = "team"

// client is a process that logs, as the SDK does, or reads.
type client struct {
	*server
	http *http.Client
}

func (s *server) client() *client {
	return &client{s, &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1}}}
}

func (c *client) send(ctx context.Context, path string, body []byte) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.SetBasicAuth("api", c.key)
	q.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %.300s", path, answer.Status, text)
	}
	return text, err
}

// ask sends a GraphQL document.
func (c *client) ask(ctx context.Context, document string, variables map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return err
	}
	text, err := c.send(ctx, "/graphql", body)
	if err != nil {
		return err
	}
	var answer struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("read the answer: %w: %.300s", err, text)
	}
	if len(answer.Errors) > 0 {
		return errors.New(answer.Errors[0].Message)
	}
	return json.Unmarshal(answer.Data, into)
}

const upsertBucket = `mutation UpsertBucket($name: String, $project: String, $entity: String, $displayName: String, $config: JSONString, $host: String, $program: String, $summaryMetrics: JSONString, $tags: [String!]) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config, host: $host, jobProgram: $program, summaryMetrics: $summaryMetrics, tags: $tags}) {
    bucket { id name displayName description config sweepName historyLineCount project { id name entity { id name } } } inserted } }`

// begin opens a run.
func (c *client) begin(ctx context.Context, project, run, config string) error {
	return c.upsert(ctx, map[string]any{
		"name": run, "project": project, "entity": entity, "displayName": run, "config": config, "host": "node-0", "program": "train.py", "tags": []string{"bench"},
	})
}

// upsert changes a run as the SDK does: what the variables lack is null.
func (c *client) upsert(ctx context.Context, variables map[string]any) error {
	var answer struct {
		UpsertBucket struct{ Bucket struct{ ID string } }
	}
	err := c.ask(ctx, upsertBucket, variables, &answer)
	if err == nil && answer.UpsertBucket.Bucket.ID == "" {
		err = errors.New("upsertBucket gave no run")
	}
	return err
}

// configOf is a config of about so many bytes, with the SDK's own key.
func configOf(i, size int) string {
	var out strings.Builder
	fmt.Fprintf(&out, `{"lr":{"value":%g},"seed":{"value":%d},"model":{"value":{"layers":%d,"width":%d}}`, float64(i%1000)/1e5, i, i%48, 64*(i%32))
	for k := range size / 50 { // always the same keys: a key that is missing is another process's
		fmt.Fprintf(&out, `,"option_%02d":{"value":"value %d of option %d"}`, k, i%97, k)
	}
	out.WriteString(`,"_wandb":{"value":{"cli_version":"0.31.0","python_version":"3.12.3","t":{"1":[1,5,53],"3":[16],"4":"3.12.3"},"m":[]}}}`)
	return out.String()
}

// chunk is the body of a file_stream.
type chunk struct {
	files [][]byte
	first int // its history's offset
	lines []string
	rest  string
}

// history appends rows from step on: value gives the key's value in a row.
func rows(step, n int, keys []string, value func(key, row int) float64) []string {
	out := make([]string, n)
	var line []byte
	for i := range n {
		line = append(line[:0], '{')
		for k, key := range keys {
			line = append(append(append(line, '"'), key...), `":`...)
			line = append(strconv.AppendFloat(line, value(k, step+i), 'g', -1, 64), ',')
		}
		line = append(line, `"_runtime":`...)
		line = strconv.AppendFloat(line, runtimeOf(step+i), 'f', -1, 64)
		line = append(line, `,"_step":`...)
		line = strconv.AppendInt(line, int64(step+i), 10)
		line = append(line, `,"_timestamp":`...)
		line = append(strconv.AppendFloat(line, 1.79e9+runtimeOf(step+i), 'e', -1, 64), '}')
		out[i] = string(line)
	}
	return out
}

func runtimeOf(step int) float64 { return float64(step)*0.1 + float64(step*7919%1000)*1e-6 }

// body is the text of a chunk.
func (k *chunk) body() []byte {
	out := []byte(`{"files":{`)
	if k.lines != nil {
		out = file(out, "wandb-history.jsonl", k.first, k.lines)
	}
	for _, f := range k.files {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(out, f...)
	}
	return append(append(out, '}'), k.rest+"}"...)
}

func file(out []byte, name string, offset int, lines []string) []byte {
	out = append(append(append(out, '"'), name...), `":{"offset":`...)
	out = append(strconv.AppendInt(out, int64(offset), 10), `,"content":[`...)
	for i, line := range lines {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendQuoteToASCII(out, line)
	}
	return append(out, `]}`...)
}

// summary is the file of a summary.
func summary(text string) []byte { return file(nil, "wandb-summary.json", 0, []string{text}) }

const done = `,"complete":true,"exitcode":0`

func (c *client) stream(ctx context.Context, project, run string, k *chunk) error {
	return c.streamRaw(ctx, project, run, k.body())
}

func (c *client) streamRaw(ctx context.Context, project, run string, body []byte) error {
	_, err := c.send(ctx, "/files/"+entity+"/"+project+"/"+run+"/file_stream", body)
	return err
}

// names are n keys.
func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("train/metric_%05d", i)
	}
	return out
}

// noisy is a loss with its full mantissa.
func noisy(key, row int) float64 {
	x := uint64(key)<<32 ^ uint64(row)
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return 2/(1+float64(row)/5e3) + 0.05*float64(x>>11)/(1<<53)
}

// timed is how long something takes by the clock.
func timed(do func() error) (time.Duration, error) {
	begin := time.Now()
	err := do()
	return time.Since(begin), err
}
