package remote

import (
	"net/url"
	"strings"
)

// NetrcKey is the password that the text of a .netrc has for the machine HOST or HOST:PORT. The entry "default" is
// for nobody in particular, so not for us; what a macro holds is no entry.
func NetrcKey(text string, base *url.URL) (key string) {
	machine := ""
	for words := netrcWords(text); len(words) > 0; {
		word := words[0]
		words = words[1:]
		switch {
		case word == "default":
			machine = ""
		case len(words) == 0:
			return key
		case word == "machine":
			machine, words = words[0], words[1:]
		case word == "login" || word == "account" || word == "password":
			if word == "password" && (machine == base.Hostname() || machine == base.Host) && machine != "" && key == "" {
				key = words[0]
			}
			words = words[1:]
		}
	}
	return key
}

// netrcWords leaves out comments and macros, which last to the next empty line.
func netrcWords(text string) (words []string) {
	macro := false
	for line := range strings.Lines(text) {
		found := strings.Fields(line)
		if len(found) == 0 {
			macro = false
		}
		for i, word := range found {
			if macro || strings.HasPrefix(word, "#") && (i == 0 || found[i-1] != "password") {
				break
			}
			if word == "macdef" {
				macro = true
				break
			}
			words = append(words, word)
		}
	}
	return words
}
