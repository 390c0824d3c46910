package netstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// Sealed is encrypted specs: an age file for X25519 recipients. Inside stands the
// hotkey too, so that no miner can show another one's file as its own.
type Sealed struct {
	Age []byte `json:"age"` // base64 in JSON
}

type sealedSpecs struct {
	Hotkey string          `json:"hotkey"`
	Specs  json.RawMessage `json:"specs"`
}

// EncryptSpecs encrypts what a hotkey has for recipients (age1…).
func EncryptSpecs(hotkey string, specs any, recipients ...string) (*Sealed, error) {
	plain, err := json.Marshal(specs)
	if err != nil {
		return nil, fmt.Errorf("encode specs: %w", err)
	}
	if len(recipients) == 0 {
		return nil, model.Errorf(model.CodeInvalid, "specs are encrypted for nobody").WithHint("name a recipient, or publish clear text")
	}
	keys := make([]age.Recipient, 0, len(recipients))
	for _, text := range recipients {
		key, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, model.Errorf(model.CodeInvalid, "%q is no recipient: %v", model.Clip(text), err).WithHint("a recipient is age1… of an X25519 key")
		}
		keys = append(keys, key)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, keys...)
	if err == nil {
		err = json.NewEncoder(w).Encode(sealedSpecs{hotkey, plain})
	}
	if err == nil {
		err = w.Close()
	}
	return &Sealed{out.Bytes()}, wrap("encrypt specs", err)
}

// maxSpecs is what a decrypted file may have: a payload has no more.
const maxSpecs = state.MaxPayload

// DecryptSpecs reads specs that a hotkey encrypted for this identity (AGE-SECRET-KEY-1…).
func DecryptSpecs(sealed *Sealed, hotkey, identity string) (json.RawMessage, error) {
	key, err := age.ParseX25519Identity(identity)
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "this is not an age identity") // the cause could quote it
	}
	plain, err := age.Decrypt(bytes.NewReader(sealed.Age), key)
	if err != nil {
		return nil, refused(hotkey, err)
	}
	text, err := io.ReadAll(io.LimitReader(plain, maxSpecs+1))
	if err != nil || len(text) > maxSpecs {
		return nil, refused(hotkey, errors.Join(err, errors.New("the file is damaged or too large")))
	}
	f := readFields(text)
	if inside, _ := field[string](f, "hotkey"); inside != hotkey || f["specs"] == nil {
		return nil, refused(hotkey, errors.New("they were encrypted by another hotkey"))
	}
	return f["specs"], nil
}

func refused(hotkey string, err error) error {
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return model.Errorf(model.CodePermission, "the specs of %s are encrypted for others", hotkey).
			WithHint("ask the miner to name this hotkey among the readers")
	}
	return model.Errorf(model.CodeInvalid, "the specs of %s cannot be decrypted: %v", hotkey, err)
}

// identity is the secret that specs for this database's participant are read with.
func (d *ComputeDb) identity(ctx context.Context) (secret string, err error) {
	made, err := age.GenerateX25519Identity()
	if err != nil {
		return "", fmt.Errorf("make an identity: %w", err)
	}
	if err := d.exec(ctx, "UPDATE state_self SET identity = ? WHERE identity = ''", made.String()); err != nil {
		return "", wrap("keep the identity", err)
	}
	_, err = d.row(ctx, "SELECT identity FROM state_self", nil, &secret)
	return secret, wrap("read the identity", err)
}

func recipientOf(identity string) (string, error) {
	key, err := age.ParseX25519Identity(identity)
	if err != nil {
		return "", model.Errorf(model.CodeInvalid, "the identity in the database is not an age identity").WithHint("Set it to '' in state_self. A new one is made then.")
	}
	return key.Recipient().String(), nil
}

// recipients are the keys that readers published in records that hold now.
func (n *Node) recipients(ctx context.Context, readers []string) (out []string, err error) {
	all, err := n.trusted(ctx, "")
	if err != nil {
		return nil, err
	}
	byHotkey := map[string]string{}
	for _, one := range all {
		if one.config.Recipient != "" {
			byHotkey[one.record.Hotkey.String()] = one.config.Recipient
		}
	}
	for _, hotkey := range readers {
		if byHotkey[hotkey] == "" {
			return nil, model.Errorf(model.CodeNotFound, "%s has published no key to encrypt for", model.Clip(hotkey)).
				WithHint("it publishes one when it joins with Kymogram's netstate; leave it out, or publish clear text")
		}
		out = append(out, byHotkey[hotkey])
	}
	return out, nil
}
