package model_test

import (
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

func TestCheckDocument(t *testing.T) {
	many := "[0" + strings.Repeat(",1", 513) + "]"
	for doc, want := range map[string]string{
		`{"bin_edges":[0,1,2],"counts":[3,0]}`:                                                         "",
		`{"bin_edges":[-1,1],"densities":[0.5],"stats":{"min":-1,"max":1,"sum":0,"sum_of_squares":1}}`: "",
		`{"bin_edges":[0],"counts":[]}`:                                                                "2 to 513",
		`{"bin_edges":` + many + `,"counts":[1]}`:                                                      "2 to 513",
		`{"bin_edges":[0,0],"counts":[1]}`:                                                             "strictly rising",
		`{"bin_edges":[0,1]}`:                                                                          "either counts or densities",
		`{"bin_edges":[0,1],"counts":[1],"densities":[1]}`:                                             "either counts or densities",
		`{"bin_edges":[0,1],"counts":[1,2]}`:                                                           "2 numbers for 1 bins",
		`{"bin_edges":[0,1],"counts":[-1]}`:                                                            "not negative",
		`{"bin_edges":[0,1],"counts":["NaN"]}`:                                                         "api/openapi.yaml",
		`{"bin_edges":[0,1],"counts":[1],"more":1}`:                                                    "unknown field",
		`{"bin_edges":[0,1],"counts":[1]} {}`:                                                          "more than one",
		"\x01\x02":                                                                                     "api/openapi.yaml",
	} {
		fails(t, model.KindHistogram, doc, want)
	}
	for doc, want := range map[string]string{
		`{"x":[1,"NaN"],"y":[2,"-Infinity"]}`:          "",
		`{"x":[],"y":[]}`:                              "",
		`{"x":[1],"y":[2],"z":[3],"z_title":"height"}`: "",
		`{"x":[1],"y":[]}`:                             "equal length",
		`{"x":[1],"y":[1],"z":[1,2]}`:                  "equal length",
		`{"x":[1],"y":[1],"x_title":"a\u0000"}`:        "control characters",
		`{"x":["many"],"y":[1]}`:                       "api/openapi.yaml",
	} {
		fails(t, model.KindScatter, doc, want)
	}
}

func fails(t *testing.T, kind model.Kind, doc, want string) {
	t.Helper()
	err := model.CheckDocument(kind, []byte(doc))
	switch {
	case want == "" && err != nil:
		t.Errorf("%s %.80q: %v", kind, doc, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s %.80q: %v, want %q", kind, doc, err, want)
	}
}

func FuzzCheckDocument(f *testing.F) {
	f.Add(true, []byte(`{"bin_edges":[0,1],"counts":[1]}`))
	f.Add(false, []byte(`{"x":[1],"y":[2]}`))
	f.Fuzz(func(t *testing.T, histogram bool, doc []byte) {
		kind := model.KindScatter
		if histogram {
			kind = model.KindHistogram
		}
		_ = model.CheckDocument(kind, doc)
	})
}
