package model

import (
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendJSONText appends s as a JSON string; bytes that are no UTF-8 become U+FFFD.
func AppendJSONText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		if n := unescaped(s[i:]); n > 0 {
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		}
		c := s[i]
		if c < utf8.RuneSelf {
			dst = appendASCII(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return append(dst, '"')
}

// unescaped counts the bytes in front that stay as they are.
func unescaped(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

func appendASCII(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c < ' ' || c == 0x7f:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
	return append(dst, c)
}

// FloatText is the shortest text that reads back equal; NaN, Infinity and
// -Infinity are spelled as in JSON.
func FloatText(f float64) string { return strings.Trim(string(AppendJSONFloat(nil, f)), `"`) }

// SafeCSV keeps a text from becoming a formula in a spreadsheet: one that begins
// with = + - @ tab or return gets an apostrophe in front. One that begins with
// an apostrophe gets a second, so that a reader who drops one has the text back.
func SafeCSV(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r'", rune(text[0])) {
		return "'" + text
	}
	return text
}
