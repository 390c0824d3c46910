package spool

import (
	"bytes"
	"encoding/json"
)

// marshalPlain is json.Marshal without the HTML escapes, so that every language
// writes the same bytes.
func marshalPlain(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
