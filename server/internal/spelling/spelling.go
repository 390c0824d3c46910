// Package spelling finds the names that somebody may have meant who wrote another one. In: the
// word that was written and the names that there are. Out: the few that are close to it, the
// closest first. It reads nothing and keeps nothing.
package spelling

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// most bounds the letters that are compared: a word beyond has no near miss.
const most = 256

// leastPrefix is how much of a name must be written to mean the name that begins so.
const leastPrefix = 3

// Near are at most n of the names that word may have meant, the closest first, each once.
func Near(word string, names []string, n int) []string {
	type near struct {
		name string
		far  int
	}
	var found []near
	for _, name := range names {
		far, ok := Far(word, name)
		if ok && !slices.ContainsFunc(found, func(f near) bool { return f.name == name }) {
			found = append(found, near{name, far})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Or(a.far-b.far, strings.Compare(a.name, b.name)) })
	out := make([]string, 0, n)
	for _, f := range found[:min(n, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// Far is how many letters have to change for word to be name, whatever their case. It is not ok
// where that is more than a third of them; a name that begins with the word is a near one.
func Far(word, name string) (far int, ok bool) {
	a, b := []rune(strings.ToLower(word)), []rune(strings.ToLower(name))
	if len(a) == 0 || max(len(word), len(name)) > most || !utf8.ValidString(word) {
		return 0, false
	}
	begins := len(a) >= leastPrefix && len(a) <= len(b) && slices.Equal(a, b[:len(a)])
	limit := max(len(a), len(b)) / 3
	if begins {
		return min(distance(a, b), limit+1), true
	}
	if d := len(a) - len(b); d > limit || -d > limit {
		return 0, false
	}
	far = distance(a, b)
	return far, far <= limit
}

// distance is Levenshtein's; two letters that changed places count as one.
func distance(a, b []rune) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next[0] = i + 1
		for j := range b {
			cost := row[j]
			if a[i] != b[j] {
				cost = 1 + min(row[j], next[j], row[j+1])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			next[j+1] = cost
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
