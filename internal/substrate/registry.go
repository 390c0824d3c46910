package substrate

import "fmt"

// maxTypes is far above the number of types of any chain (mainnet: about 800).
const maxTypes = 1 << 16

type kind uint8

// The kinds of types, numbered as the portable registry numbers them.
const (
	kindComposite kind = iota
	kindVariant
	kindSequence
	kindArray
	kindTuple
	kindPrimitive
	kindCompact
	kindBits
)

type primitive uint8

const (
	primBool primitive = iota
	primChar
	primText
	primU8
	primU16
	primU32
	primU64
	primU128
	primU256
	primI8
	primI16
	primI32
	primI64
	primI128
	primI256
)

// number is the size of an integer type in bits, 0 for what is no integer.
func (p primitive) number() (bits int, signed bool) {
	switch {
	case p >= primU8 && p <= primU256:
		return 8 << (p - primU8), false
	case p >= primI8 && p <= primI256:
		return 8 << (p - primI8), true
	}
	return 0, false
}

type field struct {
	name     string
	typ      int
	typeName string
}

type variant struct {
	name   string
	index  uint8
	fields []field
	docs   []string
}

// typeDef is one type of the chain.
type typeDef struct {
	path     []string
	kind     kind
	fields   []field // composite
	variants []variant
	items    []int // tuple
	item     int   // sequence, array, compact, bits (the store)
	size     int   // array
	prim     primitive
	empty    emptiness
}

func (t *typeDef) variant(name string) *variant {
	for i := range t.variants {
		if t.variants[i].name == name {
			return &t.variants[i]
		}
	}
	return nil
}

func (t *typeDef) variantAt(index uint8) *variant {
	for i := range t.variants {
		if t.variants[i].index == index {
			return &t.variants[i]
		}
	}
	return nil
}

// registry is the portable type registry: a type's number is its index.
type registry []typeDef

func readRegistry(r *reader) registry {
	types := list(r, readType)
	for i := range types {
		if types[i].number != i {
			r.fail(fmt.Errorf("type %d is numbered %d", i, types[i].number))
			return nil
		}
	}
	out := make(registry, len(types))
	for i, t := range types {
		out[i] = t.def
	}
	return out
}

type numberedType struct {
	number int
	def    typeDef
}

func readType(r *reader) numberedType {
	number := r.id()
	t := typeDef{path: list(r, (*reader).text)}
	list(r, func(r *reader) struct{} { // the parameters of generics
		r.text()
		if r.some() {
			r.id()
		}
		return struct{}{}
	})
	t.kind = kind(r.u8())
	switch t.kind {
	case kindComposite:
		t.fields = list(r, readField)
	case kindVariant:
		t.variants = list(r, readVariant)
	case kindSequence, kindCompact:
		t.item = r.id()
	case kindArray:
		t.size, t.item = int(r.u32()), r.id()
	case kindTuple:
		t.items = list(r, (*reader).id)
	case kindPrimitive:
		t.prim = primitive(r.u8())
		if t.prim > primI256 {
			r.fail(fmt.Errorf("unknown primitive %d", t.prim))
		}
	case kindBits:
		t.item = r.id()
		r.id() // the order: bits are handed on as they are
	default:
		r.fail(fmt.Errorf("unknown kind of type %d", t.kind))
	}
	list(r, (*reader).text) // docs
	return numberedType{number, t}
}

func readField(r *reader) field {
	var f field
	if r.some() {
		f.name = r.text()
	}
	f.typ = r.id()
	if r.some() {
		f.typeName = r.text()
	}
	list(r, (*reader).text) // docs
	return f
}

func readVariant(r *reader) variant {
	v := variant{name: r.text(), fields: list(r, readField)}
	v.index = r.u8()
	v.docs = list(r, (*reader).text)
	return v
}

// check finds references to types that are not there, once, so that nothing
// later has to.
func (g registry) check() error {
	for i := range g {
		for _, ref := range g[i].references() {
			if ref >= len(g) {
				return fmt.Errorf("type %d refers to type %d, there are %d", i, ref, len(g))
			}
		}
	}
	return nil
}

func (t *typeDef) references() []int {
	refs := append([]int{}, t.items...)
	for _, f := range t.fields {
		refs = append(refs, f.typ)
	}
	for _, v := range t.variants {
		for _, f := range v.fields {
			refs = append(refs, f.typ)
		}
	}
	switch t.kind {
	case kindSequence, kindArray, kindCompact, kindBits:
		refs = append(refs, t.item)
	}
	return refs
}

// maxDepth is how deeply values may nest; real ones stay below 20.
const maxDepth = 64

// empty reports whether values of a type take no bytes.
func (g registry) empty(id int) bool { return g[id].empty == isEmpty }

// emptiness is found once for every type: asked anew, types that repeat one another
// would take time without end.
type emptiness uint8

const (
	emptyUnknown emptiness = iota
	notEmpty
	isEmpty
)

func (g registry) findEmpty() {
	for id := range g {
		g.findEmptyOf(id)
	}
}

// findEmptyOf takes a type that contains itself for one that is not empty.
func (g registry) findEmptyOf(id int) bool {
	t := &g[id]
	if t.empty != emptyUnknown {
		return t.empty == isEmpty
	}
	t.empty = notEmpty
	inner := t.items
	switch t.kind {
	case kindComposite:
		inner = nil
		for _, f := range t.fields {
			inner = append(inner, f.typ)
		}
	case kindTuple:
	case kindArray:
		if inner = []int{t.item}; t.size == 0 {
			inner = nil
		}
	default:
		return false
	}
	for _, one := range inner {
		if !g.findEmptyOf(one) {
			return false
		}
	}
	t.empty = isEmpty
	return true
}
