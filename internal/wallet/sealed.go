package wallet

import (
	"bytes"
	"fmt"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/nacl/secretbox"

	"github.com/kymogram/kymogram/internal/model"
)

// A sealed key file is "$NACL", a nonce and a secretbox of the plain file. Its
// key is argon2i of the password with libsodium's "sensitive" limits and the one
// salt that bittensor-wallet has built in.
const (
	sealMark  = "$NACL"
	nonceSize = 24
	sealTime  = 8
	sealKiB   = 512 << 10
	sealKey   = 32
	sealSalt  = "\x13q\x83\xdf\xf1Z\t\xbc\x9c\x90\xb5Q\x879\xe9\xb1"
)

// Sealed reports whether a key file needs a password.
func Sealed(file []byte) bool { return bytes.HasPrefix(file, []byte(sealMark)) }

// unseal returns the plain file. Opening a sealed one takes seconds and 512 MiB:
// the format wants it so.
func unseal(file []byte, password Password) ([]byte, error) {
	switch {
	case Sealed(file):
		return open(file[len(sealMark):], password)
	case bytes.HasPrefix(file, []byte("$ANSIBLE_VAULT")):
		return nil, refuseOld("Ansible vault")
	case bytes.HasPrefix(file, []byte("gAAAAA")):
		return nil, refuseOld("Fernet")
	}
	return file, nil
}

func refuseOld(kind string) error {
	return model.Errorf(model.CodeInvalid, "the key file is encrypted in an old way (%s) that is not read here", kind).
		WithHint("save it again with a current bittensor-wallet, which rewrites it as $NACL")
}

func open(box []byte, password Password) ([]byte, error) {
	if password == nil {
		return nil, model.Errorf(model.CodeUnauthenticated, "the key file is encrypted and no password was given").
			WithHint("set KYMOGRAM_WALLET_PASSWORD, or run the command in a terminal to be asked")
	}
	if len(box) < nonceSize+secretbox.Overhead || len(box) > maxKeyFile {
		return nil, refuse("its encrypted part is cut short or too large")
	}
	word, err := password()
	if err != nil {
		return nil, fmt.Errorf("read the key file's password: %w", err)
	}
	key := argon2.Key([]byte(word), []byte(sealSalt), sealTime, sealKiB, 1, sealKey)
	plain, ok := secretbox.Open(nil, box[nonceSize:], (*[nonceSize]byte)(box), (*[sealKey]byte)(key))
	if !ok {
		return nil, model.Errorf(model.CodeUnauthenticated, "the password does not open the key file").
			WithHint("give the password that the hotkey was encrypted with")
	}
	return plain, nil
}
