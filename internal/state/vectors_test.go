package state_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Run with -update to write the vectors anew: their signatures change.
var update = flag.Bool("update", false, "write testdata/state anew")

const vectorsFile = "../../testdata/state/vectors.json"

type vectors struct {
	Records []vector       `json:"records"`
	Refused []refusal      `json:"refused"`
	Legacy  []legacyVector `json:"legacy"`
	Proofs  []proofVector  `json:"proofs"`
}

type vector struct {
	Name      string          `json:"name"`
	Seed      string          `json:"seed"` // of the signer's key
	Address   string          `json:"address"`
	Fields    state.Record    `json:"fields"`
	Canonical string          `json:"canonical"` // hexadecimal
	Message   string          `json:"message"`   // hexadecimal, what is signed
	Hash      string          `json:"hash"`
	Envelope  *state.Envelope `json:"envelope"`
}

type refusal struct {
	Name     string          `json:"name"`
	Envelope json.RawMessage `json:"envelope"`
	Reason   string          `json:"reason"` // part of what a person reads
}

type legacyVector struct {
	Run       string `json:"run"`
	Address   string `json:"address"`
	Signature string `json:"signature"`
}

type proofVector struct {
	Proof   *state.Proof  `json:"proof"`
	Verdict state.Verdict `json:"verdict"`
}

// naive writes a record's bytes in the way of the page, field by field.
func naive(r state.Record) []byte {
	be := func(n uint64, size int) string {
		raw, _ := hex.DecodeString(strings.Repeat("0", 16-len(strconv.FormatUint(n, 16))) + strconv.FormatUint(n, 16))
		return string(raw[8-size:])
	}
	text := func(s string) string { return be(uint64(len(s)), 2) + s }
	return []byte("kymogram/state/v1\x00" + string(r.Genesis[:]) + be(uint64(r.Netuid), 2) + text(r.Role) + string(r.Hotkey[:]) +
		text(r.Workspace) + text(r.Project) + text(r.Run) + be(r.Sequence, 8) + string(r.Previous[:]) + be(r.Block, 8) +
		be(r.TimeMs, 8) + be(r.ExpiresMs, 8) + string(r.Machine[:]) + text(r.PayloadType) + string(r.PayloadHash[:]))
}

func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	raw, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var all vectors
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Records) < 3 || len(all.Refused) < 10 {
		t.Fatalf("%d records and %d refusals are too few", len(all.Records), len(all.Refused))
	}
	for _, v := range all.Records {
		checkVector(t, v)
	}
	for _, v := range all.Refused {
		_, err := open(v.Envelope)
		if err == nil || !strings.Contains(err.Error(), v.Reason) {
			t.Errorf("%s: %v, want %q", v.Name, err, v.Reason)
		}
	}
	for _, v := range all.Legacy {
		account, _, err := wallet.ParseAddress(v.Address)
		if err != nil {
			t.Fatal(err)
		}
		if j := state.CheckLegacy(account, v.Run, v.Signature); j.Verdict != state.Legacy {
			t.Errorf("legacy %s: %+v", v.Run, j)
		}
	}
	for _, v := range all.Proofs {
		if verdict, reason, err := v.Proof.Check(); verdict != v.Verdict || err != nil {
			t.Errorf("a proof of %s is %s: %s %v", v.Verdict, verdict, reason, err)
		}
	}
}

func checkVector(t *testing.T, v vector) {
	t.Helper()
	canonical := naive(v.Fields)
	if hex.EncodeToString(canonical) != v.Canonical || !bytes.Equal(canonical, v.Envelope.Record) {
		t.Errorf("%s: the bytes are not those of the page", v.Name)
	}
	if got := "<Bytes>" + string(canonical) + "</Bytes>"; hex.EncodeToString([]byte(got)) != v.Message {
		t.Errorf("%s: the message differs", v.Name)
	}
	r, err := v.Envelope.Open()
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	if *r != v.Fields || v.Envelope.Hash().String() != v.Hash || r.Hotkey.String() != v.Address {
		t.Errorf("%s reads as %+v", v.Name, r)
	}
	again, err := r.Canonical()
	if err != nil || !bytes.Equal(again, canonical) {
		t.Errorf("%s: encoded again it differs: %v", v.Name, err)
	}
}

func open(text []byte) (*state.Record, error) {
	e, err := state.ReadEnvelope(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return e.Open()
}

func writeVectors(t *testing.T) {
	t.Helper()
	var all vectors
	first := sample("first")
	bare := sample("no chain")
	bare.Genesis, bare.Netuid, bare.Block, bare.Role = state.Hash{}, 0, 0, state.Miner
	longest := sample("longest names")
	longest.Run, longest.Project = strings.Repeat("r~ !", 63)+"end", strings.Repeat("p", state.MaxName)
	longest.Sequence, longest.Netuid = state.MaxNumber, 65535
	second := sample("second")
	second.Sequence, second.Previous = 1_795_000_000_001, seal(t, 1, first, `{"hotkey":"5x"}`).Hash()
	for i, one := range []struct {
		name    string
		record  state.Record
		payload string
	}{
		{"first", first, `{"hotkey":"5x"}`},
		{"no chain, empty payload", bare, ""},
		{"longest names", longest, `{"stats":{"7":{"score":0.5,"name":"größer"}}}`},
		{"second", second, "\x00\xff no JSON"},
	} {
		e := seal(t, byte(i+1), one.record, one.payload)
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		all.Records = append(all.Records, vector{
			Name: one.name, Seed: hex.EncodeToString(bytes.Repeat([]byte{byte(i + 1)}, 32)), Address: r.Hotkey.String(), Fields: *r,
			Canonical: hex.EncodeToString(e.Record), Message: hex.EncodeToString(state.Wrapped(e.Record)), Hash: e.Hash().String(), Envelope: e,
		})
	}
	all.Refused = refusals(t)
	legacy, err := state.SignLegacy("0djlnjjs", key(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	all.Legacy = []legacyVector{{"0djlnjjs", key(t, 1).Account().String(), legacy}}
	all.Proofs = proofVectors(t)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(vectorsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorsFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func proofVectors(t *testing.T) []proofVector {
	t.Helper()
	other := sample("x")
	other.Machine = state.Machine{9}
	pair := func(a, b *state.Envelope) *state.Proof { return &state.Proof{A: a, B: b} }
	one := seal(t, 1, sample("x"), `{"stats":{"1":{"score":1}},"specs":{"free":1}}`)
	return []proofVector{
		{pair(one, seal(t, 1, sample("x"), `{"stats":{"1":{"score":1}},"specs":{"free":2}}`)), state.Equivocated}, // one machine
		{pair(one, seal(t, 1, other, `{"stats":{"1":{"score":1}},"specs":{"free":2}}`)), state.SharedKey},
		{pair(one, seal(t, 1, other, `{"stats":{"1":{"score":2}}}`)), state.Equivocated},
	}
}
