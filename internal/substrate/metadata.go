package substrate

import (
	"errors"
	"fmt"
	"slices"
)

// metadataMark is "meta", what metadata begins with.
const metadataMark = "meta"

// Metadata is what a chain says of itself: its types, its pallets and how an
// extrinsic is put together.
type Metadata struct {
	Version    int
	types      registry
	pallets    []pallet
	extensions []extension
	xtVersions []uint8
}

type pallet struct {
	name    string
	index   uint8
	prefix  string // of its storage
	entries []entry
	calls   int // type numbers, -1 for none
	events  int
	errors  int
}

// entry is a storage item.
type entry struct {
	name    string
	hashers []hasher // none: a plain value
	key     int
	value   int
	// fallback is what a missing value means; nil where missing means none.
	fallback []byte
}

// extension is one part of a signed extrinsic: what it adds to the extrinsic and
// what it adds to the signed payload only.
type extension struct {
	name     string
	extra    int
	implicit int
}

// DecodeMetadata reads metadata of version 14, 15 or 16.
func DecodeMetadata(raw []byte) (*Metadata, error) {
	r := newReader(raw)
	if string(r.bytes(len(metadataMark))) != metadataMark {
		return nil, errors.New("decode metadata: it does not begin with the mark of metadata")
	}
	m := &Metadata{Version: int(r.u8())}
	if m.Version < 14 || m.Version > 16 {
		return nil, fmt.Errorf("decode metadata: version %d is not one of 14, 15 and 16", m.Version)
	}
	m.types = readRegistry(r)
	m.pallets = list(r, m.readPallet)
	m.readExtrinsic(r)
	if r.err == nil {
		r.err = m.check()
	}
	if r.err != nil {
		return nil, fmt.Errorf("decode metadata of version %d: %w", m.Version, r.err)
	}
	return m, nil
}

func (m *Metadata) check() error {
	if err := m.types.check(); err != nil {
		return err
	}
	m.types.findEmpty()
	for _, id := range m.uses() {
		if id >= len(m.types) {
			return fmt.Errorf("type %d is used, there are %d", id, len(m.types))
		}
	}
	return nil
}

// uses are the types that pallets and extensions refer to.
func (m *Metadata) uses() (out []int) {
	for _, p := range m.pallets {
		out = append(out, p.calls, p.events, p.errors)
		for _, e := range p.entries {
			out = append(out, e.key, e.value)
		}
	}
	for _, x := range m.extensions {
		out = append(out, x.extra, x.implicit)
	}
	return out
}

func (m *Metadata) readPallet(r *reader) pallet {
	p := pallet{name: r.text(), calls: -1, events: -1, errors: -1}
	if r.some() {
		p.prefix = r.text()
		p.entries = list(r, m.readEntry)
	}
	p.calls = m.readTypeOption(r)
	p.events = m.readTypeOption(r)
	list(r, func(r *reader) struct{} { // constants
		r.text()
		r.id()
		r.bytes(r.length())
		list(r, (*reader).text)
		m.skipDeprecation(r)
		return struct{}{}
	})
	p.errors = m.readTypeOption(r)
	if m.Version >= 16 {
		m.skipViews(r)
	}
	p.index = r.u8()
	if m.Version >= 15 {
		list(r, (*reader).text) // docs
	}
	m.skipDeprecation(r)
	return p
}

// readTypeOption reads the type of a pallet's calls, events or errors, -1 for none.
func (m *Metadata) readTypeOption(r *reader) int {
	if !r.some() {
		return -1
	}
	id := r.id()
	if m.Version >= 16 { // the variants that are deprecated
		list(r, func(r *reader) struct{} { r.u8(); skipNote(r); return struct{}{} })
	}
	return id
}

