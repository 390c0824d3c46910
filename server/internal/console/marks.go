package console

import "bytes"

// The program marks places of a channel, with texts that the relay takes out again: where
// Python's sys.stderr writes to the terminal that stdout has too, and where it ends.
const (
	markError  = 'e' // what follows is of stderr
	markOutput = 'o' // what follows is of stdout
	markEnd    = 'z' // all before was written before the program let go
)

// marks finds marks, of the form BEGIN LETTER END with a random BEGIN. Marks may come in
// pieces: what may be the begin of one is held back.
type marks struct {
	begin, end []byte
	held       []byte
	stream     string
	plain      string // the stream of what has no mark
	output     func(stream string, data []byte)
	ended      func()
}

func newMarks(random, stream string) *marks {
	return &marks{begin: []byte("\x1b_kymogram:" + random + ":"), end: []byte("\x1b\\"), stream: stream, plain: stream}
}

func (m *marks) write(data []byte) {
	if len(m.held) > 0 {
		data = append(m.held, data...)
		m.held = nil
	}
	size := len(m.begin) + 1 + len(m.end)
	for len(data) > 0 {
		at := m.find(data)
		if at > 0 {
			m.output(m.stream, data[:at])
		}
		data = data[at:]
		if len(data) == 0 {
			return
		}
		if len(data) < size {
			m.held = append([]byte(nil), data...)
			return
		}
		m.obey(data[len(m.begin)])
		data = data[size:]
	}
}

// find is where a mark begins, or may begin; the length of data when there is none.
func (m *marks) find(data []byte) int {
	if at := bytes.Index(data, m.begin); at >= 0 {
		return at
	}
	for at := max(0, len(data)-len(m.begin)+1); at < len(data); at++ {
		if bytes.HasPrefix(m.begin, data[at:]) {
			return at
		}
	}
	return len(data)
}

func (m *marks) obey(letter byte) {
	switch letter {
	case markError:
		m.stream = "stderr"
	case markOutput:
		m.stream = m.plain
	case markEnd:
		m.ended()
	}
}

// release gives out what was held back and turned out to be no mark.
func (m *marks) release() {
	held := m.held
	m.held = nil
	if len(held) > 0 {
		m.output(m.stream, held)
	}
}
