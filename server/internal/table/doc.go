// Package table writes what a server answered, and numbers, times and names, as a
// person reads them in a terminal. In go documents of the HTTP API as JSON; out come
// lines on an io.Writer.
//
// Every name that others chose passes through [Printable]: it can neither move the
// cursor nor colour the screen. Columns are part of the interface; scripts read
// --json instead. Start with text.go; each other file is one kind of document.
package table
