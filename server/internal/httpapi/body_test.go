package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// A document takes at most four times the limit of its body in memory, whatever it repeats.
func TestMemoryOfABody(t *testing.T) {
	const size = maxBody - 1<<10
	list := func(head, element, tail string) string {
		return head + strings.Repeat(element+",", (size-len(head)-len(tail))/(len(element)+1)-1) + element + tail
	}
	for name, c := range map[string]struct {
		body string
		into func() any
	}{
		"queries":          {list(`{"queries":[`, `{}`, `]}`), func() any { return &bucketsQueries{} }},
		"null queries":     {list(`{"queries":[`, `null`, `]}`), func() any { return &bucketsQueries{} }},
		"labels":           {`{"queries":[{"labels":{"a":"b"` + strings.Repeat(`,"a":""`, size/8) + `}}]}`, func() any { return &bucketsQueries{} }},
		"initial":          {list(`{"initial":[`, `{}`, `]}`), func() any { return &model.OpenRequest{} }},
		"ended":            {list(`{"ended":[`, `null`, `]}`), func() any { return &model.OpenRequest{} }},
		"tags":             {list(`{"tags":[`, `""`, `]}`), func() any { return &patchDoc{} }},
		"a set":            {list(`{"initial":[{"value":{"type":"string_set","value":[`, `""`, `]}}]}`), func() any { return &model.OpenRequest{} }},
		"a description":    {`{"description":"` + strings.Repeat("x", size-20) + `"}`, func() any { return &patchDoc{} }},
		"escapes":          {`{"description":"` + strings.Repeat(`\n`, size/2-20) + `"}`, func() any { return &patchDoc{} }},
		"something within": {strings.Repeat("[", 9_000), func() any { return &patchDoc{} }},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		var err error
		got := cost.Allocated(func() {
			r.Body, r.ContentLength = http.NoBody, int64(len(c.body))
			r.Body = reader{strings.NewReader(c.body)}
			err = readBody(httptest.NewRecorder(), r, c.into())
		})
		if got > weight.Times*maxBody {
			t.Errorf("%s: %d MiB are allocated for %d MiB (%.100v)", name, got>>20, len(c.body)>>20, err)
		}
	}
}

type reader struct{ *strings.Reader }

func (reader) Close() error { return nil }
