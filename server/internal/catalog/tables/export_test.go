package tables

import "testing"

// OpenSQLite opens the tables in a new file of SQLite's. TestMain gives it: package sqlite
// imports this one.
var OpenSQLite func(t testing.TB) *DB
