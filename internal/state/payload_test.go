package state_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
)

// What two machines may say differently with one sequence, and what takes the vote of
// both: the machine that a signer names decides nothing.
func TestWhatContradicts(t *testing.T) {
	const stats = `{"stats":{"5":{"score":50,"created_at":"a"}}}`
	for _, c := range []struct {
		x, y string
		at   string // "": they agree
	}{
		{stats, stats, ""},
		{stats, `{ "stats" : {"5":{"created_at":"b","score":5e1}} }`, ""},
		{`{"s":1}`, `{"s":1.0}`, ""},
		{`{"s":[1,{"x":-0.50}]}`, `{"s":[10e-1,{"x":-5E-1}]}`, ""},
		{`{"s":0}`, `{"s":-0.0e7}`, ""},
		{`{"s":9007199254740993}`, `{"s":9007199254740992}`, "s"},
		{`{"s":1e999999999999}`, `{"s":1e999999999998}`, "s"},
		{`{"s":1}`, `{"s":"1"}`, "s"},
		{`{"s":null}`, `{}`, "s"},
		{`{"s":[1,2]}`, `{"s":[1,3]}`, "s.1"},
		{`{"s":[1,2]}`, `{"s":[1]}`, "s"},
		{`{"a\u002eb":1}`, `{"a.b":1}`, ""},
		{`{"specs":1,"config":2,"version":3,"signature":4,"recipient":5}`, `{"specs":{},"version":4}`, ""},
		{`{"stats":{"5":{"score":90}}}`, `{"stats":{}}`, "stats.5"},
		{`{"stats":{"5":{"score":90}}}`, `{}`, "stats"},
		{`{}`, `{"penalized_hotkeys":["a"]}`, "penalized_hotkeys"},
		{`{"stats":{"5":{"specs":1,"config":99}}}`, `{"stats":{"5":{"specs":2,"config":0}}}`, "stats.5.config"},
		{`{"stats":{"created_at":{"score":1}}}`, `{"stats":{"created_at":{"score":2}}}`, "stats.created_at.score"},
		{`{"lists":{"5":{"created_at":1}}}`, `{"lists":{"5":{"created_at":2}}}`, "lists.5.created_at"},
		{`{"stats":{"5":{"gpu_specs":{"created_at":1}}}}`, `{"stats":{"5":{"gpu_specs":{"created_at":2}}}}`, "stats.5.gpu_specs.created_at"},
		{`{"s":1,"s":2}`, `{"s":2}`, "the payload"},
		{`{"s":1} `, `{"s":1} {}`, "the payload"},
		{`[1]`, `[1] `, "the payload"},
	} {
		for _, pair := range [][2]string{{c.x, c.y}, {c.y, c.x}} {
			record := sample("")
			a := seal(t, 1, record, pair[0])
			record.Machine = state.Machine{9}
			verdict, reason, err := (&state.Proof{A: a, B: seal(t, 1, record, pair[1])}).Check()
			want, says := state.Equivocated, "contradict each other in "+c.at
			if c.at == "" {
				want, says = state.SharedKey, "what they say agrees"
			}
			if err != nil || verdict != want || !strings.HasSuffix(reason, says) {
				t.Errorf("%s and %s: %s, %q %v; want %s", pair[0], pair[1], verdict, reason, err, c.at)
			}
		}
	}
}

// A payload with a name twice is refused: a reader could take either value.
func TestNamesStandOnce(t *testing.T) {
	for payload, twice := range map[string]bool{
		`{"s":1,"s":2}`: true, `{"s":1,"\u0073":1}`: true, `[{"a":{"b":[],"b":[]}}]`: true, `{"a":{"a":{"a":1}},"b":{"a":2}}`: false,
		`{"s":"s","t":["s","s",":"],":":"s"}`: false, `{"\"":1,"\\\"":2}`: false, `{"\"":1 , "\u0022" : 2}`: true, `{"":1,"":1}`: true,
		`{"s":1,"s":2`: false, "\x00\xff no JSON": false, ``: false,
	} {
		e := seal(t, 1, sample(""), payload)
		want := state.Verified
		if twice {
			want = state.Broken
		}
		j := check(t, readerAt(state.NewMemory(), nowMs), e)
		if j.Verdict != want || twice != strings.Contains(j.Reason, "twice in one object") || (state.CheckPayload([]byte(payload)) != nil) != twice {
			t.Errorf("%q is %s: %s", payload, j.Verdict, j.Reason)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 3000 {
		text := document(random, 3)
		want := again(json.NewDecoder(strings.NewReader(text)))
		if got := state.CheckPayload([]byte(text)) != nil; got != want {
			t.Fatalf("%s: %v, want %v", text, got, want)
		}
		if want {
			found++
		}
	}
	if found < 300 || found > 2700 {
		t.Errorf("%d of 3000 documents name something twice: they test little", found)
	}
}

// document writes any JSON with few names.
func document(random *rand.Rand, depth int) string {
	switch kind := random.IntN(6); {
	case depth > 0 && kind < 3:
		var parts []string
		for range random.IntN(4) {
			name := []string{`"a"`, `"b"`, `"\u0061"`, `"a\\"`, `":"`, `"\""`, `""`, `"é"`, `"\u00e9"`}[random.IntN(9)]
			parts = append(parts, name+[]string{":", " : ", "\n:"}[random.IntN(3)]+document(random, depth-1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case depth > 0 && kind == 3:
		return "[" + document(random, depth-1) + " , " + document(random, depth-1) + "]"
	}
	return []string{`1`, `"a"`, `"b"`, `null`, `"{\"a\":1,\"a\":1}"`, `[]`}[random.IntN(6)]
}

// again reads a value token by token and tells whether an object names something twice.
func again(d *json.Decoder) (twice bool) {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	names := map[string]bool{}
	switch token {
	case json.Delim('{'):
		for d.More() {
			name, _ := d.Token()
			twice = names[name.(string)] || twice
			names[name.(string)] = true
			twice = again(d) || twice
		}
		_, _ = d.Token()
	case json.Delim('['):
		for d.More() {
			twice = again(d) || twice
		}
		_, _ = d.Token()
	}
	return twice
}

// The largest payloads, made to be slow, are compared in proportion to their size.
func TestHostilePayloadsAreComparedInTime(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 9000)
	wide := func(last string) string {
		return deep + "{" + manyNames(100_000) + last + "}" + strings.Repeat("}", 9000)
	}
	for what, pair := range map[string][2]string{
		"deep and wide": {wide(`"z":1`), wide(`"z":2`)},
		"exponents":     {`{"s":1e2147483647}`, `{"s":1e-2147483647}`},
		"spaces":        {`{"s":1` + strings.Repeat(" ", 1_000_000) + `}`, `{"s":2` + strings.Repeat(" ", 1_000_000) + `}`},
	} {
		record := sample("")
		a := seal(t, 1, record, pair[0])
		record.Machine = state.Machine{9}
		b := seal(t, 1, record, pair[1])
		done := make(chan state.Verdict, 1)
		go func() {
			verdict, reason, _ := (&state.Proof{A: a, B: b}).Check()
			if len(reason) > 1000 {
				verdict = state.Verdict("a reason of any length")
			}
			done <- verdict
		}()
		select {
		case verdict := <-done:
			if verdict != state.Equivocated {
				t.Errorf("%s: %s", what, verdict)
			}
		case <-time.After(time.Minute): // by the square it takes many
			t.Fatalf("%s: no end", what)
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%x":0,`, i)
	}
	return b.String()
}
