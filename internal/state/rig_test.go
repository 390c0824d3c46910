package state_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

const nowMs = 1_795_000_000_000

func key(t testing.TB, n byte) *wallet.Key {
	t.Helper()
	k, err := wallet.NewKey([32]byte(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sample(string) state.Record {
	return state.Record{
		Place: state.Place{
			Genesis: state.Hash{0x2f, 1}, Netuid: 27, Role: state.Validator,
			Workspace: "neuralinternet", Project: "opencompute", Run: "0djlnjjs",
		},
		Sequence: nowMs, Block: 4_000_000, TimeMs: nowMs, ExpiresMs: nowMs + 3_600_000,
		Machine: state.Machine{1, 2, 3}, PayloadType: state.ConfigPayload,
	}
}

func seal(t testing.TB, signer byte, r state.Record, payload string) *state.Envelope {
	t.Helper()
	e, err := state.Seal(r, []byte(payload), key(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// resign signs bytes that are no record: a holder of the key can.
func resign(t testing.TB, canonical []byte, payload string) *state.Envelope {
	t.Helper()
	signature, err := key(t, 1).Sign(state.Wrapped(canonical))
	if err != nil {
		t.Fatal(err)
	}
	return &state.Envelope{Record: canonical, Signature: signature, Payload: []byte(payload)}
}

// refusals are envelopes that no reader takes, most of them well signed.
func refusals(t *testing.T) (all []refusal) {
	t.Helper()
	const payload = `{"a":1}`
	good := seal(t, 1, sample(""), payload)
	add := func(name, reason string, text []byte) { all = append(all, refusal{name, text, reason}) }
	envelope := func(name, reason string, e *state.Envelope) {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		add(name, reason, text)
	}
	signed := func(name, reason string, change func(r *state.Record)) {
		r := sample("")
		r.Hotkey, r.PayloadHash = key(t, 1).Account(), state.HashOf([]byte(payload))
		change(&r)
		envelope(name, reason, resign(t, naive(r), payload))
	}
	signed("role with a Cyrillic letter", "letter by letter", func(r *state.Record) { r.Role = "vаlidator" })
	signed("role in capitals", "letter by letter", func(r *state.Record) { r.Role = "Validator" })
	signed("project with a look-alike letter", "printable ASCII", func(r *state.Record) { r.Project = "орencompute" })
	signed("run that ends with a space", "ends with a space", func(r *state.Record) { r.Run = "run " })
	signed("run with a decomposed letter", "printable ASCII", func(r *state.Record) { r.Run = "café" })
	signed("empty workspace", "workspace is empty", func(r *state.Record) { r.Workspace = "" })
	signed("sequence 0", "sequence is 0", func(r *state.Record) { r.Sequence = 0 })
	signed("sequence beyond 2^53", "sequence is", func(r *state.Record) { r.Sequence = 1 << 53 })
	signed("lives for a year", "must live", func(r *state.Record) { r.ExpiresMs = r.TimeMs + 365*86_400_000 })
	signed("expires before it is signed", "must live", func(r *state.Record) { r.ExpiresMs = r.TimeMs })
	signed("signed by another key", "signature is not one of hotkey", func(r *state.Record) { r.Hotkey = key(t, 2).Account() })
	envelope("another payload", "payload is not the signed one", &state.Envelope{Record: good.Record, Signature: good.Signature, Payload: []byte(`{"a":2}`)})
	envelope("a byte more", "do not fill", resign(t, append(bytes.Clone(good.Record), 0), payload))
	envelope("a byte less", "do not fill", resign(t, good.Record[:len(good.Record)-1], payload))
	envelope("another version", "does not begin with", resign(t, bytes.Replace(good.Record, []byte("/v1"), []byte("/v2"), 1), payload))
	long := bytes.Clone(good.Record)
	binary.BigEndian.PutUint16(long[52:], 0xffff) // the role's length
	envelope("a length beyond the end", "do not fill", resign(t, long, payload))
	bare, err := key(t, 1).Sign(good.Record)
	if err != nil {
		t.Fatal(err)
	}
	envelope("signed without <Bytes>", "signature is not one of hotkey", &state.Envelope{Record: good.Record, Signature: bare, Payload: good.Payload})
	record, signature := base64.StdEncoding.EncodeToString(good.Record), fmt.Sprintf("%x", good.Signature[:])
	text := func(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }
	body := base64.StdEncoding.EncodeToString(good.Payload)
	add("a name twice", "twice", text(`{"record":%q,"record":%q,"signature":%q,"payload":%q}`, record, record, signature, body))
	add("a name in capitals", "holds record", text(`{"Record":%q,"signature":%q,"payload":%q}`, record, signature, body))
	add("no payload", "holds record", text(`{"record":%q,"signature":%q}`, record, signature))
	add("signature in capitals", "lower-case", text(`{"record":%q,"signature":%q,"payload":%q}`, record, strings.ToUpper(signature), body))
	add("base64 with a line break", "not base64", text(`{"record":%q,"signature":%q,"payload":%q}`, record, signature, body[:4]+"\n"+body[4:]))
	add("payload null", "not a JSON string", text(`{"record":%q,"signature":%q,"payload":null}`, record, signature))
	return all
}
