// Package repository holds tests over the repository as a whole: who imports
// whom, what lies in the files that git keeps, and that comments and documents
// name only what exists. Nothing flows in or out: there is no code here but the
// tests.
//
// The folder lies in the root's module because `go test` remembers a result
// only by files below the module of the test, and these tests read all of them.
// Start reading at importTable.
package repository
