package spool

// FSKind says what a file system means for a spool.
type FSKind string

// The kinds of file systems.
const (
	FSLocal       FSKind = "local"
	FSMemory      FSKind = "memory"
	FSNetwork     FSKind = "network"
	FSCopyOnWrite FSKind = "copy-on-write"
)

// Filesystem is where a spool lies.
type Filesystem struct {
	Name      string `json:"name"`
	Kind      FSKind `json:"kind"`
	FreeBytes int64  `json:"free_bytes"`
}

// Mapped reports whether segments may be mapped: a network file system loses
// coherence, and a copy-on-write one can run out of space under reserved bytes.
func (f Filesystem) Mapped() bool { return f.Kind == FSLocal || f.Kind == FSMemory }

// Survives says in words what a spool here outlives.
func (f Filesystem) Survives() string {
	switch f.Kind {
	case FSMemory:
		return "a killed process; not a restart of the machine"
	case FSNetwork:
		return "a killed process; power loss as far as the file server keeps what it acknowledged"
	}
	return "a killed process; power loss but for the last second"
}
