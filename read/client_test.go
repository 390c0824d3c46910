package read_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/read"
)

func Example() {
	ctx := context.Background()
	client, err := read.Dial("http://127.0.0.1:7070", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := client.Run(ctx, "vision/digits/lr0.3")
	if err != nil {
		fmt.Println(err)
		return
	}
	for series, err := range run.Series(ctx, "^eval/") {
		if err != nil {
			fmt.Println(err)
			return
		}
		for point, err := range series.Points(ctx, read.Between(0, 1000)) {
			if err != nil {
				fmt.Println(err)
				return
			}
			step, _ := point.Step()
			fmt.Println(series.Metric, step, point.Float)
		}
	}
}

func ExampleRun_Chunks() {
	ctx := context.Background()
	client, err := read.Dial("http://127.0.0.1:7070", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := client.Run(ctx, "vision/digits/lr0.3")
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, n := 0.0, 0
	for chunk, err := range run.Chunks(ctx, "loss", 10_000) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, loss := range chunk.Floats {
			sum += loss
		}
		n += chunk.Rows()
	}
	fmt.Println(sum / float64(n))
}

func ExampleRun_Config() {
	ctx := context.Background()
	client, err := read.Dial("http://127.0.0.1:7070", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for run, err := range client.Runs(ctx, "vision", "digits", read.RunFilter{Query: "lr<0.1"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		config, err := run.Config(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		summary, err := run.Summary(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.Name, config["lr"], summary["loss"].Float)
	}
}

// answer serves one body to every request, and keeps the last key.
func answer(t *testing.T, status int, body string) (address string, key *string) {
	t.Helper()
	key = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*key = r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL, key
}

func TestAnswersThatAreNone(t *testing.T) {
	for body, want := range map[string]string{
		`<html>`:                         "none of Kymogram's",
		`{"error":{"code":"x"}}`:         "no answer of Kymogram",
		`{"error":{"message":"broken"}}`: "broken",
		`{"series":{"kind":"float64"},"columns":{"time_ns":[1],"value":[],"attempt":[1],"writer":["a"]},"next":null}`:                "differ in length",
		`{"series":{"kind":"float64"},"columns":{"time_ns":[1],"value":["x"],"attempt":[1],"writer":["a"]},"next":null}`:             "not a number",
		`{"series":{"kind":"int64"},"columns":{"time_ns":[1],"value":[1.5],"attempt":[1],"writer":["a"]},"next":null}`:               "column value",
		`{"series":{"kind":"int64"},"columns":{"time_ns":[1],"value":[1],"attempt":[1],"writer":["a"],"step":[1,2]},"next":null}`:    "differ in length",
		`{"series":{"kind":"int64"},"columns":{"time_ns":["x"],"value":[1],"attempt":[1],"writer":["a"],"step":[1]},"next":null}`:    "time_ns",
		`{"series":{"kind":"int64"},"columns":{"time_ns":[1],"value":[1],"attempt":[1],"writer":["a"],"step":[0.5]},"next":null}`:    "column step",
		`{"series":{"kind":"float64"},"columns":{"time_ns":[1],"value":[null],"attempt":[1],"writer":["a"],"step":[1]},"next":null}`: "not a number",
	} {
		status := http.StatusOK
		if strings.HasPrefix(body, `{"error"`) {
			status = http.StatusTeapot
		}
		address, _ := answer(t, status, body)
		client, err := read.Dial(address, "k")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(body, "columns") {
			err = points(t, address)
		} else {
			_, err = client.Run(t.Context(), "w/p/n")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// points reads the points of a run whose server answers them as address does.
func points(t *testing.T, address string) error {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/points") {
			resp, err := http.Get(address)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body)
			return
		}
		_, _ = w.Write([]byte(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`))
	}))
	defer s.Close()
	client, err := read.Dial(s.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	run, err := client.Run(t.Context(), "w/p/n")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range run.Points(t.Context(), "m") {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRedirect: it is told where to, and the key goes nowhere else.
func TestRedirect(t *testing.T) {
	other, key := answer(t, http.StatusOK, `{"projects":[],"next":null}`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+r.URL.Path, http.StatusMovedPermanently)
	}))
	defer s.Close()
	client, err := read.Dial(s.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range client.Projects(t.Context()) {
		break
	}
	var refusal *read.Error
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Hint, "Name "+other+" as the server") {
		t.Errorf("%v", err)
	}
	if *key != "" {
		t.Errorf("the other host was asked, with %q", *key)
	}
}

func TestWhereServerAndKeyComeFrom(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("KYMOGRAM_API_KEY", "")
	address, key := answer(t, http.StatusOK, `{"projects":[],"next":null}`)
	t.Setenv("KYMOGRAM_SERVER", address)
	if err := os.MkdirAll(filepath.Join(home, "kymogram"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "kymogram", "credentials.json")
	if err := os.WriteFile(file, []byte(`{"`+address+`":"stored"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := func(given string) string {
		client, err := read.Dial("", given)
		if err != nil {
			t.Fatal(err)
		}
		for p, err := range client.Projects(t.Context()) {
			t.Errorf("%v, %v", p, err)
		}
		return *key
	}
	if got := asked(""); got != "Bearer stored" {
		t.Errorf("the stored key: %q", got)
	}
	t.Setenv("KYMOGRAM_API_KEY", "variable")
	if got := asked(""); got != "Bearer variable" {
		t.Errorf("the variable's key: %q", got)
	}
	if got := asked("given"); got != "Bearer given" {
		t.Errorf("the given key: %q", got)
	}
	t.Setenv("KYMOGRAM_API_KEY", "")
	if err := os.WriteFile(file, []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read.Dial("", ""); err == nil || !strings.Contains(err.Error(), "is not a JSON object of address to key") {
		t.Errorf("a damaged file: %v", err)
	}
	if _, err := read.Dial("ftp://x", "k"); err == nil {
		t.Error("an address that is none")
	}
}

// A run by its id costs no request; a program's own connection is used as it is.
func TestByID(t *testing.T) {
	address, key := answer(t, http.StatusOK, `{"series":[{"metric":"loss"}],"next":null}`)
	client := read.Over(&remote.Client{Base: address, Key: "k"})
	run := client.ByID("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	if run.ID != "01ARZ3NDEKTSV4RRFFQ69G5FAV" || *key != "" {
		t.Errorf("%+v, asked with %q", run, *key)
	}
	for series, err := range run.Series(t.Context(), "") {
		if err != nil || series.Metric != "loss" || *key != "Bearer k" {
			t.Errorf("%+v, %v, asked with %q", series, err, *key)
		}
	}
}

// A proxy or another program may answer with less than a server does: nothing of it
// is a reason to panic.
func TestListsThatLackSomething(t *testing.T) {
	for doc, want := range map[string]int{`{}`: 0, `{"series":null}`: 0, `{"series":[]}`: 0, `{"series":[null],"next":null}`: 1} {
		address, _ := answer(t, http.StatusOK, doc)
		count := 0
		for s, err := range read.Over(&remote.Client{Base: address}).ByID("01ARZ3NDEKTSV4RRFFQ69G5FAV").Series(t.Context(), "") {
			if err != nil || s == nil {
				t.Errorf("%s: %v, %v", doc, s, err)
			}
			count++
		}
		if count != want {
			t.Errorf("%s: %d series, want %d", doc, count, want)
		}
	}
}
