package wallet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

// The files under testdata were written by the real bittensor-wallet, see
// testdata/make_wallets.py: signed.txt holds what that package says of the key.
func versions() []string { return []string{"2.0.2", "3.1.0", "4.1.1"} }

const sealedPassword = "kymogram test password"

type signed struct {
	address   string
	account   Account
	signature [SignatureBytes]byte
}

func readSigned(t *testing.T, version string) signed {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", version, "signed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(raw))
	public, err := hex.DecodeString(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	signature, err := hex.DecodeString(lines[2])
	if err != nil {
		t.Fatal(err)
	}
	return signed{lines[0], Account(public), [SignatureBytes]byte(signature)}
}

func readKeyFile(t testing.TB, version, hotkey string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", version, "w", "hotkeys", hotkey))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestKeyFilesOfEveryVersion(t *testing.T) {
	for _, version := range versions() {
		want := readSigned(t, version)
		key, err := Decode(readKeyFile(t, version, "plain"), nil)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if key.Account() != want.account || key.Account().String() != want.address {
			t.Errorf("%s: read %s, the wallet says %s", version, key.Account(), want.address)
		}
		if !Verify(want.account, []byte("kymogram"), want.signature) {
			t.Errorf("%s: the wallet's own signature does not verify", version)
		}
		if Verify(want.account, []byte("kymograf"), want.signature) {
			t.Errorf("%s: a signature of another message verifies", version)
		}
	}
}

// Each of seed, expanded secret and phrase alone gives the same account, and what
// it signs verifies.
func TestEverySecretOfTheFileAlone(t *testing.T) {
	for _, version := range versions() {
		want := readSigned(t, version)
		for _, keep := range []string{"secretSeed", "privateKey", "secretPhrase"} {
			fields := map[string]any{}
			if err := json.Unmarshal(readKeyFile(t, version, "plain"), &fields); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"secretSeed", "privateKey", "secretPhrase"} {
				if name != keep {
					delete(fields, name)
				}
			}
			file, _ := json.Marshal(fields)
			key, err := Decode(file, nil)
			if err != nil {
				t.Fatalf("%s %s: %v", version, keep, err)
			}
			if key.Account() != want.account {
				t.Errorf("%s %s: read %s", version, keep, key.Account())
			}
			signature, err := key.Sign([]byte("message"))
			if err != nil || !Verify(want.account, []byte("message"), signature) {
				t.Errorf("%s %s: its signature does not verify (%v)", version, keep, err)
			}
		}
	}
}

