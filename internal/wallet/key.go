package wallet

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/ChainSafe/go-schnorrkel"
)

// SignatureBytes is the size of an sr25519 signature.
const SignatureBytes = 64

// signingContext is what Substrate signs under; a signature of another context
// does not verify.
const signingContext = "substrate"

// Key is an sr25519 key that can sign. Its secret leaves it in signatures only.
type Key struct {
	account Account
	secret  *schnorrkel.SecretKey
}

// NewKey makes the key of a 32-byte seed (a mini-secret).
func NewKey(seed [32]byte) (*Key, error) {
	mini, err := schnorrkel.NewMiniSecretKeyFromRaw(seed)
	if err != nil {
		return nil, errors.New("the seed makes no key") // the cause could quote it
	}
	return keyOf(mini.ExpandEd25519())
}

func keyOf(secret *schnorrkel.SecretKey) (*Key, error) {
	public, err := secret.Public()
	if err != nil {
		return nil, errors.New("the secret is not a valid sr25519 scalar")
	}
	return &Key{account: public.Encode(), secret: secret}, nil
}

// Account is the key's public half.
func (k *Key) Account() Account { return k.account }

// Sign signs a message. Two signatures of one message differ: sr25519 draws a
// random number for each.
func (k *Key) Sign(message []byte) ([SignatureBytes]byte, error) {
	signature, err := k.secret.Sign(schnorrkel.NewSigningContext([]byte(signingContext), message))
	if err != nil {
		return [SignatureBytes]byte{}, fmt.Errorf("sign: %w", err)
	}
	return signature.Encode(), nil
}

// Verify reports whether the account signed the message.
func Verify(account Account, message []byte, signature [SignatureBytes]byte) bool {
	public, err := schnorrkel.NewPublicKey(account)
	if err != nil {
		return false
	}
	parsed := new(schnorrkel.Signature)
	if parsed.Decode(signature) != nil {
		return false
	}
	ok, err := public.Verify(parsed, schnorrkel.NewSigningContext([]byte(signingContext), message))
	return err == nil && ok
}

// String shows the address and nothing else.
func (k *Key) String() string { return "key of " + k.account.String() }

// GoString is String: %#v would show the fields.
func (k *Key) GoString() string { return k.String() }

// Format makes every verb of fmt print String.
func (k *Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(k.String())) }

// LogValue shows the address.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText shows the address.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
