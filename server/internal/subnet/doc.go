// Package subnet says what package chain found or did, for the chain commands. In go
// outcomes, records and listings; out come lines for a person, and documents whose
// errors have the names that Python callers know from substrate-interface. It asks no
// chain. Start with document.go.
package subnet