func TestSealedKeyFile(t *testing.T) {
	file := readKeyFile(t, "4.1.1", "sealed")
	_, err := Decode(file, nil)
	if model.CodeOf(err) != model.CodeUnauthenticated || !strings.Contains(hint(err), "KYMOGRAM_WALLET_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
	if testing.Short() {
		t.Skip("the real password hash takes 512 MiB and seconds")
	}
	key, err := Decode(file, func() (string, error) { return sealedPassword, nil })
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile("testdata/4.1.1/w/hotkeys/sealedpub.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, err := DecodePublic(public)
	if err != nil || key.Account() != want {
		t.Errorf("read %s, its pub file says %s (%v)", key.Account(), want, err)
	}
	_, err = Decode(file, func() (string, error) { return "wrong", nil })
	if model.CodeOf(err) != model.CodeUnauthenticated {
		t.Errorf("a wrong password: %v", err)
	}
}

func hint(err error) string {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

func TestPubFiles(t *testing.T) {
	for path, keyFile := range map[string]string{
		"testdata/4.1.1/w/hotkeys/plainpub.txt": "testdata/4.1.1/w/hotkeys/plain",
		"testdata/4.1.1/w/coldkeypub.txt":       "testdata/4.1.1/w/coldkey",
		"testdata/3.1.0/w/coldkeypub.txt":       "testdata/3.1.0/w/coldkey",
		"testdata/2.0.2/w/coldkeypub.txt":       "testdata/2.0.2/w/coldkey",
	} {
		public, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := os.ReadFile(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		account, err := DecodePublic(public)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if whole, err := DecodePublic(secret); err != nil || whole != account {
			t.Errorf("%s names %s, its key file %s (%v)", path, account, whole, err)
		}
		if _, err := Decode(public, nil); model.CodeOf(err) != model.CodeInvalid || !strings.Contains(hint(err), "pub.txt") {
			t.Errorf("%s as a key: %v", path, err)
		}
	}
}

func TestRefusedKeyFilesSayWhy(t *testing.T) {
	good := string(readKeyFile(t, "4.1.1", "plain"))
	other := readSigned(t, "3.1.0").address
	mine := readSigned(t, "4.1.1").address
	for name, c := range map[string]struct{ file, says string }{
		"vault":         {"$ANSIBLE_VAULT;1.1;AES256\n6162", "Ansible"},
		"fernet":        {"gAAAAABkxyz", "Fernet"},
		"ed25519":       {strings.Replace(good, `"cryptoType":1`, `"cryptoType":0`, 1), "sr25519"},
		"not json":      {"hello", "JSON"},
		"empty":         {"", "JSON"},
		"other address": {strings.ReplaceAll(good, mine, other), "ss58Address"},
		"huge":          {strings.Repeat(" ", maxKeyFile+1) + "{}", "large"},
		"cut box":       {"$NACLxx", "cut short"},
	} {
		_, err := Decode([]byte(c.file), func() (string, error) { t.Error("asked for a password"); return "", nil })
		if err == nil || !strings.Contains(err.Error(), c.says) || hint(err) == "" {
			t.Errorf("%s: %v (hint %q), want it to say %q", name, err, hint(err), c.says)
		}
	}
}

// secretsOf are the texts of a key file that must never be shown.
func secretsOf(t testing.TB, file []byte) []string {
	fields := map[string]any{}
	if err := json.Unmarshal(file, &fields); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range []string{"secretSeed", "privateKey", "secretPhrase"} {
		text := strings.TrimPrefix(fields[name].(string), "0x")
		out = append(out, text)
		if raw, err := hex.DecodeString(text); err == nil {
			out = append(out, string(raw[:32]), fmt.Sprintf("%d", raw[:32]), hex.EncodeToString(raw[:8]))
		} else {
			out = append(out, strings.Split(text, " ")[0]+" "+strings.Split(text, " ")[1])
		}
	}
	return out
}

func TestSecretsAreNeverShown(t *testing.T) {
	file := readKeyFile(t, "4.1.1", "plain")
	key, err := Decode(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	type holder struct{ Key *Key }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&shown, verb+"\n", key)
		fmt.Fprintf(&shown, verb+"\n", holder{key})
		fmt.Fprintf(&shown, verb+"\n", []*Key{key})
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
		slog.New(handler).Info("key", "key", key, "in", holder{key}, "list", []*Key{key})
	}
	if err := json.NewEncoder(&shown).Encode(map[string]any{"key": key, "in": holder{key}}); err != nil {
		t.Fatal(err)
	}
	// Every damaged form of the file: its error must quote nothing.
	for i := range len(file) {
		for _, damaged := range [][]byte{file[:i], slices.Concat(file[:i], []byte{'!'}, file[i+1:]), slices.Concat(file[:i], file[i+1:])} {
			if _, err := Decode(damaged, nil); err != nil {
				fmt.Fprintln(&shown, err, hint(err))
			}
		}
	}
	if !strings.Contains(shown.String(), key.Account().String()) {
		t.Error("nothing was shown: the test sees nothing")
	}
	for _, secret := range secretsOf(t, file) {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("the output shows a secret of %d bytes", len(secret))
		}
	}
}

func TestFolderWarnsOfOpenFiles(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "w", "hotkeys")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "h")
	if err := os.WriteFile(path, readKeyFile(t, "4.1.1", "plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := ParseFolder(root, "w/h")
	if err != nil {
		t.Fatal(err)
	}
	key, warnings, err := f.Open(nil)
	if err != nil || len(warnings) != 0 || key.Account().String() != readSigned(t, "4.1.1").address {
		t.Errorf("open: %v %v %v", key, warnings, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, warnings, err = f.Open(nil); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "0644") {
		t.Errorf("a file open to all: %q %v", warnings, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := exposed(path, info, nil, os.Getuid()+1); len(got) != 2 || !strings.Contains(got[1], "another user") {
		t.Errorf("a file of another user: %q", got)
	}
}

func TestFolderRefusals(t *testing.T) {
	for _, text := range []string{"", "..", "../x", "a/..", "a/b/c", "/x", "a/\x00"} {
		if _, err := ParseFolder("", text); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("ParseFolder(%q): %v", text, err)
		}
	}
	f, err := ParseFolder(t.TempDir(), "nobody")
	if err != nil || f.Hotkey != DefaultHotkey {
		t.Fatalf("%+v %v", f, err)
	}
	if _, _, err := f.Open(nil); model.CodeOf(err) != model.CodeNotFound || hint(err) == "" {
		t.Errorf("open what is not there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(f.Path, "nobody", "hotkeys", "default"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Open(nil); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("open a folder: %v", err)
	}
}

// The public half needs no secret: of HOTKEYpub.txt, else of a file that is not encrypted.
func TestPublicHalf(t *testing.T) {
	for _, hotkey := range []string{"plain", "second", "sealed"} {
		public, err := os.ReadFile("testdata/4.1.1/w/hotkeys/" + hotkey + "pub.txt")
		if err != nil {
			t.Fatal(err)
		}
		want, err := DecodePublic(public)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Folder{Path: "testdata/4.1.1", Name: "w", Hotkey: hotkey}.Public()
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", hotkey, got, err, want)
		}
	}
	want, err := Decode(readKeyFile(t, "2.0.2", "plain"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (Folder{Path: "testdata/2.0.2", Name: "w", Hotkey: "plain"}).Public(); err != nil || got != want.Account() {
		t.Errorf("without a pub file: %s, %v", got, err)
	}
	if _, err := (Folder{Path: "testdata/2.0.2", Name: "w", Hotkey: "none"}).Public(); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("nothing there: %v", err)
	}
}

// Addresses by py-scale-codec's ss58_encode of the bytes 0, 1, … 31.
func TestAddressesOfOtherNetworks(t *testing.T) {
	var account Account
	for i := range account {
		account[i] = byte(i)
	}
	for prefix, want := range ss58Vectors() {
		if got := account.Address(prefix); got != want {
			t.Errorf("network %d: %s, want %s", prefix, got, want)
		}
		back, network, err := ParseAddress(want)
		if err != nil || back != account || network != prefix {
			t.Errorf("%s: %x of network %d, %v", want, back, network, err)
		}
	}
}

func TestAddressRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		account := Account(rapid.SliceOfN(rapid.Byte(), accountBytes, accountBytes).Draw(t, "account"))
		prefix := rapid.Uint16Range(0, maxPrefix).Draw(t, "prefix")
		text := account.Address(prefix)
		back, network, err := ParseAddress(text)
		if err != nil || back != account || network != prefix {
			t.Fatalf("%s: %x of network %d, %v", text, back, network, err)
		}
		at, by := rapid.IntRange(0, len(text)-1).Draw(t, "at"), rapid.SampledFrom([]byte(base58)).Draw(t, "by")
		if text[at] == by {
			return
		}
		if other, _, err := ParseAddress(text[:at] + string(by) + text[at+1:]); err == nil && other == account {
			t.Fatalf("a changed character gave the same account")
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	f.Add("5DiDryVJJuwaSRpixwaE9fMC5fyR8p5wZXGA1aWTQC1RfdWd")
	f.Add("111111111111111111111111111111111111111111111111")
	f.Fuzz(func(t *testing.T, text string) {
		account, prefix, err := ParseAddress(text)
		if err == nil && account.Address(prefix) != text {
			t.Fatalf("%q reads as %s", text, account.Address(prefix))
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, version := range versions() {
		f.Add(readKeyFile(f, version, "plain"))
	}
	f.Add([]byte(`{"privateKey":"0x` + strings.Repeat("ff", 64) + `"}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		key, err := Decode(file, nil)
		if _, publicErr := DecodePublic(file); err == nil && publicErr == nil {
			signature, err := key.Sign(file)
			if err != nil || !Verify(key.Account(), file, signature) {
				t.Fatalf("a key that does not sign: %v", err)
			}
		}
	})
}
