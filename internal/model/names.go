package model

import "unicode/utf8"

// MaxNameBytes is the longest name of a run.
const MaxNameBytes = 256

// maxPlaceBytes is the longest name of a workspace or project.
const maxPlaceBytes = 128

// CheckPlace reports whether workspace and project are valid names.
func CheckPlace(workspace, project string) error {
	if err := checkPlaceName("workspace", workspace); err != nil {
		return err
	}
	return checkPlaceName("project", project)
}

func checkPlaceName(what, name string) error {
	if !isPlaceName(name) {
		return Errorf(CodeInvalid, "the %s %q is not valid", what, Clip(name)).
			WithHint("A %s is 1 to 128 letters, digits, dots, underscores and hyphens, the first a letter or digit.", what)
	}
	return nil
}

// isPlaceName is [A-Za-z0-9][A-Za-z0-9._-]{0,127}; every request asks, so it is no
// regular expression.
func isPlaceName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= maxPlaceBytes
}

// CheckRunName reports whether name can be a run's.
func CheckRunName(name string) error {
	if name == "" || len(name) > MaxNameBytes || !IsClean(name) {
		return Errorf(CodeInvalid, "the run name %q is not valid", Clip(name)).
			WithHint("A run name is 1 to %d bytes of UTF-8 without control characters.", MaxNameBytes)
	}
	return nil
}

// IsClean reports whether s is UTF-8 without control characters (C0, DEL, C1).
func IsClean(s string) bool {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && size == 1) || r < 0xa0 {
			return false
		}
		i += size
	}
	return true
}

// Clip shortens what a client sent for an error's message.
func Clip(s string) string { return CutBytes(s, 64) }

// CutBytes is the longest prefix of at most n bytes that ends between characters.
func CutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