// skipViews passes a pallet's associated types and view functions.
func (m *Metadata) skipViews(r *reader) {
	list(r, func(r *reader) struct{} {
		r.text()
		r.id()
		list(r, (*reader).text)
		return struct{}{}
	})
	list(r, func(r *reader) struct{} {
		r.bytes(32)
		r.text()
		list(r, func(r *reader) struct{} { r.text(); r.id(); return struct{}{} })
		r.id()
		list(r, (*reader).text)
		m.skipDeprecation(r)
		return struct{}{}
	})
}

func (m *Metadata) skipDeprecation(r *reader) {
	if m.Version >= 16 {
		skipNote(r)
	}
}

func skipNote(r *reader) {
	switch state := r.u8(); state {
	case 0, 1: // in use, deprecated without a word
	case 2:
		r.text()
		if r.some() {
			r.text()
		}
	default:
		r.fail(fmt.Errorf("unknown deprecation %d", state))
	}
}

func (m *Metadata) readEntry(r *reader) entry {
	e := entry{name: r.text()}
	optional := r.u8() == 0
	switch form := r.u8(); form {
	case 0:
		e.value = r.id()
	case 1:
		e.hashers = list(r, func(r *reader) hasher { return hasher(r.u8()) })
		e.key, e.value = r.id(), r.id()
		if slices.ContainsFunc(e.hashers, func(h hasher) bool { return h > hashIdentity }) || len(e.hashers) == 0 {
			r.fail(fmt.Errorf("storage %s has an unknown hasher", e.name))
		}
	default:
		r.fail(fmt.Errorf("storage %s has an unknown form %d", e.name, form))
	}
	fallback := r.bytes(r.length())
	if !optional {
		e.fallback = append([]byte{}, fallback...)
	}
	list(r, (*reader).text)
	m.skipDeprecation(r)
	return e
}

func (m *Metadata) readExtrinsic(r *reader) {
	if m.Version == 14 {
		r.id() // the extrinsic's type
	}
	if m.Version < 16 {
		m.xtVersions = []uint8{r.u8()}
	} else {
		m.xtVersions = list(r, (*reader).u8)
	}
	switch m.Version {
	case 15: // address, call, signature, extra
		r.id()
		r.id()
		r.id()
		r.id()
	case 16: // address, call, signature; then which extensions each version has
		r.id()
		r.id()
		r.id()
		m.readVersioned(r)
		return
	}
	m.extensions = list(r, readExtension)
}

// readVersioned keeps the extensions that version 0 lists, the one which a
// version 4 extrinsic is signed with.
func (m *Metadata) readVersioned(r *reader) {
	type set struct {
		version uint8
		members []int
	}
	sets := list(r, func(r *reader) set { return set{r.u8(), list(r, (*reader).id)} })
	all := list(r, readExtension)
	for _, s := range sets {
		if s.version != 0 {
			continue
		}
		for _, i := range s.members {
			if i >= len(all) {
				r.fail(fmt.Errorf("extension %d is used, there are %d", i, len(all)))
				return
			}
			m.extensions = append(m.extensions, all[i])
		}
	}
	if len(sets) > 0 && m.extensions == nil && r.err == nil {
		r.fail(errors.New("no extensions for extrinsics of version 4"))
	}
}

func readExtension(r *reader) extension {
	return extension{name: r.text(), extra: r.id(), implicit: r.id()}
}

func (m *Metadata) pallet(name string) (*pallet, error) {
	for i := range m.pallets {
		if m.pallets[i].name == name {
			return &m.pallets[i], nil
		}
	}
	return nil, fmt.Errorf("the chain has no pallet %s", name)
}

func (m *Metadata) palletAt(index uint8) *pallet {
	for i := range m.pallets {
		if m.pallets[i].index == index {
			return &m.pallets[i]
		}
	}
	return nil
}

func (m *Metadata) entry(palletName, name string) (*pallet, *entry, error) {
	p, err := m.pallet(palletName)
	if err != nil {
		return nil, nil, err
	}
	for i := range p.entries {
		if p.entries[i].name == name {
			return p, &p.entries[i], nil
		}
	}
	return nil, nil, fmt.Errorf("the chain has no storage %s.%s", palletName, name)
}
