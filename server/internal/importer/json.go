package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// bareMark begins the strings that stand for bare numbers while JSON is decoded.
const bareMark = "\x00"

// tolerantJSON reads JSON in which NaN, Infinity and -Infinity may stand bare,
// as Python writes it. Integers stay exact as json.Number.
func tolerantJSON(text []byte) (any, error) {
	if !json.Valid(text) {
		text = quoteBare(text)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("a value is no JSON: %w", err)
	}
	return unquoteBare(value, 0), nil
}

// quoteBare puts the bare numbers outside of strings into marked strings.
func quoteBare(text []byte) []byte {
	var out []byte
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		case !quoted:
			if word := bareWord(text[i:]); word != "" {
				out = append(append(append(out, `"\u0000`...), word...), '"')
				i += len(word) - 1
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

func bareWord(text []byte) string {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}

// unquoteBare turns the marked strings into numbers.
func unquoteBare(value any, depth int) any {
	if depth > 2*maxDepth {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			v[name] = unquoteBare(one, depth+1)
		}
	case []any:
		for i, one := range v {
			v[i] = unquoteBare(one, depth+1)
		}
	case string:
		if word, ok := strings.CutPrefix(v, bareMark); ok {
			return bareFloat(word, v)
		}
	}
	return value
}

func bareFloat(word, whole string) any {
	switch word {
	case "NaN":
		return math.NaN()
	case "Infinity":
		return math.Inf(1)
	case "-Infinity":
		return math.Inf(-1)
	}
	return whole
}
