package console

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// emulate shows output on a grid of cells, piece by piece of a pattern: another way than the
// screen's.
func emulate(text string) []string {
	cells := map[[2]int]rune{}
	y, x, bottom := 0, 0, 0
	for _, token := range regexp.MustCompile(`\x1b\[[0-9]*[A-Za-z]|[\s\S]`).FindAllString(text, -1) {
		n, _ := strconv.Atoi(strings.Trim(token, "\x1b[ABCDKm"))
		switch {
		case token == "\n":
			y, x = y+1, 0
		case token == "\r":
			x = 0
		case token == "\b":
			x = max(0, x-1)
		case token == "\t":
			x = (x/8 + 1) * 8
		case len(token) > 2 && token[0] == 0x1b:
			switch token[len(token)-1] {
			case 'A':
				y = max(0, y-max(n, 1))
			case 'B':
				y = min(bottom, y+max(n, 1))
			case 'C':
				x += max(n, 1)
			case 'D':
				x = max(0, x-max(n, 1))
			case 'K':
				for at := range cells {
					if at[0] == y && (n == 2 || n == 0 && at[1] >= x || n == 1 && at[1] <= x) {
						delete(cells, at)
					}
				}
			}
		default:
			r, _ := utf8.DecodeRuneInString(token)
			cells[[2]int{y, x}] = r
			x++
		}
		bottom = max(bottom, y)
	}
	rows := make([]string, bottom+1)
	for row := range rows {
		last := -1
		for at := range cells {
			if at[0] == row {
				last = max(last, at[1])
			}
		}
		for column := range last + 1 {
			if r, ok := cells[[2]int{row, column}]; ok {
				rows[row] += string(r)
			} else {
				rows[row] += " "
			}
		}
		rows[row] = strings.TrimRight(rows[row], " ")
	}
	return rows
}

// shown is what a screen hands on, in the end.
func shown(pieces ...[]byte) []string {
	rows := map[int64]string{}
	s := newScreen(func(l line) bool {
		rows[l.number] = l.text
		return true
	})
	for _, piece := range pieces {
		s.write(piece, time.Unix(1, 0))
	}
	s.end()
	out := make([]string, len(rows))
	for number, text := range rows {
		out[number] = text
	}
	return out
}

// Whatever is written, however it is cut, lines are those of a terminal.
func TestScreenIsATerminal(t *testing.T) {
	tokens := []string{"a", "bc", "é", "漢", "\n", "\n", "\r", "\b", "\t", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[3C", "\x1b[2D", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[31m", "\x1b[0m", " "}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 0, 60).Draw(t, "tokens"), "")
		var pieces [][]byte
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want := emulate(text)
		got := shown(pieces...)
		// Rows at the end on which nothing was ever printed are none.
		for len(want) > len(got) && want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	})
}

func TestScreenPassesOver(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b]0;a title\x07text":          "text",
		"\x1b]8;;http://x\x1b\\link":      "link",
		"\x1bPq#0;2\x1b\\after":           "after",
		"\x1b(Bplain":                     "plain",
		"\x1b[?25lhidden cursor\x1b[?25h": "hidden cursor",
		"a\xffb\xe6\xbcc\xe6":             "a\ufffdb\ufffdc\ufffd",
		"bell\x07 nul\x00 del\x7f":        "bell nul del",
		"\u009bc1":                        "c1",
	} {
		if got := shown([]byte(text)); !slices.Equal(got, []string{want}) {
			t.Errorf("%q shows %q, not %q", text, got, want)
		}
	}
}

// kept collects what a keeper stores: the last text of each number, and how often it came.
type kept struct {
	texts map[string]map[int64]string
	times map[string]int
	total int
}

func (k *kept) line(stream string, step, _ int64, text string) error {
	if k.texts[stream] == nil {
		k.texts[stream] = map[int64]string{}
	}
	k.texts[stream][step] = text
	k.times[fmt.Sprint(stream, step)]++
	k.total++
	return nil
}

func running(t *testing.T, secrets ...string) (*keeper, *kept) {
	to := &kept{texts: map[string]map[int64]string{}, times: map[string]int{}}
	return newKeeper(to.line, secrets, func(err error) { t.Error(err) }), to
}

// Lines past the rate are counted, and one line says how many there are.
func TestRateIsCapped(t *testing.T) {
	k, to := running(t)
	at := time.Unix(1, 0)
	const all = linesAtOnce + 1234
	for i := range all {
		k.handle(chunk{stream: "stdout", data: fmt.Appendf(nil, "line %d\n", i), at: at})
	}
	k.each((*screen).settle)
	note := to.texts["stdout"][linesAtOnce]
	if !strings.HasPrefix(note, "[kymogram: 1234 lines (") || len(to.texts["stdout"]) != linesAtOnce+1 {
		t.Errorf("%d lines, and %q", len(to.texts["stdout"]), note)
	}
	k.handle(chunk{stream: "stdout", data: []byte("later\n"), at: at.Add(time.Second)})
	if got := to.texts["stdout"][all]; got != "later" {
		t.Errorf("line %d is %q", all, got)
	}
}

