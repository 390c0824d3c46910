package sqlite

import (
	"database/sql/driver"
	"errors"
	"strings"

	sqlitedriver "modernc.org/sqlite"
)

// errFunctions is nil where SQLite knows the functions that package tables uses and SQLite
// lacks. The driver has one table of functions a process, filled before main.
var errFunctions = errors.Join(
	// fold is the lower case of a query's words, since SQLite's own is that of ASCII.
	sqlitedriver.RegisterDeterministicScalarFunction("fold", 1, func(_ *sqlitedriver.FunctionContext, args []driver.Value) (driver.Value, error) {
		text, _ := args[0].(string)
		return strings.ToLower(text), nil
	}),
	// has_member tells whether the key of a set has a member.
	sqlitedriver.RegisterDeterministicScalarFunction("has_member", 2, func(_ *sqlitedriver.FunctionContext, args []driver.Value) (driver.Value, error) {
		set, _ := args[0].(string)
		member, _ := args[1].(string)
		return strings.Contains("\n"+set+"\n", "\n"+member+"\n"), nil
	}),
)
