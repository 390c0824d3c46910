package psql

import (
	"fmt"
	"testing"
)

func TestTranslate(t *testing.T) {
	for text, want := range map[string]string{
		"a = ? AND b = ?":                 "a = $1 AND b = $2 [0 1]",
		"a = ?2 AND b = ?1 AND c = ?2":    "a = $1 AND b = $2 AND c = $1 [1 0]",
		"a = ?12 AND b LIKE '%?''?' = ?3": "a = $1 AND b LIKE '%?''?' = $2 [11 2]",
		"runs r INDEXED BY x WHERE '?'":   "runs r  WHERE '?' []",
		"a INDEXED BY x)":                 "a ) []",
		"a INDEXED BY x\n\tWHERE":         "a \n\tWHERE []",
		"a CROSS JOIN json_each(?) e":     "a JOIN each($1) e [0]",
	} {
		q := translate(text)
		if got := q.Text + " " + fmt.Sprint(q.Args); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
