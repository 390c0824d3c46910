package postgres

import (
	"strconv"
	"strings"
	"sync"
)

// query is a query of package tables in PostgreSQL's words.
type query struct {
	text string
	args []int // which of the caller's arguments $1, $2 … are
}

// queries keeps what was translated. Filters make new ones without end.
type queries struct {
	mu   sync.Mutex
	kept map[string]query
}

const mostKept = 1000

func (q *queries) of(text string) query {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.kept[text]; ok {
		return known
	}
	if len(q.kept) >= mostKept {
		clear(q.kept)
	}
	out := translate(text)
	q.kept[text] = out
	return out
}

// words are SQLite's that PostgreSQL has under another name. CROSS JOIN keeps SQLite from
// turning a join round; its conditions follow it.
var words = strings.NewReplacer("CROSS JOIN", "JOIN", "json_each(", "each(", "json_group_array(", "json_agg(", "json_array(", "json_build_array(")

const hint = "INDEXED BY "

// translate turns ? and ?2 into $1 and so on, and takes out the names of indexes, which are
// for SQLite's planner. Texts in quotes stay as they are.
func translate(text string) query {
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
	return query{out.String(), args}
}
