package subnet

import (
	"errors"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
)

// Error is an error as Python callers know it from substrate-interface.
type Error struct {
	Type string   `json:"type"`
	Name string   `json:"name"`
	Docs []string `json:"docs"`
}

// Document is what chain serve and chain submit print with --json.
type Document struct {
	OK    bool           `json:"ok"`
	Error *Error         `json:"error"`
	Done  *chain.Outcome `json:"outcome"` // nil of a submission

	hotkey string
	err    error
}

// Served describes a registration or, without an outcome, a submission, done or failed.
func Served(hotkey string, out *chain.Outcome, err error) Document {
	return Document{OK: err == nil, Error: describe(err), Done: out, hotkey: hotkey, err: err}
}

func describe(err error) *Error {
	var refused *chain.RefusedError
	var limited *chain.RateLimitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &Error{refused.Type, refused.Name, []string{refused.Docs}}
	case errors.As(err, &limited):
		return &Error{"RateLimit", "ServingRateLimitExceeded", []string{err.Error()}}
	}
	return &Error{"Error", string(model.CodeOf(err)), []string{err.Error()}}
}
