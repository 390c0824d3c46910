// Command prose reads the words of the repository as docs/design/prose.md asks: it prints
// sentences that are too long, pages whose sentences are long on average, and private
// words, each with its place. It exits with 1 when it found any.
//
//	go run ./test/prose [FOLDER]
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
}

func run(root string) error {
	texts, err := collect(root)
	if err != nil {
		return err
	}
	findings := judge(texts)
	out := bufio.NewWriter(os.Stdout)
	for _, f := range findings {
		fmt.Fprintln(out, f)
	}
	fmt.Fprintf(out, "%d findings in %d texts\n", len(findings), len(texts))
	if err := out.Flush(); err != nil {
		return err
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	return nil
}

// collect reads everything that a user reads.
func collect(root string) ([]text, error) {
	var out []text
	for _, from := range []func(string) ([]text, error){pages, goTexts, pythonTexts} {
		found, err := from(root)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

type finding struct {
	file string
	line int
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// judge finds what breaks a rule, in the order of files and lines.
func judge(texts []text) []finding {
	var out []finding
	means := map[string]*mean{}
	for _, t := range texts {
		for _, s := range sentences(t.words) {
			line := t.line(s.start)
			n := count(s.words)
			isList := 2*(strings.Count(s.words, ",")+strings.Count(s.words, "·")) >= n
			if n > t.rule.longest && !isList {
				out = append(out, finding{t.file, line, fmt.Sprintf("%d words, at most %d: %s", n, t.rule.longest, excerpt(s.words))})
			}
			if t.rule.mean > 0 && !t.cell {
				m := means[t.file]
				if m == nil {
					m = &mean{most: t.rule.mean}
					means[t.file] = m
				}
				m.words += n
				m.sentences++
			}
		}
		for _, w := range private {
			if t.rule.anyWord {
				break
			}
			for _, at := range w.pattern.FindAllStringIndex(t.words, -1) {
				out = append(out, finding{t.file, t.line(at[0]), fmt.Sprintf("%q: write %s", t.words[at[0]:at[1]], w.instead)})
			}
		}
	}
	for file, m := range means {
		if m.sentences >= fewSentences && m.words > m.most*m.sentences {
			out = append(out, finding{file, 1, fmt.Sprintf("%.1f words a sentence, at most %d", float64(m.words)/float64(m.sentences), m.most)})
		}
	}
	slices.SortFunc(out, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.what, b.what))
	})
	return out
}

// fewSentences have no mean that says anything.
const fewSentences = 5

type mean struct{ words, sentences, most int }
