// Package recorded holds what the uplink and the server of commit 97b6811, which
// knew protocol 1 only, said to each other: the streams of two writers of one run
// and, as state.json, what that server's HTTP API then answered.
//
// The first writer logged an RL environment and stayed open; then the second sent
// a record of every kind, two of which the server refused, and closed; then the
// first closed. A proxy between the two programs took the messages.
package recorded

import (
	"embed"
	"encoding/binary"
)

//go:embed testdata
var files embed.FS

// Message is one message of a stream, in protobuf.
type Message struct {
	FromServer bool
	Data       []byte
}

// First is the writer that logged an environment before and after the second.
func First() []Message { return read("first.stream") }

// Second is the writer that sent a record of every kind.
func Second() []Message { return read("second.stream") }

// TooNew is that server's answer to an open of protocol 2.
func TooNew() []Message { return read("toonew.stream") }

// State maps a path of the HTTP API, with RUN for the run's id, to its answer.
func State() []byte { return file("state.json") }

func file(name string) []byte {
	data, err := files.ReadFile("testdata/" + name)
	if err != nil {
		panic(err)
	}
	return data
}

// read takes a file apart: a message is '<' from the server or '>' from the
// client, its length as a varint, and its bytes.
func read(name string) (out []Message) {
	for data := file(name); len(data) > 0; {
		length, n := binary.Uvarint(data[1:])
		end := 1 + n + int(length)
		out = append(out, Message{FromServer: data[0] == '<', Data: data[1+n : end]})
		data = data[end:]
	}
	return out
}
