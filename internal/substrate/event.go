package substrate

import (
	"fmt"
	"strings"
)

// Event is what a pallet reported in a block.
type Event struct {
	Pallet string
	Name   string
	Fields Fields
	// Extrinsic is the index of the extrinsic that caused it, -1 for the block's own.
	Extrinsic int
}

// Events decodes what System.Events holds.
func (m *Metadata) Events(raw []byte) ([]Event, error) {
	value, err := m.StorageValue("System", "Events", raw)
	if err != nil {
		return nil, err
	}
	records, _ := value.([]any)
	out := make([]Event, 0, len(records))
	for _, one := range records {
		e, ok := readEvent(one)
		if !ok {
			return nil, fmt.Errorf("decode events: a record has an unknown form")
		}
		out = append(out, e)
	}
	return out, nil
}

func readEvent(record any) (Event, bool) {
	fields, _ := record.(Fields)
	phase, ok := fields.Get("phase").(Variant)
	outer, ok2 := fields.Get("event").(Variant)
	if !ok || !ok2 || len(outer.Fields) != 1 {
		return Event{}, false
	}
	inner, ok := outer.Fields[0].Value.(Variant)
	e := Event{Pallet: outer.Name, Name: inner.Name, Fields: inner.Fields, Extrinsic: -1}
	if phase.Name == "ApplyExtrinsic" && len(phase.Fields) == 1 {
		index, isNumber := phase.Fields[0].Value.(uint64)
		e.Extrinsic, ok = int(index), ok && isNumber
	}
	return e, ok
}

// DispatchError is a refusal by the chain's own code, found in a block.
type DispatchError struct {
	Pallet string // empty where the error is no pallet's
	Name   string
	Docs   string
}

func (e *DispatchError) Error() string {
	text := e.Name
	if e.Pallet != "" {
		text = e.Pallet + "." + e.Name
	}
	if e.Docs != "" {
		text += ": " + e.Docs
	}
	return text
}

// DispatchError names the error of a System.ExtrinsicFailed event.
func (m *Metadata) DispatchError(failed Event) *DispatchError {
	v, ok := failed.Fields.Get("dispatch_error").(Variant)
	if !ok {
		return &DispatchError{Name: "unknown dispatch error"}
	}
	if v.Name == "Module" && len(v.Fields) == 1 {
		if module, ok := v.Fields[0].Value.(Fields); ok {
			return m.moduleError(module)
		}
	}
	names := []string{v.Name}
	for _, f := range v.Fields {
		if inner, ok := f.Value.(Variant); ok {
			names = append(names, inner.Name)
		}
	}
	return &DispatchError{Name: strings.Join(names, ".")}
}

// moduleError finds a pallet's error by its numbers; errors that the metadata
// does not name keep theirs.
func (m *Metadata) moduleError(module Fields) *DispatchError {
	index, _ := module.Get("index").(uint64)
	code, _ := module.Get("error").([]byte)
	out := &DispatchError{Pallet: fmt.Sprintf("pallet %d", index), Name: fmt.Sprintf("error %x", code)}
	p := m.palletAt(uint8(index))
	if p == nil || len(code) == 0 {
		return out
	}
	out.Pallet = p.name
	if p.errors < 0 {
		return out
	}
	if v := m.types[p.errors].variantAt(code[0]); v != nil {
		out.Name, out.Docs = v.name, strings.TrimSpace(strings.Join(v.docs, " "))
	}
	return out
}
