package influx

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// What a line is read for.
const (
	reasonFields    = "missing fields"
	reasonField     = "missing field key"
	reasonValue     = "missing field value"
	reasonMeasure   = "missing measurement"
	reasonTagKey    = "missing tag key"
	reasonTagValue  = "missing tag value"
	reasonTime      = "bad timestamp"
	reasonTimeRange = "time outside range"
	reasonNumber    = "invalid number"
	reasonRange     = "number is out of the range of float64"
	reasonInt       = "integer is out of the range of int64"
	reasonUint      = "unsigned integer is above 9223372036854775807, the largest that a series of int64 holds; send it as a float or a string"
	reasonBool      = "invalid boolean"
	reasonQuote     = "unbalanced quotes"
	reasonTwice     = "duplicate tags"
	reasonKey       = "measurement and tags have more than 65535 bytes"
	reasonTags      = "more than 1024 tags"
	reasonName      = "a field's name has more than 65535 bytes"
	reasonMany      = "more than 16384 fields"
)

// tag is a tag of a point, unescaped.
type tag struct{ name, value string }

// endOf is the first of the two delimiters, or a line's end, that no backslash
// precedes.
func endOf(b []byte, i int, x, y byte) int {
	start := i
	for ; i < len(b); i++ {
		if c := b[i]; (c == x || c == y || c == '\n') && (i == start || b[i-1] != '\\' || c == '\n') {
			return i
		}
	}
	return i
}

// unescape drops the backslashes before what is special in names.
func unescape(b string) string {
	if strings.IndexByte(b, '\\') < 0 {
		return b
	}
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) && (b[i+1] == ',' || b[i+1] == '=' || b[i+1] == ' ') {
			i++
		}
		out.WriteByte(b[i])
	}
	return out.String()
}

// parseHead reads the measurement and the tags of a point; text is what b says. They are
// parts of it, so that a head is one allocation.
func parseHead(b []byte, text string) (measurement string, tags []tag, reason string) {
	i := endOf(b, 0, ',', ',')
	if i == 0 {
		return "", nil, reasonMeasure
	}
	measurement, tags = unescape(text[:i]), make([]tag, 0, min(strings.Count(text, "="), maxTags))
	for i < len(b) {
		start := i + 1
		i = endOf(b, start, '=', ',')
		if i == start || i >= len(b) || b[i] != '=' {
			return "", nil, reasonTagKey
		}
		name := unescape(text[start:i])
		start = i + 1
		i = endOf(b, start, ',', '=')
		if i == start || i < len(b) && b[i] == '=' {
			return "", nil, reasonTagValue
		}
		if len(tags) == maxTags {
			return "", nil, reasonTags
		}
		tags = append(tags, tag{name, unescape(text[start:i])})
	}
	return measurement, tags, ""
}

// fieldName is the place of the = behind a field's name.
func fieldName(b []byte, i int) (end int, reason string) {
	start := i
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '=':
			if i == start {
				return i, reasonField
			}
			return i, ""
		case ',', ' ', '\n':
			if i == start {
				return i, reasonField
			}
			return i, reasonValue
		}
	}
	return len(b), reasonValue
}

// parseValue reads a field's value; end is behind it.
func parseValue(b []byte, i int) (v value, end int, reason string) {
	if i >= len(b) {
		return v, i, reasonValue
	}
	switch c := b[i]; {
	case c-'0' <= 9 || c == '-' || c == '+' || c == '.':
		return parseNumber(b, i)
	case c == '"':
		return parseText(b, i+1)
	case c == ',' || c == ' ' || c == '\n' || c == '\r':
		return v, i, reasonValue
	}
	end = i
	for end < len(b) && !ends(b[end]) {
		end++
	}
	return parseWord(b[i:end], end)
}

// ends reports whether a value that is no string ends before c.
func ends(c byte) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' }

