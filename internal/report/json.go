package report

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// Valid reports whether a text is JSON in UTF-8, which [Members] asks for.
func Valid(text []byte) bool { return utf8.Valid(text) && json.Valid(text) }

// Members hands over each member of an object by its exact name: encoding/json takes
// Own_Score for own_score, and who reads a stranger must not. Of two members with one
// name the last counts. It reports false for what is no object.
func Members(object []byte, do func(name string, value []byte)) bool {
	i := blank(object, 0)
	if i == len(object) || object[i] != '{' {
		return false
	}
	for i = blank(object, i+1); i < len(object) && object[i] == '"'; i = blank(object, i+1) {
		end := valueEnd(object, i)
		name, _ := Text(object[i:end])
		i = blank(object, blank(object, end)+1) // behind the colon
		end = valueEnd(object, i)
		do(name, object[i:end])
		if i = blank(object, end); i == len(object) || object[i] != ',' {
			break
		}
	}
	return true
}

// blank is the next place that is no space.
func blank(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r') {
		i++
	}
	return i
}

// valueEnd is where the value that begins at i ends. The text is JSON.
func valueEnd(s []byte, i int) int {
	for depth := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			if i = textEnd(s, i); depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

// textEnd is the place of the closing quote.
func textEnd(s []byte, i int) int {
	for i++; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return min(i, len(s)-1)
}

// Text reads a string.
func Text(value []byte) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	for _, c := range value {
		if c == '\\' {
			err := json.Unmarshal(value, &text)
			return text, err == nil
		}
	}
	return string(value[1 : len(value)-1]), true
}

// Number reads a finite number.
func Number(value []byte) (n float64, ok bool) {
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	return n, err == nil
}

// Whole reads an integer, also one that is written as a float: 1.0 is 1, since
// languages differ in how they write it.
func Whole(value []byte) (n int64, ok bool) {
	f, ok := Number(value)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Bool reads true or false.
func Bool(value []byte) (b, ok bool) {
	text := string(value)
	return text == "true", text == "true" || text == "false"
}

func null(value []byte) bool { return string(value) == "null" }
