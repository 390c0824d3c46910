package main

import (
	"strings"
	"testing"
)

// TestJudge has one text for each rule, and the place where it is broken.
func TestJudge(t *testing.T) {
	long := strings.Repeat("word ", 31)
	for name, one := range map[string]struct {
		page string
		want []string // what the findings begin with
	}{
		"good":                       {"# Title\n\nThe server keeps it. It has `code`.\n", nil},
		"a long sentence":            {"Short.\n\n" + long + "end.\n", []string{"page.md:3: 32 words"}},
		"two sentences are not one":  {strings.Repeat("word ", 20) + "end. And " + strings.Repeat("word ", 20) + "end.\n", nil},
		"a list":                     {"These: " + strings.Repeat("word, ", 40) + "end.\n", nil},
		"ends with a unit":           {"It takes 30 s. " + strings.Repeat("Word ", 28) + "end.\n", nil},
		"code is one word":           {"`" + long + "` ends.\n", nil},
		"a block of code is no text": {"```\n" + long + "room\n```\n", nil},
		"begins with code":           {"Short.\n\n`x` has no room.\n", []string{`page.md:3: "room"`}},
		"in a cell":                  {"| a | b |\n|---|---|\n| c | beside it |\n", []string{`page.md:3: "beside"`}},
		"on the second line":         {"One line and\nits life.\n", []string{`page.md:2: "its life"`}},
		"a program speaks":           {"The server says no.\n", []string{`page.md:1: "server says"`}},
		"a page speaks":              {"This page says how.\n", nil},
		"the mean": {
			strings.Repeat(strings.Repeat("Word ", 20)+"end. ", 5) + "\n",
			[]string{"page.md:1: 21.0 words a sentence"},
		},
		"a mean of few": {strings.Repeat(strings.Repeat("Word ", 20)+"end. ", 4) + "\n", nil},
		"abbreviations": {"Names, e.g. Alice and E. Smith, vs. no one. Then " + strings.Repeat("word ", 28) + "end.\n", nil},
	} {
		found := judge(pageTexts("page.md", []byte(one.page)))
		got := make([]string, len(found))
		for i, f := range found {
			got[i] = f.String()
		}
		if len(got) != len(one.want) {
			t.Errorf("%s: %q, not %q", name, got, one.want)
			continue
		}
		for i, want := range one.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: %q, not %q", name, got[i], want)
			}
		}
	}
}

func TestIsProse(t *testing.T) {
	for words, want := range map[string]bool{
		"the disk is full and no point was kept":                      true,
		"amber bold brisk calm clear cosmic crisp deft eager":         false,
		"SELECT a FROM runs WHERE the = 1":                            false,
		"no such run":                                                 false,
		"default-src 'none'; a 'self'; b 'self'; c; d; for 'x'; of y": false,
	} {
		if isProse(words) != want {
			t.Errorf("%q: not %v", words, want)
		}
	}
}
