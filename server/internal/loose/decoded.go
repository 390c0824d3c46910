package loose

import "unicode/utf8"

// AppendDecoded appends the text of a string, see [Text].
func AppendDecoded(dst, v []byte) (out []byte, faithful bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return dst, false
	}
	out, lone := appendText(dst, v[1:len(v)-1], utf8.RuneError)
	return out, !lone && utf8.Valid(out[len(dst):])
}
