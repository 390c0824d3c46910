package psql

import (
	"strconv"
	"strings"
	"sync"
)

// Query is a query in PostgreSQL's words.
type Query struct {
	Text string
	Args []int // which of the caller's arguments $1, $2 … are
}

// Words turns queries that are written for SQLite, and keeps them: filters make new ones without
// end. The zero value is ready.
type Words struct {
	// Rename is done to each text first; nil: nothing.
	Rename func(text string) string

	mu   sync.Mutex
	kept map[string]Query
}

const mostKept = 1000

// Of turns one query.
func (w *Words) Of(text string) Query {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.kept[text]; ok {
		return known
	}
	if len(w.kept) >= mostKept {
		clear(w.kept)
	}
	named := text
	if w.Rename != nil {
		named = w.Rename(text)
	}
	out := translate(named)
	if w.kept == nil {
		w.kept = map[string]Query{}
	}
	w.kept[text] = out
	return out
}

// words are SQLite's that PostgreSQL has under another name. CROSS JOIN keeps SQLite from
// turning a join round; its conditions follow it.
var words = strings.NewReplacer("CROSS JOIN", "JOIN", "json_each(", "each(", "json_group_array(", "json_agg(", "json_array(", "json_build_array(")

const hint = "INDEXED BY "

// translate turns ? and ?2 into $1 and so on, and takes out the names of indexes, which are
// for SQLite's planner. Texts in quotes stay as they are.
func translate(text string) Query {
	var out strings.Builder
	var args []int
	places := map[int]int{} // of a numbered argument
	next := 0
	plain := func(part string) {
		for {
			before, rest, found := strings.Cut(part, hint)
			out.WriteString(words.Replace(before))
			if !found {
				return
			}
			part = rest[strings.IndexAny(rest+" ", " \t\n)"):]
		}
	}
	for text != "" {
		end := strings.IndexAny(text, "'?")
		if end < 0 {
			plain(text)
			break
		}
		plain(text[:end])
		if text[end] == '\'' {
			n := strings.IndexByte(text[end+1:], '\'')
			if n < 0 {
				n = len(text) - end - 2
			}
			out.WriteString(text[end : end+n+2])
			text = text[end+n+2:]
			continue
		}
		text = text[end+1:]
		digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
		at := next
		if digits > 0 {
			number, _ := strconv.Atoi(text[:digits]) // digits
			at, text = number-1, text[digits:]
		} else {
			next++
		}
		place, known := places[at]
		if !known {
			args = append(args, at)
			place = len(args)
			places[at] = place
		}
		out.WriteString("$" + strconv.Itoa(place))
	}
	return Query{out.String(), args}
}
