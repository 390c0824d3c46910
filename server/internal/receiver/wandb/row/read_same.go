package row

import (
	"bytes"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// Same reports whether a line says what a stored row reads back as. stored is a
// [Row.Line]; line may be any text that passes loose.Check.
func Same(line, stored []byte) bool {
	came, ok := membersOf(line)
	if !ok {
		return false
	}
	is, ok := membersOf(stored)
	if !ok {
		return false
	}
	if _, there := came[`"`+TimestampKey+`"`]; !there { // it was given the time of its arrival
		delete(is, `"`+TimestampKey+`"`)
	}
	return loose.Equal(objectOf(came), objectOf(is))
}

// membersOf are the members of an object by their keys as JSON. Of equal keys the last
// stands.
func membersOf(object []byte) (map[string][]byte, bool) {
	out := map[string][]byte{}
	for m, err := range loose.Members(object) {
		if err != nil {
			return nil, false
		}
		key := m.RawKey
		if m.Faithful {
			key = loose.AppendText(nil, string(m.Key))
		}
		out[string(key)] = m.Value
	}
	return out, true
}

func objectOf(members map[string][]byte) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for key, value := range members {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
