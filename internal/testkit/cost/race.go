//go:build race

package cost

// Raced is set under the race detector, which allocates memory of its own: nothing that is
// measured then says anything.
const Raced = true
