// Package subnet is what the chain commands mean and say. In go a chain and a subnet as
// a person names them; out comes the configuration of package chain. In go its outcomes,
// records and listings; out come lines for a person, and documents whose errors have the
// names that Python callers know from substrate-interface. It asks no chain. Start with
// place.go and document.go.
package subnet
