package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// lineStore applies line protocol one line at a time.
type lineStore map[string]map[float64][]any // of each field the points by time: value and step

// put is a line; it reports whether the types of its fields let it in.
func (m lineStore) put(fields map[string]any, time float64, step any) bool {
	for name, v := range fields {
		for _, p := range m[name] {
			_, text := v.(string)
			if _, held := p[0].(string); text != held {
				return false
			}
		}
	}
	for name, v := range fields {
		if m[name] == nil {
			m[name] = map[float64][]any{}
		}
		m[name][time] = []any{v, step}
	}
	return true
}

// Of two lines of one request that give one point the last counts, whatever axes and fields
// each of them has.
func TestInfluxTheLastLineWins(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	random := rand.New(rand.NewPCG(1, 2))
	write := func(body string) answer {
		return s.send("POST", "/api/v2/write?org=w&bucket=p", []byte(body), map[string]string{"Authorization": "Token " + s.keys["admin"]})
	}
	if got := write("x,run=a g=7 1\nx,run=a,step=5 f=1 1\nx,run=a f=2 1\n"); got.code != 204 {
		t.Fatalf("%+v", got)
	}
	s.want("the last line", s.points("w", "p", "a", url.Values{"metric": {"x/f"}, "axis": {"time_ns"}})["value"], []any{2.0})
	for round := range 40 {
		model := lineStore{}
		for range 1 + random.IntN(4) {
			var body strings.Builder
			refused := false
			for range 1 + random.IntN(30) {
				fields, texts := map[string]any{}, []string{}
				for _, name := range []string{"f", "g", "h"} {
					v := float64(random.IntN(1000))
					switch n := random.IntN(20); {
					case n < 6:
						fields[name], texts = v, append(texts, fmt.Sprintf("%s=%v", name, v))
					case n < 9:
						fields[name], texts = v, append(texts, fmt.Sprintf("%s=%vi", name, v))
					case n == 9 && round%4 == 0:
						fields[name], texts = "true", append(texts, name+"=t")
					}
				}
				if len(fields) == 0 {
					continue
				}
				tags, step := "", any(nil)
				if n := random.IntN(6); n < 3 {
					tags, step = fmt.Sprintf(",%s=%d", []string{"step", "step", "window"}[n], n), float64(n)
				}
				time := 1 + random.IntN(4)
				fmt.Fprintf(&body, "m%d,run=r%s %s %d\n", round, tags, strings.Join(texts, ","), time)
				refused = !model.put(fields, float64(time), step) || refused
			}
			if got := write(body.String()); got.code != map[bool]int{false: 204, true: 422}[refused] {
				t.Fatalf("%+v to\n%s", got, body.String())
			}
		}
		for name, want := range model {
			columns, got := s.points("w", "p", "r", url.Values{"metric": {fmt.Sprintf("m%d/%s", round, name)}, "axis": {"time_ns"}}), map[float64][]any{}
			for i, time := range columns["time_ns"] {
				got[time.(float64)] = []any{columns["value"][i], nil}
				if steps := columns["step"]; steps != nil {
					got[time.(float64)][1] = steps[i]
				}
			}
			s.want(fmt.Sprintf("round %d, %s, %d points", round, name, len(columns["value"])), got, want)
		}
	}
}
