package scrape

import (
	"strings"
	"testing"
)

const exposition = `# TYPE jobs_total counter
jobs_total{kind="a"} 3
jobs_total{kind="b"} 4
# TYPE heat gauge
heat 1.5
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.5"} 1
wait_seconds_bucket{le="+Inf"} 2
wait_seconds_sum 1.25
wait_seconds_count 2
`

// A stranger's answer never ends the scraper.
func FuzzParseFamilies(f *testing.F) {
	f.Add(exposition)
	f.Add("{}")
	f.Add("# TYPE a histogram\na_bucket{le=\"x\"} 1\na 1 1\n{\"b\"} 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		families, err := parseFamilies(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, family := range families {
			eachSample(family, func(string, float64, map[string]string) {})
		}
	})
}
