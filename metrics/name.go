package metrics

import (
	"net/url"
	"strings"
	"unicode"
)

// ExactName is the label of a series whose metric has characters that a series'
// name cannot have: `<group>/<name>`, percent-encoded where a label's value
// cannot hold it either.
const ExactName = "exact_name"

// series is how a run calls a metric; exact is empty where name says it all.
type series struct{ name, exact string }

func seriesOf(group, name string) series {
	exact := group + "/" + name
	safe := safeName(group) + "/" + safeName(name)
	if safe == exact {
		return series{name: safe}
	}
	return series{name: safe, exact: encode(exact)}
}

// MetricOf finds the group and the name of the metric behind a series of a run,
// when it belongs to group.
func MetricOf(group, series string, labels map[string]string) (name string, ok bool) {
	exact := series
	if encoded, found := labels[ExactName]; found {
		decoded, err := url.PathUnescape(encoded)
		if err != nil {
			return "", false
		}
		exact = decoded
	}
	name, ok = strings.CutPrefix(exact, group+"/")
	return name, ok && name != ""
}

// safeName has `_` for what a series' name cannot have.
func safeName(s string) string {
	out := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`()[],=<>!~"|`, r) || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
	switch {
	case out == "":
		return "_"
	case out[0] == ':':
		return "_" + out[1:]
	}
	return out
}

// encode writes %XX for what a label's value cannot have.
func encode(s string) string {
	var b strings.Builder
	for _, r := range s {
		if !strings.ContainsRune("%=&", r) && unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(string(r)) {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
