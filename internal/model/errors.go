package model

import (
	"errors"
	"fmt"
	"syscall"
)

// Code is the machine-readable reason of an [Error]. It appears in JSON errors,
// in acks and in the CLI's output, and never changes once released.
type Code string

// The codes, each with its HTTP status.
const (
	CodeInvalid         Code = "invalid_argument"  // 400
	CodeAmbiguous       Code = "ambiguous"         // 400
	CodeUnauthenticated Code = "unauthenticated"   // 401
	CodePermission      Code = "permission_denied" // 403
	CodeNotFound        Code = "not_found"         // 404
	CodeConflict        Code = "conflict"          // 409
	CodeRunExists       Code = "run_exists"        // 409
	CodeRunDeleted      Code = "run_deleted"       // 410, final for the points of that run
	CodeSlow            Code = "too_slow"          // 408, the body came too slowly: send it again
	CodeTooLarge        Code = "too_large"         // 413
	CodeGap             Code = "sequence_gap"      // 409, the ack carries the mark
	CodeKindMismatch    Code = "kind_mismatch"     // 422, final for that record
	CodeLimit           Code = "limit_exceeded"    // 422, final for that record
	CodeBadRecord       Code = "bad_record"        // 422, final for that record
	CodeSuperseded      Code = "stream_superseded" // 409, a newer stream of the writer took over
	CodeStateRefused    Code = "state_refused"     // 400, final: the record is none of this run
	CodeStateConflict   Code = "state_conflict"    // 409, the answer carries the newest record
	CodeLogOff          Code = "log_off"           // 404, the server keeps no Merkle log
	CodeDamaged         Code = "damaged"           // 500, the server's copy is not what was sent
	CodeDiskFull        Code = "disk_full"         // 507, retry later
	CodeBusy            Code = "busy"              // 429, retry later
	CodeUnavailable     Code = "unavailable"       // 503, retry later
	CodeTimeout         Code = "timeout"           // 504
	CodeInternal        Code = "internal"          // 500, retry later
)

// Error is an error that may be shown to a caller. Errors of other types are
// reported as CodeInternal and their text stays in the server's log.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Hint says what the caller can do, in one sentence; may be empty.
	Hint string `json:"hint,omitempty"`
	// Column is the place in a query that is wrong, in characters from 1; 0: none.
	Column int `json:"column,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an [Error] without a hint.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy that tells the caller what to do.
func (e *Error) WithHint(format string, args ...any) *Error {
	out := *e
	out.Hint = fmt.Sprintf(format, args...)
	return &out
}

// Shown is the part of an error that a caller may see: the first [Error] in its
// chain, or nil. That a process has no file descriptors left is no secret.
func Shown(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return Errorf(CodeUnavailable, "the server is out of file descriptors").
			WithHint("Send it again in a few seconds. Its operator can raise the limit: LimitNOFILE of the service, or ulimit -n.")
	}
	return nil
}

// CodeOf is the code of what [Shown] gives, CodeInternal when that is nothing, and
// "" for no error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e := Shown(err); e != nil {
		return e.Code
	}
	return CodeInternal
}

// RetryAfter is how many seconds a client waits at least before it sends the same
// again, 0 when that is of no use.
func (c Code) RetryAfter() int {
	switch c {
	case CodeBusy, CodeSlow:
		return 1
	case CodeUnavailable:
		return 5
	case CodeDiskFull:
		return 30
	}
	return 0
}

// Final reports whether a record refused with this code can never be taken:
// the uplink keeps it in rejected/ and goes on. A wrong key, a full disk and an
// unknown error are never final.
func (c Code) Final() bool {
	switch c {
	case CodeRunDeleted, CodeKindMismatch, CodeLimit, CodeBadRecord:
		return true
	}
	return false
}
