package wandb_test

import (
	"crypto/md5" //nolint:gosec // the names of W&B's files
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/server/internal/receiver/wandb"
)

// FuzzManifest holds what parts of a manifest make against encoding/json and maps.
func FuzzManifest(f *testing.F) {
	const full = `{"version":1,"storagePolicy":"wandb-storage-policy-v1","storagePolicyConfig":{"storageLayout":"V2"},"contents":{"b":{"digest":"x","size":3},"a/\u00fc":{"digest":"y","ref":"s3://b"}}}`
	f.Add([]byte(full), []byte(`{"contents":{"b":{"digest":"z","size":0,"extra":{"k":[1]}},"c":{}}}`))
	f.Add([]byte(full), []byte(full))
	f.Add([]byte(`{"contents":{}}`), []byte(` { "contents" : { "a" : { } } , "version" : NaN } `))
	f.Add([]byte(`{"contents":{"a":{}},"contents":{"b":{}}}`), []byte(`{"contents":{"a":{},"a":{}}}`))
	f.Add([]byte(`[]`), []byte(`{"contents":{"\ud800":{}}}`))
	f.Fuzz(func(t *testing.T, base, part []byte) {
		text, digest, err := wandb.Composed(base, part)
		if err != nil {
			return
		}
		if !json.Valid(base) || !json.Valid(part) {
			return // with bare NaN: JSON as Python has it
		}
		got, want := contentsOf(t, text), contentsOf(t, base)
		maps.Copy(want, contentsOf(t, part))
		if !reflect.DeepEqual(parsed(t, want), parsed(t, got)) {
			t.Errorf("%q over %q is %q", part, base, text)
		}
		sum := md5.New() //nolint:gosec // see above
		fmt.Fprintln(sum, "wandb-artifact-manifest-v1")
		for _, name := range slices.Sorted(maps.Keys(got)) {
			var e map[string]any
			if err := json.Unmarshal(got[name], &e); err != nil {
				t.Fatal(err)
			}
			text, _ := e["digest"].(string)
			fmt.Fprintf(sum, "%s:%s\n", name, text)
		}
		if want := hex.EncodeToString(sum.Sum(nil)); digest != want {
			t.Errorf("the digest of %q is %s, want %s", text, digest, want)
		}
	})
}

func contentsOf(t *testing.T, text []byte) map[string]json.RawMessage {
	t.Helper()
	var whole, contents map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if err := json.Unmarshal(whole["contents"], &contents); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return contents
}

func parsed(t *testing.T, contents map[string]json.RawMessage) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, text := range contents {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}
