package subtensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The sections of a WebAssembly module that ownMemory touches.
const (
	sectionImport = 2
	sectionMemory = 5
	sectionExport = 7
	kindMemory    = 2
	wasmHeader    = 8
)

// ownMemory turns the runtime's imported memory into one of its own that it
// exports: host modules of wazero cannot export a memory.
func ownMemory(module []byte) ([]byte, error) {
	if len(module) < wasmHeader || string(module[:4]) != "\x00asm" {
		return nil, errors.New("this is no WebAssembly module")
	}
	out, limits, placed := slices.Clone(module[:wasmHeader]), []byte(nil), false
	for rest := module[wasmHeader:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || uint64(len(rest)-1-n) < size {
			return nil, errors.New("a section of the module is cut short")
		}
		body := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		if id > sectionMemory && !placed && limits != nil {
			out = appendSection(out, sectionMemory, append([]byte{1}, limits...))
			placed = true
		}
		var err error
		switch id {
		case sectionImport:
			body, limits, err = cutMemoryImport(body)
		case sectionExport:
			body = addMemoryExport(body)
		}
		if err != nil {
			return nil, err
		}
		out = appendSection(out, id, body)
	}
	if !placed {
		return nil, errors.New("the module imports no memory")
	}
	return out, nil
}

func appendSection(dst []byte, id byte, body []byte) []byte {
	dst = binary.AppendUvarint(append(dst, id), uint64(len(body)))
	return append(dst, body...)
}

// cutMemoryImport returns the imports without the memory, and its limits.
func cutMemoryImport(body []byte) (without, limits []byte, err error) {
	count, n := binary.Uvarint(body)
	kept, at := []byte{}, n
	for range count {
		start := at
		for range 2 { // module, name
			size, n := binary.Uvarint(body[at:])
			at += n + int(size)
		}
		what := body[at]
		at++
		from := at
		switch what {
		case 0: // function
			_, n := binary.Uvarint(body[at:])
			at += n
		case kindMemory:
			bounded := body[at] == 1
			at++
			_, n := binary.Uvarint(body[at:])
			at += n
			if bounded {
				_, n = binary.Uvarint(body[at:])
				at += n
			}
			limits = slices.Clone(body[from:at])
			continue
		default:
			return nil, nil, fmt.Errorf("the module imports something of kind %d", what)
		}
		kept = append(kept, body[start:at]...)
	}
	if limits == nil {
		return nil, nil, errors.New("the module imports no memory")
	}
	return append(binary.AppendUvarint(nil, count-1), kept...), limits, nil
}

func addMemoryExport(body []byte) []byte {
	count, n := binary.Uvarint(body)
	out := append(binary.AppendUvarint(nil, count+1), body[n:]...)
	out = append(out, byte(len(memoryName)))
	out = append(out, memoryName...)
	return append(out, kindMemory, 0)
}

const memoryName = "memory"
