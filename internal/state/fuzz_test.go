package state_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
)

// FuzzDecode: what is read is written the same, and nothing else is read.
func FuzzDecode(f *testing.F) {
	good := seal(f, 1, sample(""), "{}")
	f.Add(good.Record)
	f.Add([]byte(state.Prefix))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := state.Decode(raw)
		if err != nil {
			return
		}
		again, err := r.Canonical()
		if err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("read as %+v, written as %x: %v", r, again, err)
		}
	})
}

// FuzzEntry: the memory that a text takes is in proportion to it, and what is
// taken is written the same.
func FuzzEntry(f *testing.F) {
	good := seal(f, 1, sample(""), `{"a":1}`)
	text, err := json.Marshal(state.Entry{Envelope: *good})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"record":"","record":""}`))
	f.Add(bytes.Repeat([]byte("["), 9_000))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e state.Entry
		if json.Unmarshal(text, &e) != nil {
			return
		}
		again, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var twice state.Entry
		if err := json.Unmarshal(again, &twice); err != nil || !twice.Envelope.Equal(&e.Envelope) || twice.Signature != e.Signature {
			t.Fatalf("%s reads otherwise as %s: %v", text, again, err)
		}
	})
}

// A text of 10 MB is refused in the memory that an envelope may take.
func TestALargeEnvelopeTakesLittleMemory(t *testing.T) {
	text := append([]byte(`{"record":"`), bytes.Repeat([]byte("A"), 10<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := state.ReadEnvelope(bytes.NewReader(text))
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Fatal("10 MB are taken")
	}
	// io.ReadAll grows by a quarter: the sum of what it takes is five times the end.
	if took := after.TotalAlloc - before.TotalAlloc; took > 6*state.MaxEnvelope {
		t.Errorf("it took %d bytes", took)
	}
	if _, err := state.Decode(bytes.Repeat([]byte("a"), 1<<20)); err == nil {
		t.Error("a record of 1 MiB is taken")
	}
}