// A stream has an end, and a note of what is missing.
func TestBytesAreCapped(t *testing.T) {
	k, to := running(t)
	s := k.of("stdout")
	s.bytes = mostBytes - 10
	k.handle(chunk{stream: "stdout", data: []byte("12345\nlonger than that\nmore\n"), at: time.Unix(1, 0)})
	k.each((*screen).settle)
	if to.texts["stdout"][0] != "12345" || to.texts["stdout"][1] != "[kymogram: 1 lines (16 bytes) are missing here: a run keeps 256 MiB of a stream]" {
		t.Errorf("%v", to.texts["stdout"])
	}
}

// push never waits: what has no room is counted, and said.
func TestFullQueueDrops(t *testing.T) {
	k, to := running(t)
	k.push("stdout", []byte("begin"), time.Unix(1, 0))
	k.push("stdout", make([]byte, mostWaiting), time.Unix(2, 0))
	k.push("stdout", []byte("end\n"), time.Unix(3, 0))
	for _, one := range k.take() {
		k.handle(one)
	}
	want := map[int64]string{0: "begin", 1: "[kymogram: 8388608 bytes are missing here: they came faster than they could be kept]", 2: "end"}
	for number, text := range want {
		if got := to.texts["stdout"][number]; got != text {
			t.Errorf("line %d is %q, not %q", number, got, text)
		}
	}
}

func TestLongLineIsCut(t *testing.T) {
	k, to := running(t, "a-long-secret")
	text := strings.Repeat("ä", longestLine/2-3) + "a-long-secret" + strings.Repeat("b", 10_000) + "\n"
	k.handle(chunk{stream: "stdout", data: []byte(text), at: time.Unix(1, 0)})
	got := to.texts["stdout"][0]
	if head := strings.Repeat("ä", longestLine/2-3) + "****bb… ["; !strings.HasPrefix(got, head) || !strings.HasSuffix(got, " more characters]") || len(got) > longestLine+50 {
		t.Errorf("%d bytes, ends with %q", len(got), got[len(got)-60:])
	}
}

// A secret is masked however its bytes come, and no line ever shows a part of it.
func TestSecretInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9+/=ü]{8,40}`).Draw(t, "secret")
		var seen []string
		k := newKeeper(func(_ string, _, _ int64, text string) error {
			seen = append(seen, text)
			return nil
		}, []string{secret}, func(err error) { t.Fatal(err) })
		for rest := []byte("| " + secret + " |\n"); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			k.handle(chunk{stream: "stdout", data: rest[:n], at: time.Unix(1, 0)})
			k.each((*screen).settle)
			rest = rest[n:]
		}
		if last := seen[len(seen)-1]; last != "| **** |" {
			t.Fatalf("%q", last)
		}
		for _, text := range seen {
			if strings.Contains(text, string([]rune(secret)[:least])) {
				t.Fatalf("%q shows a part of %q", text, secret)
			}
		}
	})
}

func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"Authorization: Bearer abc.def-123":     "Authorization: Bearer ****",
		"ghp_" + strings.Repeat("a", 36) + " x": "**** x",
		"sk-proj-" + strings.Repeat("Z", 40):    "****",
		"AKIAIOSFODNN7EXAMPLE":                  "****",
		"eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ":    "****",
		"postgres://me:secret@host/db":          "postgres://me:****@host/db",
		"task-1 risk-free sk-short http://a:80": "task-1 risk-free sk-short http://a:80",
	} {
		if got := newMasker(nil).mask(text, true); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

// Marks are taken out however they are cut, and nothing else is.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const random = "0123"
		mark := func(letter string) string { return "\x1b_kymogram:" + random + ":" + letter + "\x1b\\" }
		var text, all, errors string
		for range rapid.IntRange(0, 8).Draw(t, "writes") {
			piece := rapid.SampledFrom([]string{"x", "\x1b", "\x1b_kymo", "\x1b_kymogram:9:e", "\n", "\x1b\\"}).Draw(t, "text")
			if all += piece; rapid.Bool().Draw(t, "error") {
				errors += piece
				piece = mark("e") + piece + mark("o")
			}
			text += piece
		}
		m := newMarks(random, "stdout")
		var out, err string
		m.output = func(stream string, data []byte) {
			if out += string(data); stream == "stderr" {
				err += string(data)
			}
		}
		ends := 0
		m.ended = func() { ends++ }
		for rest := []byte(text + mark("z")); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			m.write(rest[:n])
			rest = rest[n:]
		}
		if m.release(); out != all || err != errors || ends != 1 {
			t.Fatalf("%q: %q and %q, %d ends", text, out, err, ends)
		}
	})
}
