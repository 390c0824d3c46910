package console

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const (
	masked = "****"
	// shortest is how long a secret is at least; less is found in any text.
	shortest = 8
	// least is how much of a secret's begin is masked at the end of a line that goes on.
	least = 4
)

// forms are tokens that are known by their look. The part before the first group stays.
var forms = regexp.MustCompile(`(?i:\b(?:bearer|basic) )([\w.~+/-]{8,}=*)` +
	`|://[^\s/:@]*:([^\s/@]+)@` +
	`|\b((?:gh[opsur]_|github_pat_|glpat-|hf_|sk-|xox[abeoprs]-|AKIA|ASIA|AIza|npm_|pypi-|wandb_v1_)[\w-]{16,})` +
	`|\b(eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?)`)

// unfinished is the begin of such a token at the end of a line that goes on.
var unfinished = regexp.MustCompile(`\b(gh[opsur]_|github_pat_|glpat-|hf_|sk-|xox[abeoprs]-|AKIA|ASIA|AIza|npm_|pypi-|wandb_v1_|eyJ)[\w.-]*$` +
	`|(?i:\b(?:bearer|basic) )[\w.~+/-]+$|://[^\s/:@]*:[^\s/@]*$`)

// masker replaces secrets.
type masker struct {
	values   []string // longest first
	replacer *strings.Replacer
}

func newMasker(secrets []string) *masker {
	m := &masker{}
	for _, secret := range secrets {
		for part := range strings.SplitSeq(secret, "\n") { // a line has one of them at most
			if part = strings.TrimSpace(part); len([]rune(part)) >= shortest {
				m.values = append(m.values, part)
			}
		}
	}
	slices.SortFunc(m.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	m.values = slices.Compact(m.values)
	pairs := make([]string, 0, 2*len(m.values))
	for _, value := range m.values {
		pairs = append(pairs, value, masked)
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// mask hides the secrets of a line; of one that goes on also the begin of a secret.
func (m *masker) mask(text string, whole bool) string {
	text = replaceGroups(forms, m.replacer.Replace(text))
	if whole {
		return text
	}
	if at := unfinished.FindStringIndex(text); at != nil {
		text = text[:at[0]] + masked
	}
	for _, value := range m.values {
		for n := min(len(value), len(text)); n >= least; n-- {
			if strings.HasSuffix(text, value[:n]) {
				return text[:len(text)-n] + masked
			}
		}
	}
	return text
}

// replaceGroups masks what the groups of a pattern match.
func replaceGroups(pattern *regexp.Regexp, text string) string {
	found := pattern.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var out strings.Builder
	last := 0
	for _, at := range found {
		for g := 2; g < len(at); g += 2 {
			if at[g] >= 0 {
				out.WriteString(text[last:at[g]])
				out.WriteString(masked)
				last = at[g+1]
			}
		}
	}
	out.WriteString(text[last:])
	return out.String()
}
