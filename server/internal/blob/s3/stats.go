package s3

import (
	"errors"
	"net/http"
	"time"

	"github.com/kymogram/kymogram/server/internal/timing"
)

// Requests are those to S3 since the start: each try of one, to the head of its answer.
func (s *Store) Requests() timing.Stats { return s.requests.Stats() }

// errRefused counts an answer as a failure.
var errRefused = errors.New("S3 did not do it")

// counted counts requests.
type counted struct {
	http.RoundTripper
	requests *timing.Acts
}

// RoundTrip implements [http.RoundTripper].
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := c.RoundTripper.RoundTrip(r)
	failed := err
	if err == nil && isFailure(answer.StatusCode) {
		failed = errRefused
	}
	c.requests.End(began, &failed)
	return answer, err
}

// isFailure tells a failure from an answer that says what is there.
func isFailure(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return false
	}
	return status >= 400
}
