package state_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
)

// readerAt is a reader of the sample's place.
func readerAt(memory state.Memory, atMs int64) *state.Reader {
	r := sample("")
	return &state.Reader{
		Expect: state.Expect{Genesis: r.Genesis, Netuid: r.Netuid, Workspace: r.Workspace, Project: r.Project, Run: r.Run, Role: r.Role},
		Memory: memory, Clock: func() state.Clock { return state.Clock{Now: time.UnixMilli(atMs)} },
	}
}

func check(t testing.TB, r *state.Reader, e *state.Envelope) state.Judgement {
	t.Helper()
	j, err := r.Check(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// refusedWith fails unless the reader refuses the envelope with a reason.
func refusedWith(t testing.TB, what string, e *state.Envelope, seen *int) {
	t.Helper()
	*seen++
	j := check(t, readerAt(state.NewMemory(), nowMs), e)
	if j.Verdict.Trusted() || j.Payload != nil {
		t.Errorf("%s is accepted: %s", what, j.Reason)
	}
	if len(j.Reason) < 10 {
		t.Errorf("%s is refused without a reason: %q", what, j.Reason)
	}
}

// Every bit of the record, the signature and the payload is flipped.
func TestEveryFlippedBitIsRefused(t *testing.T) {
	good := seal(t, 1, sample(""), `{"stats":{"1":{"score":1}}}`)
	if j := check(t, readerAt(state.NewMemory(), nowMs), good); j.Verdict != state.Verified {
		t.Fatalf("the record itself: %+v", j)
	}
	seen := 0
	for name, part := range map[string]func(e *state.Envelope) []byte{
		"record":    func(e *state.Envelope) []byte { return e.Record },
		"payload":   func(e *state.Envelope) []byte { return e.Payload },
		"signature": func(e *state.Envelope) []byte { return e.Signature[:] },
	} {
		for bit := range 8 * len(part(good)) {
			e := &state.Envelope{Record: bytes.Clone(good.Record), Signature: good.Signature, Payload: bytes.Clone(good.Payload)}
			part(e)[bit/8] ^= 1 << (bit % 8)
			refusedWith(t, fmt.Sprintf("bit %d of the %s", bit, name), e, &seen)
		}
	}
	t.Logf("%d mutations, 0 accepted", seen)
}

// Every field is exchanged for that of another well-signed record, with and
// without the other's signature and payload.
func TestEveryExchangedFieldIsRefused(t *testing.T) {
	mine, other := sample(""), sample("")
	other.Genesis, other.Netuid, other.Role = state.Hash{9}, 28, state.Miner
	other.Workspace, other.Project, other.Run = "else", "where", "run2"
	other.Sequence, other.Previous, other.Block = nowMs+5, state.Hash{7}, 4_000_001
	other.TimeMs, other.ExpiresMs, other.Machine, other.PayloadType = nowMs+1, nowMs+3_600_001, state.Machine{8}, "config/v2"
	const payload, otherPayload = `{"a":1}`, `{"a":2}`
	good, foreign := seal(t, 1, mine, payload), seal(t, 2, other, otherPayload)
	read := func(e *state.Envelope) reflect.Value {
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(*r)
	}
	var fields [][]int
	for _, f := range reflect.VisibleFields(reflect.TypeFor[state.Record]()) {
		if !f.Anonymous {
			fields = append(fields, f.Index)
		}
	}
	if len(fields) != 15 {
		t.Fatalf("%d fields", len(fields))
	}
	seen := 0
	for _, index := range fields {
		changed := read(good).Interface().(state.Record)
		field := reflect.ValueOf(&changed).Elem().FieldByIndex(index)
		if reflect.DeepEqual(field.Interface(), read(foreign).FieldByIndex(index).Interface()) {
			t.Fatalf("the field %v does not differ", index)
		}
		field.Set(read(foreign).FieldByIndex(index))
		raw := naive(changed)
		for _, signature := range []state.Signature{good.Signature, foreign.Signature} {
			for _, p := range []string{payload, otherPayload} {
				refusedWith(t, fmt.Sprintf("field %v", index), &state.Envelope{Record: raw, Signature: signature, Payload: []byte(p)}, &seen)
			}
		}
	}
	for i, e := range []*state.Envelope{
		{Record: good.Record, Signature: foreign.Signature, Payload: good.Payload},
		{Record: good.Record, Signature: good.Signature, Payload: foreign.Payload},
		{Record: foreign.Record, Signature: good.Signature, Payload: good.Payload},
		foreign, // whole, but of another place
	} {
		refusedWith(t, fmt.Sprintf("parts of two records, %d", i), e, &seen)
	}
	t.Logf("%d exchanges, 0 accepted", seen)
}

// The transport is changed byte by byte, and its notes are exchanged: either the
// envelope is refused, or the reader reads what was signed.
func TestATransportThatIsChangedChangesNothingThatIsRead(t *testing.T) {
	good := seal(t, 1, sample(""), `{"stats":{"1":{"score":1}}}`)
	entry := state.Entry{Envelope: *good, Notes: state.Notes{Index: 3, Run: "0djlnjjs", Sequence: nowMs, Digest: good.Hash(), Hotkey: key(t, 1).Account().String(), Role: "validator"}}
	text, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	reader := func() *state.Reader { return readerAt(state.NewMemory(), nowMs) }
	accepted, refused := 0, 0
	try := func(what string, text []byte) {
		var e state.Entry
		if json.Unmarshal(text, &e) != nil {
			refused++
			return
		}
		j := check(t, reader(), &e.Envelope)
		if !j.Verdict.Trusted() {
			refused++
			return
		}
		if accepted++; !bytes.Equal(j.Payload, good.Payload) || j.Hash != good.Hash() {
			t.Errorf("%s: another content is read: %s", what, j.Payload)
		}
	}
	for i := range text {
		for _, b := range []byte{text[i] ^ 1, text[i] ^ 0x20, ' ', '"', 'A', '=', 0} {
			changed := bytes.Clone(text)
			changed[i] = b
			try(fmt.Sprintf("byte %d is %q", i, b), changed)
		}
		try(fmt.Sprintf("without byte %d", i), append(bytes.Clone(text[:i]), text[i+1:]...))
	}
	for _, exchange := range []string{
		`"sequence":1`, `"hotkey":"5x"`, `"role":"miner"`, `"run":"other"`, `"index":99`, `"hash":"` + strings.Repeat("0", 64) + `"`, `"fork":true`, `"payload_dropped":true`,
	} {
		name, _, _ := strings.Cut(exchange, ":")
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		members[strings.Trim(name, `"`)] = json.RawMessage(exchange[len(name)+1:])
		changed, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		try(exchange, changed)
	}
	if refused == 0 || accepted == 0 {
		t.Errorf("%d refused, %d read as signed", refused, accepted)
	}
	t.Logf("%d refused, %d read as they were signed", refused, accepted)
}

// Equal bytes have one text: no second spelling of an envelope is taken.
func TestAnEnvelopeHasOneSpelling(t *testing.T) {
	good := seal(t, 1, sample(""), "ab")
	body := func(record, signature, payload string) []byte {
		return fmt.Appendf(nil, `{"record":%q,"signature":%q,"payload":%q}`, record, signature, payload)
	}
	record, signature := base64.StdEncoding.EncodeToString(good.Record), hex.EncodeToString(good.Signature[:])
	if _, err := open(body(record, signature, "YWI=")); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{
		"loose bits at the end": body(record, signature, "YWJ="),
		"no padding":            body(record, signature, "YWI"),
		"the URL alphabet":      body(strings.NewReplacer("+", "-", "/", "_").Replace(record), signature, "YWI_"),
		"white space":           body(record, signature, "YWI= "),
		"0x":                    body(record, "0x"+signature, "YWI="),
	} {
		if _, err := open(text); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}
