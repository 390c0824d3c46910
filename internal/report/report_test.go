package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/report"
	"github.com/kymogram/kymogram/internal/wallet"
)

// FuzzMembers: an object has the members that encoding/json finds, byte by byte.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, ` {"a" : 1 , "b":[{"c":"}"},"]\"{"], "a":null}`, "{\"\\u0061\":\"\\\\\",\"\u00fc\":\"\\\"\"}", `[1]`, `"{"`, `{"":{"":{}}}`, "{\"a\":\t-1.5e3\n}", `{"a":true,"A":false}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !report.Valid(text) {
			return
		}
		var want map[string]json.RawMessage
		object := json.Unmarshal(text, &want) == nil && want != nil
		got := map[string]json.RawMessage{}
		if report.Members(text, func(name string, value []byte) { got[name] = value }) != object {
			t.Fatalf("%s is an object: %v", text, object)
		}
		if !object {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d members, want %d", text, len(got), len(want))
		}
		for name, value := range want {
			if !bytes.Equal(got[name], value) {
				t.Fatalf("%s: %q is %q, want %q", text, name, got[name], value)
			}
		}
	})
}

func stats(uids []int) []byte {
	var out []string
	for _, uid := range uids {
		out = append(out, fmt.Sprintf(`"%d":{"uid":%d,"hotkey":"%s","gpu_specs":{"gpu_name":"G","num_gpus":1},"score":5,"own_score":true}`, uid, uid, wallet.Account{7}))
	}
	return []byte("{" + strings.Join(out, ",") + "}")
}

// The lowest uids are read, whatever their order, and the rest is named.
func TestTheLowestUIDsAreRead(t *testing.T) {
	found := report.Read(stats(rand.New(rand.NewPCG(1, 1)).Perm(500)), 20)
	if len(found.Stats) != 20 || len(found.Rest) != 480 || found.Note() != "" {
		t.Fatalf("%d, %d, %q", len(found.Stats), len(found.Rest), found.Note())
	}
	for i, s := range found.Stats {
		if s.UID != i || found.Rest[i] != 20+i || s.GPU != found.Stats[0].GPU {
			t.Fatalf("%d: %+v, %d", i, s, found.Rest[i])
		}
	}
}

// What is not asked for costs its name and its place.
func TestReadingFewOfManyTakesLittleMemory(t *testing.T) {
	uids := make([]int, 6000)
	for i := range uids {
		uids[i] = i
	}
	text := stats(uids)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := report.Read(text, 100)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; len(found.Stats) != 100 || took > 2*uint64(len(text)) {
		t.Errorf("%d entries of %d bytes took %d bytes", len(found.Stats), len(text), took)
	}
}

func TestWhatIsLeftOutIsSaid(t *testing.T) {
	entry := func(changes string) string {
		return `{"5":{"hotkey":"` + wallet.Account{7}.String() + `","score":5` + changes + `}}`
	}
	for text, reason := range map[string]string{
		entry(``): "", entry(`,"uid":5.0`): "", entry(`,"gpu_specs":{}`): "", entry(`,"own_score":null`): "", `null`: "", ``: "",
		entry(`,"score":100.00000001`): "", entry(`,"score":"x","score":1e2`): "",
		entry(`,"score":101`): "from 0 to 100", entry(`,"score":1e999`): "from 0 to 100", entry(`,"score":-5`): "from 0 to 100", entry(`,"score":null`): "no score",
		entry(`,"hotkey":""`): "no address", entry(`,"hotkey":null`): "no hotkey", entry(`,"hotkey":"` + wallet.Account{7}.Address(0) + `"`): "no address",
		entry(`,"uid":6`): "uid", entry(`,"uid":"5"`): "uid", entry(`,"gpu_specs":{"gpu_name":"A"}`): "num_gpus", entry(`,"gpu_specs":{"gpu_name":"A","num_gpus":1.5}`): "num_gpus",
		entry(`,"gpu_specs":{"gpu_name":"A","num_gpus":-3}`): "from 0 to 65535", entry(`,"gpu_specs":{"gpu_name":"A","num_gpus":65536}`): "from 0 to 65535",
		entry(`,"gpu_specs":{"gpu_name":"A","num_gpus":-0.0}`): "", entry(`,"gpu_specs":{"gpu_name":"A","num_gpus":65535}`): "",
		entry(`,"gpu_specs":{"num_gpus":1}`): "gpu_name", entry(`,"gpu_specs":[]`): "gpu_name", entry(`,"allocated":1`): "allocated", entry(`,"reliability_score":"1"`): "reliability_score",
		entry(`,"created_at":"` + strings.Repeat("1", 65) + `"`): "created_at", `{"05":{}}`: "no uid", `{"5":[]}`: "no object", `[]`: "no object",
	} {
		found := report.Read([]byte(text), 10)
		if (found.Note() == "") != (reason == "") || !strings.Contains(found.Note(), reason) {
			t.Errorf("%s: %q, want %q", text, found.Note(), reason)
		}
	}
}
