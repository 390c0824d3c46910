package substrate

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/wallet"
)

// vectors are what substrate-interface (py-scale-codec) makes of the same
// metadata, see testdata/make_vectors.py.
type vectors struct {
	SpecVersion uint32 `json:"spec_version"`
	TxVersion   uint32 `json:"tx_version"`
	Calls       []struct {
		Pallet, Call, Hex string
		Args              map[string]any
	}
	Keys []struct {
		Pallet, Entry, Hex string
		Params             []any
	}
	Values []struct {
		Pallet, Entry string
		Hex           *string
		Value         any
	}
	Events struct {
		Hex    string
		Events []struct {
			Pallet, Name string
			Extrinsic    int
		}
	}
	Compact   []struct{ N, Hex string }
	Extrinsic struct {
		Nonce                             uint32
		Genesis, Before, Signature, After string
	}
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func readGzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func readMetadata(t testing.TB, name string) *Metadata {
	t.Helper()
	m, err := DecodeMetadata(readGzip(t, "testdata/"+name+".scale.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// argument turns a value of the vectors into what this package takes.
func argument(t *testing.T, name string, v any) any {
	switch v := v.(type) {
	case json.Number:
		n, ok := new(big.Int).SetString(v.String(), 10)
		if !ok {
			t.Fatal(v)
		}
		return n
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = argument(t, name, v[i])
		}
		return out
	case string:
		if account, _, err := wallet.ParseAddress(v); err == nil {
			if name == "dest" {
				return Variant{Name: "Id", Fields: Fields{{Value: account[:]}}}
			}
			return account[:]
		}
		return unhex(t, v)
	}
	return v
}

// plain is a decoded value in the vectors' words.
func plain(v any) any {
	switch v := v.(type) {
	case Fields:
		out := map[string]any{}
		for _, f := range v {
			out[f.Name] = plain(f.Value)
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, plain(one))
		}
		return out
	case []byte:
		return "0x" + hex.EncodeToString(v)
	case nil, string, bool:
		return v
	}
	return json.Number(fmt.Sprint(v))
}

func TestAgainstSubstrateInterface(t *testing.T) {
	v := readVectors(t)
	for _, name := range []string{"dev-spec218-v14", "dev-spec218-v15"} {
		m := readMetadata(t, name)
		for _, c := range v.Calls {
			args := map[string]any{}
			for field, value := range c.Args {
				args[field] = argument(t, field, value)
			}
			raw, err := m.Call(c.Pallet, c.Call, args)
			if err != nil || !bytes.Equal(raw, unhex(t, c.Hex)) {
				t.Errorf("%s: call %s.%s %v: %x, %v, want %s", name, c.Pallet, c.Call, c.Args, raw, err, c.Hex)
			}
		}
		for _, k := range v.Keys {
			params := argument(t, "", k.Params).([]any)
			key, err := m.StorageKey(k.Pallet, k.Entry, params...)
			if err != nil || !bytes.Equal(key, unhex(t, k.Hex)) {
				t.Errorf("%s: key %s.%s: %x, %v, want %s", name, k.Pallet, k.Entry, key, err, k.Hex)
			}
			back, err := m.StorageKeys(k.Pallet, k.Entry, key)
			if diff := cmp.Diff(plain(params), plain(back)); err != nil || diff != "" {
				t.Errorf("%s: key %s.%s read back: %v\n%s", name, k.Pallet, k.Entry, err, diff)
			}
		}
		for _, one := range v.Values {
			var raw []byte
			if one.Hex != nil {
				raw = unhex(t, *one.Hex)
			}
			value, err := m.StorageValue(one.Pallet, one.Entry, raw)
			if diff := cmp.Diff(one.Value, plain(value)); err != nil || diff != "" {
				t.Errorf("%s: value %s.%s: %v\n%s", name, one.Pallet, one.Entry, err, diff)
			}
		}
		events, err := m.Events(unhex(t, v.Events.Hex))
		if err != nil || len(events) != len(v.Events.Events) {
			t.Fatalf("%s: events %v, %v", name, events, err)
		}
		for i, want := range v.Events.Events {
			if got := events[i]; got.Pallet != want.Pallet || got.Name != want.Name || got.Extrinsic != want.Extrinsic {
				t.Errorf("%s: event %d is %+v, want %+v", name, i, got, want)
			}
		}
	}
	for _, c := range v.Compact {
		n, _ := new(big.Int).SetString(c.N, 10)
		if got := appendCompactBig(nil, n); !bytes.Equal(got, unhex(t, c.Hex)) {
			t.Errorf("compact %s: %x, want %s", c.N, got, c.Hex)
		}
		if back := newReader(unhex(t, c.Hex)).compact(); back.Cmp(n) != 0 {
			t.Errorf("compact %s reads as %s", c.Hex, back)
		}
	}
}

// given is a signer that knows one signature.
type given struct {
	signature [64]byte
	asked     []byte
}

func (g *given) Sign(message []byte) ([64]byte, error) {
	g.asked = bytes.Clone(message)
	return g.signature, nil
}

// The extrinsic has the bytes that substrate-interface makes, and its signature
// verifies over the payload that is signed here.
func TestExtrinsicOfSubstrateInterface(t *testing.T) {
	v := readVectors(t)
	alice, _, err := wallet.ParseAddress("5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY")
	if err != nil {
		t.Fatal(err)
	}
	signer := &given{signature: [64]byte(unhex(t, v.Extrinsic.Signature))}
	m := readMetadata(t, "dev-spec218-v14")
	call := unhex(t, v.Calls[0].Hex)
	got, err := m.SignExtrinsic(call, alice, signer, Signing{SpecVersion: v.SpecVersion, TxVersion: v.TxVersion, Genesis: Hash(unhex(t, v.Extrinsic.Genesis)), Nonce: v.Extrinsic.Nonce})
	if want := v.Extrinsic.Before + v.Extrinsic.Signature + v.Extrinsic.After; err != nil || hex.EncodeToString(got) != want {
		t.Errorf("%x, %v\nwant %s", got, err, want)
	}
	if !wallet.Verify(alice, signer.asked, signer.signature) {
		t.Error("the signature is over another payload")
	}
}

// Eras as Substrate's own tests have them (sp_runtime, generic/era.rs), and the bytes that
// polkadot.js documents.
func TestEras(t *testing.T) {
	for _, want := range []struct {
		period, birth uint64
		bytes         []byte
	}{{0, 7, []byte{0}}, {64, 42, []byte{5 + 42%16*16, 42 / 16}}, {64, 64*1000 + 42, []byte{0xa5, 0x02}}, {128, 0, []byte{6, 0}}, {4, 3, []byte{0x31, 0}}} {
		if got := (Era{want.period, Head{Number: want.birth}}).append(nil); !bytes.Equal(got, want.bytes) {
			t.Errorf("era of %d blocks from %d is %x, want %x", want.period, want.birth, got, want.bytes)
		}
	}
	m := readMetadata(t, "dev-spec218-v14")
	signing := Signing{Genesis: Hash{1}, Era: Era{64, Head{Hash: Hash{2}, Number: 42}}}
	_, mortal, err := m.extend(signing)
	if err != nil || bytes.Count(mortal, append([]byte{2}, make([]byte, 31)...)) != 1 {
		t.Errorf("the birth block is not signed: %x, %v", mortal, err)
	}
}

func TestLongPayloadsAreHashed(t *testing.T) {
	if n := len(payload(make([]byte, 200), make([]byte, 30), make([]byte, 26))); n != 256 {
		t.Errorf("256 bytes became %d", n)
	}
	if n := len(payload(make([]byte, 200), make([]byte, 30), make([]byte, 27))); n != 32 {
		t.Errorf("257 bytes became %d", n)
	}
}

// What the specification says of mainnet in December 2025, read from its metadata.
func TestMainnetMetadata(t *testing.T) {
	m := readMetadata(t, "finney-spec365-v16")
	p, err := m.pallet("SubtensorModule")
	if err != nil || m.Version != 16 || p.index != 7 {
		t.Fatalf("version %d, pallet %+v, %v", m.Version, p, err)
	}
	call := m.types[p.calls].variant("serve_prometheus")
	var args []string
	for _, f := range call.fields {
		args = append(args, f.name+" "+f.typeName)
	}
	if diff := cmp.Diff([]string{"netuid NetUid", "version u32", "ip u128", "port u16", "ip_type u8"}, args); call.index != 5 || diff != "" {
		t.Errorf("call %d: %s", call.index, diff)
	}
	var extensions []string
	for _, x := range m.extensions {
		extensions = append(extensions, x.name)
	}
	want := []string{
		"CheckNonZeroSender", "CheckSpecVersion", "CheckTxVersion", "CheckGenesis", "CheckMortality", "CheckNonce", "CheckWeight",
		"ChargeTransactionPayment", "SudoTransactionExtension", "SubtensorTransactionExtension", "DrandPriority", "CheckMetadataHash",
	}
	if diff := cmp.Diff(want, extensions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint8{4, 5}, m.xtVersions); diff != "" {
		t.Error(diff)
	}
	// The call's bytes are those of spec 218.
	v := readVectors(t)
	serve := map[string]any{"netuid": 1, "version": 183, "ip": 134744072, "port": 9101, "ip_type": 4}
	if raw, err := m.Call("SubtensorModule", "serve_prometheus", serve); err != nil || !bytes.Equal(raw, unhex(t, v.Calls[0].Hex)) {
		t.Errorf("call %x, %v", raw, err)
	}
	// So are the places where it keeps what is asked of it, and the record's bytes.
	for _, k := range v.Keys {
		key, err := m.StorageKey(k.Pallet, k.Entry, argument(t, "", k.Params).([]any)...)
		if err != nil || !bytes.Equal(key, unhex(t, k.Hex)) {
			t.Errorf("key %s.%s: %x, %v, want %s", k.Pallet, k.Entry, key, err, k.Hex)
		}
	}
	record := slices.Concat([]byte{7, 0, 0, 0, 0, 0, 0, 0, 183, 0, 0, 0, 8, 8, 8, 8}, make([]byte, 12), []byte{0x8d, 0x23, 4})
	value, err := m.StorageValue("SubtensorModule", "Prometheus", record)
	wantRecord := map[string]any{"block": "7", "version": "183", "ip": "134744072", "port": "9101", "ip_type": "4"}
	if diff := cmp.Diff(fmt.Sprint(wantRecord), fmt.Sprint(plain(value))); err != nil || diff != "" {
		t.Errorf("record: %v\n%s", err, diff)
	}
	extra, implicit, err := m.extend(Signing{SpecVersion: 365, TxVersion: 1, Nonce: 5})
	if err != nil || len(extra) != 4 || len(implicit) != 4+4+32+32+1 {
		t.Errorf("extra %x, implicit %x, %v", extra, implicit, err)
	}
	if err := m.moduleError(Fields{{"index", uint64(7)}, {"error", []byte{0, 0, 0, 0}}}); err.Pallet != "SubtensorModule" || err.Name == "" || err.Docs == "" {
		t.Errorf("error %+v", err)
	}
}

func TestExtensions(t *testing.T) {
	m := readMetadata(t, "finney-spec365-v16")
	for i := range m.extensions {
		kept := m.extensions[i]
		m.extensions[i].name = "SomethingNew"
		_, _, err := m.extend(Signing{})
		var unknown *UnknownExtensionError
		if empty := m.types.empty(kept.extra) && m.types.empty(kept.implicit); empty != (err == nil) {
			t.Errorf("%s under a new name: %v", kept.name, err)
		} else if err != nil && (!asUnknown(err, &unknown) || unknown.Name != "SomethingNew") {
			t.Errorf("%s under a new name: %v", kept.name, err)
		}
		m.extensions[i] = kept
	}
	for i := range m.extensions {
		if m.extensions[i].name == "ChargeTransactionPayment" {
			m.extensions[i].name = "ChargeTransactionPaymentWrapper" // spec 425
		}
	}
	if extra, _, err := m.extend(Signing{}); err != nil || len(extra) != 4 {
		t.Errorf("the wrapper: %x, %v", extra, err)
	}
}

func asUnknown(err error, target **UnknownExtensionError) bool {
	e, ok := err.(*UnknownExtensionError) //nolint:errorlint // it is returned as it is
	*target = e
	return ok
}

// Types that repeat one another: found in no time, 2^100 steps if asked one by one.
func TestEmptyTypes(t *testing.T) {
	g := registry{{kind: kindTuple}}
	for i := range 100 {
		g = append(g, typeDef{kind: kindTuple, items: []int{i, i}})
	}
	g = append(g, typeDef{kind: kindTuple, items: []int{101}}) // itself
	g = append(g, typeDef{kind: kindPrimitive, prim: primU8}, typeDef{kind: kindArray, size: 3, item: 102}, typeDef{kind: kindArray, item: 102})
	g.findEmpty()
	for id, want := range map[int]bool{0: true, 100: true, 101: false, 102: false, 103: false, 104: true} {
		if g.empty(id) != want {
			t.Errorf("type %d: %v", id, !want)
		}
	}
	r := newReader(nil)
	if g.decode(r, 64, 0); r.err == nil {
		t.Error("2^64 values were decoded")
	}
}

func TestCallsAreChecked(t *testing.T) {
	m := readMetadata(t, "dev-spec218-v14")
	good := func() map[string]any {
		return map[string]any{"netuid": 1, "version": 1, "ip": 1, "port": 1, "ip_type": 4}
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		says   string
	}{
		"too large":  {func(a map[string]any) { a["port"] = 65536 }, "port: 65536 does not fit into 16 bits"},
		"negative":   {func(a map[string]any) { a["netuid"] = -1 }, "does not fit"},
		"no number":  {func(a map[string]any) { a["ip"] = "8.8.8.8" }, "a number is needed"},
		"missing":    {func(a map[string]any) { delete(a, "ip") }, "5 fields are needed, not 4"},
		"other name": {func(a map[string]any) { delete(a, "ip"); a["IP"] = 1 }, "field ip is missing"},
	} {
		args := good()
		c.change(args)
		if _, err := m.Call("SubtensorModule", "serve_prometheus", args); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range [][2]string{{"Nothing", "serve_prometheus"}, {"SubtensorModule", "nothing"}} {
		if _, err := m.Call(c[0], c[1], nil); err == nil || !strings.Contains(err.Error(), "the chain has no") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	for _, name := range []string{"dev-spec218-v14", "dev-spec218-v15", "finney-spec365-v16"} {
		raw := readGzip(f, "testdata/"+name+".scale.gz")
		f.Add(raw[:200])
		f.Add(append(bytes.Clone(raw[:5]), make([]byte, 40)...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := DecodeMetadata(raw)
		if err != nil {
			return
		}
		for _, p := range m.pallets {
			for _, e := range p.entries {
				_, _ = m.StorageValue(p.name, e.name, nil)
				_, _ = m.StorageValue(p.name, e.name, raw)
				_, _ = m.StorageKeys(p.name, e.name, raw)
			}
		}
		_, _, _ = m.extend(Signing{})
	})
}

// Whatever decodes encodes, and then decodes to the same.
func FuzzValue(f *testing.F) {
	v := readVectors(f)
	m := readMetadata(f, "dev-spec218-v15")
	f.Add(uint16(0), unhex(f, v.Events.Hex))
	f.Add(uint16(200), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, id uint16, raw []byte) {
		_, _ = m.Events(raw)
		at := int(id) % len(m.types)
		value, err := m.types.decodeAll(at, raw)
		if err != nil {
			return
		}
		again, err := m.types.encode(nil, at, value, 0)
		if err != nil {
			return // bit sequences, and numbers above a compact's type
		}
		back, err := m.types.decodeAll(at, again)
		if diff := cmp.Diff(fmt.Sprintf("%#v", plain(value)), fmt.Sprintf("%#v", plain(back))); err != nil || diff != "" {
			t.Fatalf("type %d, %x: %v\n%s", at, raw, err, diff)
		}
	})
}
