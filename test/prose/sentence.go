package main

import (
	"regexp"
	"strings"
	"unicode"
)

// rule is what a text may be.
type rule struct {
	longest int  // words of a sentence
	mean    int  // words of a sentence of the page, 0 for any
	anyWord bool // private words are allowed
}

var (
	strict = rule{longest: 30, mean: 18}
	// message is for what stands alone: a mean over errors says nothing.
	message = rule{longest: 30}
	// record is for decisions, byte layouts and measurements, which are for contributors.
	record = rule{longest: 60, anyWord: true}
)

// text is a piece of prose: a paragraph, a cell, a comment, a message.
type text struct {
	file  string
	rule  rule
	words string // code is one word: `x`
	cell  bool   // of a table, or a heading: not in the page's mean
	lines []mark // where the words stand in the file, by offset
}

// mark says which line the words from an offset on are of.
type mark struct{ offset, line int }

func (t text) line(offset int) int {
	line := 0
	for _, m := range t.lines {
		if m.offset > offset {
			break
		}
		line = m.line
	}
	return line
}

type sentence struct {
	start int
	words string
}

// ends finds where a sentence ends: a mark, perhaps a bracket or quote, then space and
// what begins the next one.
var ends = regexp.MustCompile("[.!?][)\"'”’*]*\\s+")

var abbreviation = regexp.MustCompile(`((?i:\b(e\.g|i\.e|vs|cf|etc|approx|no))|\b[A-Z])\.$`)

func sentences(words string) []sentence {
	var out []sentence
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(words[start:end]); s != "" {
			lead := len(words[start:end]) - len(strings.TrimLeftFunc(words[start:end], unicode.IsSpace))
			out = append(out, sentence{start + lead, s})
		}
		start = end
	}
	for _, at := range ends.FindAllStringIndex(words, -1) {
		next := []rune(words[at[1]:])
		if len(next) == 0 || unicode.IsLower(next[0]) || abbreviation.MatchString(words[:at[0]+1]) {
			continue
		}
		add(at[1])
	}
	add(len(words))
	return out
}

// count counts words: what has a letter or a digit. A dash or a slash alone is none.
func count(words string) int {
	n := 0
	for _, w := range strings.Fields(words) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func excerpt(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if r := []rune(words); len(r) > 90 {
		return string(r[:90]) + "…"
	}
	return words
}

// private are the words of docs/design/prose.md that have a standard one.
var private = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\brooms?\b`), "queue limit, memory or space"},
	{regexp.MustCompile(`(?i)\b(has|have) arrived\b|\b(is|are) had\b`), "delivered or acknowledged"},
	// A page, a key or a field may say something; a program reports, warns, logs or shows it.
	{regexp.MustCompile(`(?i)\b(agent|client|daemon|doctor|driver|exporter|kymogram|logger|node|package|process|program|run|scraper|script|sdk|server|uploader|uplink|validator|miner) (then |also |only |never )?(says|tells)\b`), "reports, warns, logs or shows"},
	{regexp.MustCompile(`(?i)\bgo(es)? on (behind|where|at|after)\b|\bbehind (step|it|them|that)\b`), "after, or continues at"},
	{regexp.MustCompile(`(?i)\bbesides?\b`), "next to, together with, or while … runs"},
	{regexp.MustCompile(`(?i)\b(signs? of life|(a|one|two|its|each|per|every|process|new) (life|lives))\b`), "attempt, restart or last activity"},
	{regexp.MustCompile(`(?i)\bof (itself|themselves)\b`), "run metadata"},
	{regexp.MustCompile(`(?i)\b(same point again|never be taken|without end|where nothing is said|open no more files)\b`), "duplicate, rejected, unlimited, default, out of file descriptors"},
}