func parseNumber(b []byte, i int) (v value, end int, reason string) {
	end, whole, ok := scanNumber(b, i)
	if !ok {
		return parseSignedWord(b, i)
	}
	if end < len(b) && (b[end] == 'i' || b[end] == 'u') {
		v, reason = parseInteger(text(b[i:end]), whole, b[end] == 'u')
		return v, end + 1, reason
	}
	v.kind = model.KindFloat
	var err error
	if v.float, err = strconv.ParseFloat(text(b[i:end]), 64); err != nil {
		reason = reasonRange
	}
	return v, end, reason
}

func parseInteger(digits string, whole, unsigned bool) (v value, reason string) {
	n, err := strconv.ParseInt(digits, 10, 64)
	v.kind, v.int = model.KindInt, n
	switch {
	case !whole || unsigned && n < 0:
		return v, reasonNumber
	case err != nil && unsigned:
		return v, reasonUint
	case err != nil:
		return v, reasonInt
	}
	return v, ""
}

// parseSignedWord reads ±Inf, which InfluxDB refuses and we keep.
func parseSignedWord(b []byte, i int) (v value, end int, reason string) {
	end = i
	for end < len(b) && !ends(b[end]) {
		end++
	}
	if word := b[i+1 : end]; b[i] != '.' && bytes.EqualFold(word, []byte("inf")) {
		sign := 1
		if b[i] == '-' {
			sign = -1
		}
		return value{kind: model.KindFloat, float: math.Inf(sign)}, end, ""
	}
	return v, end, reasonNumber
}

// parseWord reads a boolean, which is a text here, or one of NaN and Inf.
func parseWord(word []byte, end int) (v value, _ int, reason string) {
	switch string(word) {
	case "t", "T", "true", "True", "TRUE":
		return value{kind: model.KindText, text: "true"}, end, ""
	case "f", "F", "false", "False", "FALSE":
		return value{kind: model.KindText, text: "false"}, end, ""
	}
	switch {
	case bytes.EqualFold(word, []byte("nan")):
		return value{kind: model.KindFloat, float: math.NaN()}, end, ""
	case bytes.EqualFold(word, []byte("inf")):
		return value{kind: model.KindFloat, float: math.Inf(1)}, end, ""
	}
	if c := word[0] | 0x20; c == 't' || c == 'f' {
		return v, end, reasonBool
	}
	return v, end, reasonNumber
}

// parseText reads a string up to its closing quote.
func parseText(b []byte, i int) (v value, end int, reason string) {
	start, plain := i, true
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			if i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\\') {
				plain = false
				i++
			}
		case '"':
			v = value{kind: model.KindText}
			if v.text = string(b[start:i]); !plain {
				v.text = unquote(b[start:i])
			}
			return v, i + 1, ""
		}
	}
	return v, len(b), reasonQuote
}

func unquote(b []byte) string {
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\\') {
			i++
		}
		out.WriteByte(b[i])
	}
	return out.String()
}

// parseTime reads a timestamp of a unit of so many nanoseconds up to the end of
// the line; ok is false when there is none.
func parseTime(b []byte, unit int64) (ns int64, ok bool, reason string) {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return 0, false, ""
	}
	if v, ok := plainTime(b); ok && v <= math.MaxInt64/unit {
		return v * unit, true, ""
	}
	end, whole, ok := scanNumber(b, 0)
	if !ok || end != len(b) || !whole || b[0] == '+' {
		return 0, false, reasonTime
	}
	v, err := strconv.ParseInt(text(b), 10, 64)
	if err != nil || v > math.MaxInt64/unit || v < math.MinInt64/unit {
		return 0, false, reasonTimeRange
	}
	return v * unit, true, ""
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// plainTime reads digits alone, so few that they fit an int64.
func plainTime(b []byte) (v int64, ok bool) {
	if len(b) >= maxDigits+1 {
		return 0, false
	}
	n := uint64(0)
	for len(b) >= 8 {
		eight := binary.LittleEndian.Uint64(b)
		if !allDigits(eight) {
			return 0, false
		}
		n, b = n*1e8+eightDigits(eight), b[8:]
	}
	for _, c := range b {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return int64(n), n <= math.MaxInt64
}
