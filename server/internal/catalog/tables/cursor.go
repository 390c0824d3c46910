package tables

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// cursor is where a page of runs ended: the sort, its key there and the run.
type cursor struct {
	Sort string `json:"s"`
	Type string `json:"t"` // of Key: n null, i integer, f real, s text
	Key  string `json:"k,omitempty"`
	PK   int64  `json:"p"`
}

func newCursor(sort string, key any, pk int64) cursor {
	c := cursor{Sort: sort, Type: "n", PK: pk}
	switch v := key.(type) {
	case int64:
		c.Type, c.Key = "i", strconv.FormatInt(v, 10)
	case float64:
		// 'g' with -1 reads back as the same number, infinities included.
		c.Type, c.Key = "f", strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		c.Type, c.Key = "s", v
	case []byte:
		c.Type, c.Key = "s", string(v)
	}
	return c
}

// key is the value to compare with, nil for null.
func (c *cursor) key() (any, error) {
	switch c.Type {
	case "i":
		return strconv.ParseInt(c.Key, 10, 64)
	case "f":
		return strconv.ParseFloat(c.Key, 64)
	case "s":
		return c.Key, nil
	case "n":
		return nil, nil
	}
	return nil, errCursor()
}

func encodeCursor(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // strings and integers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeCursor(text string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errCursor()
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if dec.Decode(into) != nil {
		return errCursor()
	}
	return nil
}

func errCursor() *model.Error {
	return model.Errorf(model.CodeInvalid, "the cursor is not valid").
		WithHint("Give back `next` of the page before, with the same filter and sort, or leave it out.")
}
