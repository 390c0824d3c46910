// Package weight says what a message will take in memory before it is read.
//
// In: the bytes of a protobuf message or of a JSON text, from anybody. Out: an upper
// bound of what its decoder allocates, without allocating anything. A few bytes can ask for
// a structure of hundreds, so the size of a message alone says little.
//
// The bound counts what becomes garbage on the way too: a list that grows leaves its
// smaller selves behind. Text that no decoder would take is an error, never a small weight.
//
// Start with [Shape] for protobuf, [Lists] for JSON.
package weight

// Times is how many times the limit of its body a request may take in memory.
const Times = 4
