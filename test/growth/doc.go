// Package growth measures how the cost of each call grows with its input. Each
// row of a table names a call, one dimension of its input and a size n. The call
// runs at n and at 8 n; what it cost must not grow more than 12-fold.
//
// In: the real binary, the Go package, the Python package. Out: a table of
// processor time, allocated bytes, allocated objects and bytes on disk. A linear
// call grows 8-fold, so a quadratic one (64-fold) cannot hide.
//
// `make growth` measures all of it. `make test` leaves out processor time, which
// depends on what else the machine does. Start reading at row in growth_test.go;
// a row goes to routes_test.go or methods_test.go. A
// call without a row fails the tests of cover_test.go.
package growth
