package wallet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/ChainSafe/go-schnorrkel"

	"github.com/kymogram/kymogram/internal/model"
)

// maxKeyFile is far above what a key file holds.
const maxKeyFile = 64 << 10

// cryptoSr25519 is the only key type that signs on Bittensor.
const cryptoSr25519 = 1

// Password asks for the password of a sealed key file. It is called at most once.
type Password func() (string, error)

// keyFields are what bittensor-wallet writes, in any order; unknown fields are
// those of later versions.
type keyFields struct {
	AccountID    string `json:"accountId"`
	PublicKey    string `json:"publicKey"`
	PrivateKey   string `json:"privateKey"`
	SecretPhrase string `json:"secretPhrase"`
	SecretSeed   string `json:"secretSeed"`
	Address      string `json:"ss58Address"`
	CryptoType   *int   `json:"cryptoType"`
}

// Decode reads the bytes of a hotkey's file. Errors quote nothing of it. A nil
// password refuses a sealed file with a hint.
func Decode(file []byte, password Password) (*Key, error) {
	plain, err := unseal(file, password)
	if err != nil {
		return nil, err
	}
	fields, err := parse(plain)
	if err != nil {
		return nil, err
	}
	key, err := fields.key()
	if err != nil {
		return nil, err
	}
	return key, fields.agree(key.account)
}

// DecodePublic reads the bytes of a *pub.txt file, or the public half of an
// unsealed key file.
func DecodePublic(file []byte) (Account, error) {
	fields, err := parse(file)
	if err != nil {
		return Account{}, err
	}
	account, err := fields.account()
	if err != nil {
		return Account{}, err
	}
	return account, fields.agree(account)
}

func parse(plain []byte) (*keyFields, error) {
	if len(plain) > maxKeyFile {
		return nil, refuse("it is too large")
	}
	fields := new(keyFields)
	if json.Unmarshal(bytes.TrimSpace(plain), fields) != nil { // its error may quote a secret
		return nil, refuse("it is not the JSON object that bittensor-wallet writes")
	}
	if fields.CryptoType != nil && *fields.CryptoType != cryptoSr25519 {
		return nil, refuse("its key is not sr25519 (cryptoType is not 1), which Bittensor needs")
	}
	return fields, nil
}

func refuse(reason string) *model.Error {
	return model.Errorf(model.CodeInvalid, "the key file cannot be used: %s", reason).
		WithHint("make or regenerate the hotkey with `btcli wallet new-hotkey` or `btcli wallet regen-hotkey`")
}

// key takes the seed; without one the expanded secret, then the phrase.
func (f *keyFields) key() (*Key, error) {
	switch {
	case f.SecretSeed != "":
		seed, err := unhex(f.SecretSeed, 32)
		if err != nil {
			return nil, refuse("secretSeed is not 0x and 64 hex digits")
		}
		return NewKey([32]byte(seed))
	case f.PrivateKey != "":
		secret, err := unhex(f.PrivateKey, 64)
		if err != nil {
			return nil, refuse("privateKey is not 0x and 128 hex digits")
		}
		return keyOf(schnorrkel.NewSecretKey([32]byte(secret[:32]), [32]byte(secret[32:])))
	case f.SecretPhrase != "":
		mini, err := schnorrkel.MiniSecretKeyFromMnemonic(f.SecretPhrase, "")
		if err != nil {
			return nil, refuse("secretPhrase is not a BIP-39 phrase")
		}
		return keyOf(mini.ExpandEd25519())
	}
	return nil, model.Errorf(model.CodeInvalid, "the key file holds no secret: it can only be read, not sign").
		WithHint("name the hotkey's own file, not the …pub.txt next to it")
}

func (f *keyFields) account() (Account, error) {
	for _, text := range []string{f.PublicKey, f.AccountID} {
		if raw, err := unhex(text, accountBytes); err == nil {
			return Account(raw), nil
		}
	}
	if f.Address != "" {
		account, _, err := ParseAddress(f.Address)
		return account, err
	}
	return Account{}, refuse("it names no public key")
}

// agree checks that what the file says of its public half belongs to its secret:
// a file edited by hand must not register another account.
func (f *keyFields) agree(account Account) error {
	for _, text := range []string{f.PublicKey, f.AccountID} {
		if text == "" {
			continue
		}
		if raw, err := unhex(text, accountBytes); err != nil || Account(raw) != account {
			return refuse("its public key does not belong to its secret")
		}
	}
	if f.Address == "" {
		return nil
	}
	if named, _, err := ParseAddress(f.Address); err != nil || named != account {
		return refuse("its ss58Address does not belong to its secret")
	}
	return nil
}

var errHex = errors.New("not hex of that size")

// unhex reads 0x and hex digits; its error quotes nothing.
func unhex(text string, size int) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != size {
		return nil, errHex
	}
	return raw, nil
}
