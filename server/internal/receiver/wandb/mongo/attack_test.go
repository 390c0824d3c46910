package mongo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// TestAttacksEnd has filters and runs that are made to take long. Each is judged in
// a time in which a load on the machine does not matter.
func TestAttacksEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s, and 40 s under the race detector, which has nothing to find here")
	}
	deep := strings.Repeat(`[{"0":`, 25) + `1` + strings.Repeat(`}]`, 25)
	joined := `{"value":1}`
	for i := range 200 {
		joined = fmt.Sprintf(`%s,"%s":{"value":{"x":%d}}`, joined, strings.TrimPrefix(strings.Repeat(".a", i+1), "."), i)
	}
	long := strings.Repeat("a", 1<<20)
	for name, one := range map[string]struct {
		filter, config string
		refused        bool
	}{
		"two readings of a number": {`{"config.x` + strings.Repeat(".0", 50) + `.y":1}`, `{"x":{"value":` + deep + `}}`, false},
		"many readings of dots":    {`{"config` + strings.Repeat(".a", 1000) + `":1}`, `{"x":` + joined + `}`, false},
		"deep arrays":              {`{"config.x.a.a.a":{"$regex":"a"}}`, `{"x":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}`, false},
		"a large program":          {`{"config.x":{"$regex":"(a?){900}b"}}`, `{"x":"` + long + `"}`, true},
		"the largest match":        {`{"config.x":{"$regex":"(a?){900}b"}}`, `{"x":"` + long[:maxWork/7000] + `"}`, false},
		"many small programs":      {`{"$and":[` + strings.Repeat(`{"config.x":{"$not":{"$regex":"(a|aa|b)*c"}}},`, 400) + `{}]}`, `{"x":"` + long + `"}`, true},
		"a list of texts":          {`{"config.x":{"$regex":"(a|aa)*c"}}`, `{"x":[` + strings.Repeat(`"aaa",`, 1<<17) + `1]}`, false},
		"many in a list":           {`{"config.x":{"$in":[` + strings.Repeat(`"a",`, 200_000) + `1]}}`, `{"x":[` + strings.Repeat(`"b",`, 1<<17) + `2]}`, false},
		"long numbers":             {`{"config.x":{"$gt":` + strings.Repeat("9", 1<<19) + `}}`, `{"x":` + strings.Repeat("9", 1<<20) + `}`, false},
		"many conditions":          {`{"$and":[` + strings.Repeat(`{"config.y":{"$exists":false}},`, 900) + `{}]}`, `{"x":{"value":"` + long + `"}}`, false},
		"escapes":                  {`{"config.x":{"$contains":"b"}}`, `{"\u0078":"` + strings.Repeat(`\u0061\\`, 1<<17) + `"}`, false},
		"equal keys":               {`{"config.x.x":2}`, `{` + strings.Repeat(`"x":{"x":1},`, 1<<17) + `"x":{"x":2}}`, false},
	} {
		begun := time.Now()
		f, err := Parse([]byte(one.filter))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = f.Match(run(`{"config":` + one.config + `}`))
		if (model.CodeOf(err) == model.CodeInvalid) != one.refused {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		} else {
			t.Logf("%s: %s", name, took)
		}
	}
}
