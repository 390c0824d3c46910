// Package storetest holds the suite that every engine of the store contract
// passes: random histories compared with a naive oracle, and the promises of
// durability. Engines call [Run] from their tests.
package storetest
