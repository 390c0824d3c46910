package keys_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/keys"
)

func TestParse(t *testing.T) {
	r, err := keys.Parse("trainer", "ingest, read", "team/digits", "30d")
	if err != nil || r.Name != "trainer" || !slices.Equal(r.Scopes, []auth.Scope{auth.Ingest, auth.Read}) || r.Workspace != "team" || r.Project != "digits" || r.ExpiresSeconds != 30*24*3600 {
		t.Errorf("%+v, %v", r, err)
	}
	for expires, seconds := range map[string]int64{"": 0, "1s": 1, "12h": 12 * 3600, "1d": 24 * 3600} {
		if r, err := keys.Parse("n", "read", "", expires); err != nil || r.ExpiresSeconds != seconds {
			t.Errorf("%q: %+v, %v", expires, r, err)
		}
	}
	for _, expires := range []string{"0d", "-1h", "1ms", "d", "x", "100000d"} {
		if _, err := keys.Parse("n", "read", "", expires); err == nil || !strings.Contains(err.Error(), "such as 12h or 30d") {
			t.Errorf("%q: %v", expires, err)
		}
	}
	if _, err := keys.Parse("", "read", "", ""); err == nil {
		t.Error("a key without a name")
	}
}

func TestRemote(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/keys":
			var in auth.Request
			_ = json.NewDecoder(r.Body).Decode(&in)
			_ = json.NewEncoder(w).Encode(auth.Document{ID: "1", Name: in.Name, Key: "secret"})
		case "GET /api/v1/keys":
			_ = json.NewEncoder(w).Encode(map[string][]auth.Document{"keys": {{ID: "1"}}})
		case "DELETE /api/v1/keys/1":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	at := keys.Remote{Server: &remote.Client{Base: s.URL}}
	request, err := keys.Parse("n", "read", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := at.Create(t.Context(), request); err != nil || doc.Key != "secret" || doc.Name != "n" {
		t.Errorf("%+v, %v", doc, err)
	}
	if docs, err := at.List(t.Context()); err != nil || len(docs) != 1 || docs[0].ID != "1" {
		t.Errorf("%+v, %v", docs, err)
	}
	if err := at.Revoke(t.Context(), "1"); err != nil {
		t.Error(err)
	}
	if err := at.Revoke(t.Context(), "2"); err == nil {
		t.Error("a key that is not there")
	}
}

func TestPrint(t *testing.T) {
	docs := []auth.Document{
		{ID: "1", Name: "a\x1b", Scopes: []auth.Scope{auth.Ingest, auth.Read}, Workspace: "w", Project: "p", State: "valid"},
		{ID: "2", Name: "b", State: "revoked", ExpiresNs: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local).UnixNano()},
	}
	zone := time.Date(2026, 1, 2, 0, 0, 0, 0, time.Local).Format("Z07:00")
	var some, all strings.Builder
	if place := keys.Place(auth.Document{Workspace: "w"}); place != "w/*" {
		t.Error(place)
	}
	if err := (keys.Listed{Keys: docs}).Print(&some); err != nil || some.String() != "ID  NAME  SCOPES       FOR  STATE  LAST USE  EXPIRES\n1   a\ufffd    ingest,read  w/p  valid  -         -\n" {
		t.Errorf("%v\n%s", err, some.String())
	}
	if err := (keys.Listed{Keys: docs, All: true}).Print(&all); err != nil || !strings.Contains(all.String(), "all  revoked  -         2026-01-02 03:04:05"+zone+"\n") {
		t.Errorf("%v\n%s", err, all.String())
	}
}

// A secret is alone on the output, so that it can be piped; the rest is a note.
func TestPrintOfWhatWasMade(t *testing.T) {
	for name, x := range map[string]struct {
		what      interface{ Print(out io.Writer) error }
		out, note string
		document  string
	}{
		"key": {
			keys.Created{Document: auth.Document{ID: "1", Name: "n\x1b", Key: "secret"}},
			"secret\n", "key 1 (n\ufffd): keep it now, it is not shown again\n", "",
		},
		"key of a workspace": {
			keys.Created{Document: auth.Document{ID: "1", Name: "n", Key: "secret", Workspace: "start"}},
			"secret\n", "key 1 (n): keep it now, it is not shown again\nit is for every project of the workspace start; a key for one project takes --project WORKSPACE/PROJECT, such as default/start\n", "",
		},
		"public link": {
			keys.Published{ID: "1", Link: "http://a/#k", Project: "w/p"},
			"http://a/#k\n", "whoever has this link can read w/p; end it with: kymogram key revoke 1\n", `{"id":"1","link":"http://a/#k"}`,
		},
		"link":    {keys.Link{Link: "http://a", ExpiresNs: 7}, "http://a\n", "", `{"link":"http://a","expires_ns":7}`},
		"revoked": {keys.Revoked{ID: "1"}, "revoked 1\n", "", `{"revoked":"1"}`},
	} {
		var out, note strings.Builder
		switch what := x.what.(type) {
		case keys.Created:
			what.Notes = &note
			x.what = what
		case keys.Published:
			what.Notes = &note
			x.what = what
		}
		document, err := json.Marshal(x.what)
		if err := errors.Join(err, x.what.Print(&out)); err != nil || out.String() != x.out || note.String() != x.note {
			t.Errorf("%s: %v, %q, %q", name, err, out.String(), note.String())
		}
		if x.document != "" && string(document) != x.document {
			t.Errorf("%s: %s", name, document)
		}
	}
}
