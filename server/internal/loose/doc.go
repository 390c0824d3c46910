// Package loose reads JSON texts in which NaN, Infinity and -Infinity may stand
// bare, as Python writes them. Everything else is RFC 8259, in valid UTF-8.
//
// A value is the bytes of its text. Nothing is decoded before somebody asks:
// Check scans a text, Members and Elements walk through one level of it, Get
// looks up a path, KindOf, Float and Text read a value. None of these allocates,
// except for a string that has escapes.
//
// Where a key of an object stands twice, the last one counts, as in Python.
//
// Check, Members, Elements and Decode judge what they read, so they may get any
// bytes. The other functions read a text that has passed Check. On other bytes
// their answer means nothing, but they always return.
package loose
