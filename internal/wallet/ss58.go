package wallet

import (
	"bytes"
	"errors"
	"math/big"
	"strings"

	"golang.org/x/crypto/blake2b"

	"github.com/kymogram/kymogram/internal/model"
)

// BittensorPrefix is the SS58 network number of Bittensor, the generic one of
// Substrate.
const BittensorPrefix = 42

const (
	accountBytes  = 32
	checksumBytes = 2
	maxPrefix     = 1<<14 - 1
	// maxAddress is the longest text that can be an address: two bytes of prefix,
	// account and checksum in base 58.
	maxAddress = 50
)

// Account is a public key: who signs.
type Account [accountBytes]byte

// String is the account's address on Bittensor.
func (a Account) String() string { return a.Address(BittensorPrefix) }

// MarshalText is String.
func (a Account) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an address of any network.
func (a *Account) UnmarshalText(text []byte) (err error) {
	*a, _, err = ParseAddress(string(text))
	return err
}

// Address is the account's SS58 address in the network of that number. Numbers
// above 16383 do not exist and wrap.
func (a Account) Address(prefix uint16) string {
	prefix &= maxPrefix
	raw := make([]byte, 0, 2+accountBytes+checksumBytes)
	if prefix < 64 {
		raw = append(raw, byte(prefix))
	} else {
		// The format's own bit shuffle: 6 bits of the low byte behind the mark 01,
		// then its 2 high bits below the high byte.
		raw = append(raw, byte(prefix>>2)&0x3f|0x40, byte(prefix>>8)|byte(prefix&3)<<6)
	}
	raw = append(raw, a[:]...)
	sum := checksum(raw)
	return encodeBase58(append(raw, sum[:]...))
}

// ParseAddress reads an SS58 address of a 32-byte account and its network number.
func ParseAddress(text string) (Account, uint16, error) {
	raw, err := decodeBase58(text)
	if err != nil {
		return Account{}, 0, refuseAddress(text, err.Error())
	}
	prefix, size, ok := readPrefix(raw)
	if !ok || len(raw) != size+accountBytes+checksumBytes {
		return Account{}, 0, refuseAddress(text, "it has the wrong length")
	}
	body := raw[:size+accountBytes]
	if sum := checksum(body); !bytes.Equal(sum[:], raw[len(body):]) {
		return Account{}, 0, refuseAddress(text, "its checksum is wrong")
	}
	return Account(body[size:]), prefix, nil
}

func refuseAddress(text, reason string) error {
	if len(text) > maxAddress {
		text = text[:maxAddress] + "…"
	}
	return model.Errorf(model.CodeInvalid, "%q is not an SS58 address: %s", text, reason).
		WithHint("an address on Bittensor has 48 characters and begins with 5")
}

func readPrefix(raw []byte) (prefix uint16, size int, ok bool) {
	switch {
	case len(raw) < 2 || raw[0] >= 0x80:
		return 0, 0, false
	case raw[0] < 64:
		return uint16(raw[0]), 1, true
	}
	low := raw[0]<<2 | raw[1]>>6
	prefix = uint16(raw[1]&0x3f)<<8 | uint16(low)
	return prefix, 2, prefix >= 64 // smaller ones have the short form only
}

func checksum(body []byte) [checksumBytes]byte {
	sum := blake2b.Sum512(append([]byte("SS58PRE"), body...))
	return [checksumBytes]byte(sum[:checksumBytes])
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

func encodeBase58(raw []byte) string {
	var out []byte
	radix, digit := big.NewInt(int64(len(base58))), new(big.Int)
	for n := new(big.Int).SetBytes(raw); n.Sign() > 0; {
		n.DivMod(n, radix, digit)
		out = append(out, base58[digit.Int64()])
	}
	for i := 0; i < len(raw) && raw[i] == 0; i++ {
		out = append(out, base58[0])
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return string(out)
}

func decodeBase58(text string) ([]byte, error) {
	if text == "" || len(text) > maxAddress {
		return nil, errors.New("it has the wrong length")
	}
	n, radix := new(big.Int), big.NewInt(int64(len(base58)))
	zeros := len(text) - len(strings.TrimLeft(text, base58[:1]))
	for i := range len(text) {
		digit := strings.IndexByte(base58, text[i])
		if digit < 0 {
			return nil, errors.New("it holds a character outside base 58")
		}
		n.Add(n.Mul(n, radix), big.NewInt(int64(digit)))
	}
	return append(make([]byte, zeros), n.Bytes()...), nil
}
