package psql

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unknown is a commit whose answer was lost: it was done or not.
type Unknown struct{ Err error }

// Error implements error.
func (e Unknown) Error() string { return e.Err.Error() }

// Unwrap gives the loss.
func (e Unknown) Unwrap() error { return e.Err }

// Again tells an error of which nothing was stored, and that may be another at the next try.
func Again(err error) bool {
	var unknown Unknown
	if errors.As(err, &unknown) {
		return false
	}
	var said *pgconn.PgError
	if errors.As(err, &said) {
		switch said.Code {
		case "40001", // serialization_failure
			"40P01",                   // deadlock_detected
			"23505",                   // unique_violation: another made the row that this one looked for
			"25006",                   // read_only_sql_transaction: a standby
			"57P01", "57P02", "57P03": // shutting down, crashed, starting
			return true
		}
		connection, resources := strings.HasPrefix(said.Code, "08"), strings.HasPrefix(said.Code, "53")
		return connection || resources && said.Code != "53100" // a full disk
	}
	return Lost(err)
}

// Lost tells a connection that broke, or was not made.
func Lost(err error) bool {
	var network net.Error
	var connecting *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connecting) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
