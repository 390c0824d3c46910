package substrate

import (
	"fmt"
	"math/big"
)

// Values decode to bool, uint64, int64, *big.Int (above 64 bits and compact),
// string, []byte (vectors and arrays of u8), []any (other vectors, arrays,
// tuples), Fields and Variant. A struct of one unnamed field is that field.

// Fields are the named fields of a struct, or the numbered ones of a variant
// (their names are then empty).
type Fields []Field

// Field is one of Fields.
type Field struct {
	Name  string
	Value any
}

// Get is the value of a field, nil when there is none.
func (f Fields) Get(name string) any {
	for _, one := range f {
		if one.Name == name {
			return one.Value
		}
	}
	return nil
}

// Variant is a value of an enum.
type Variant struct {
	Name   string
	Index  uint8
	Fields Fields
}

// decodeAll decodes a value that must fill the bytes.
func (g registry) decodeAll(id int, raw []byte) (any, error) {
	r := newReader(raw)
	v := g.decode(r, id, 0)
	if r.err == nil && len(r.data) > 0 {
		r.err = fmt.Errorf("%d bytes follow the value", len(r.data))
	}
	return v, r.err
}

func (g registry) decode(r *reader, id, depth int) any {
	if r.values--; r.values < 0 {
		r.fail(errLarge)
	}
	if depth > maxDepth {
		r.fail(errDeep)
	}
	if r.err != nil {
		return nil
	}
	t := &g[id]
	switch t.kind {
	case kindComposite:
		if len(t.fields) == 1 && t.fields[0].name == "" {
			return g.decode(r, t.fields[0].typ, depth+1)
		}
		return g.decodeFields(r, t.fields, depth)
	case kindVariant:
		return g.decodeVariant(r, t, depth)
	case kindSequence:
		return g.decodeItems(r, t.item, g.items(r, t.item), depth)
	case kindArray:
		return g.decodeItems(r, t.item, t.size, depth)
	case kindTuple:
		out := make([]any, 0, len(t.items))
		for _, item := range t.items {
			out = append(out, g.decode(r, item, depth+1))
		}
		return out
	case kindPrimitive:
		return decodePrimitive(r, t.prim)
	case kindCompact:
		if g.empty(t.item) {
			return nil
		}
		return r.compact()
	}
	return g.decodeBits(r, t)
}

// items is how many items a vector has; those of an empty type take no bytes.
func (g registry) items(r *reader, item int) int {
	if !g.empty(item) {
		return r.length()
	}
	n := r.compact()
	if !n.IsInt64() || n.Int64() > int64(r.values) {
		r.fail(errLarge)
		return 0
	}
	return int(n.Int64())
}

func (g registry) decodeItems(r *reader, item, n, depth int) any {
	if t := &g[item]; t.kind == kindPrimitive && t.prim == primU8 {
		return append([]byte{}, r.bytes(n)...)
	}
	out := []any{}
	for range n {
		v := g.decode(r, item, depth+1)
		if r.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

func (g registry) decodeFields(r *reader, fields []field, depth int) Fields {
	out := make(Fields, 0, len(fields))
	for _, f := range fields {
		out = append(out, Field{f.name, g.decode(r, f.typ, depth+1)})
	}
	return out
}

func (g registry) decodeVariant(r *reader, t *typeDef, depth int) any {
	index := r.u8()
	v := t.variantAt(index)
	if v == nil {
		r.fail(fmt.Errorf("there is no variant %d of %v", index, t.path))
		return nil
	}
	return Variant{v.name, v.index, g.decodeFields(r, v.fields, depth)}
}

func decodePrimitive(r *reader, p primitive) any {
	switch p {
	case primBool:
		return r.u8() != 0
	case primText:
		return r.text()
	case primChar:
		return uint64(r.u32())
	}
	bits, signed := p.number()
	raw := r.bytes(bits / 8)
	if raw == nil {
		return nil
	}
	n := littleEndian(raw)
	if signed && raw[len(raw)-1]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	}
	switch {
	case bits > 64:
		return n
	case signed:
		return n.Int64()
	}
	return n.Uint64()
}

// decodeBits hands the bytes of a bit sequence on.
func (g registry) decodeBits(r *reader, t *typeDef) any {
	n := r.compact()
	store, signed := g[t.item].prim.number()
	if g[t.item].kind != kindPrimitive || store == 0 || signed || !n.IsInt64() || n.Int64() > int64(len(r.data))*8 {
		r.fail(errLarge)
		return nil
	}
	words := (int(n.Int64()) + store - 1) / store
	return append([]byte{}, r.bytes(words*store/8)...)
}

// encode appends a value. Besides what decode makes, it takes every Go integer
// and map[string]any for a struct.
func (g registry) encode(dst []byte, id int, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	t := &g[id]
	switch t.kind {
	case kindComposite:
		if len(t.fields) == 1 && t.fields[0].name == "" {
			return g.encode(dst, t.fields[0].typ, v, depth+1)
		}
		return g.encodeFields(dst, t.fields, v, depth)
	case kindVariant:
		return g.encodeVariant(dst, t, v, depth)
	case kindSequence, kindArray:
		return g.encodeItems(dst, t, v, depth)
	case kindTuple:
		items, ok := v.([]any)
		if !ok || len(items) != len(t.items) {
			return nil, fmt.Errorf("a tuple of %d values is needed, not %T", len(t.items), v)
		}
		var err error
		for i, item := range t.items {
			if dst, err = g.encode(dst, item, items[i], depth+1); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case kindPrimitive:
		return encodePrimitive(dst, t.prim, v)
	case kindCompact:
		return g.encodeCompact(dst, t.item, v)
	}
	return nil, fmt.Errorf("values of type %d cannot be written", id)
}

func (g registry) encodeFields(dst []byte, fields []field, v any, depth int) ([]byte, error) {
	var get func(i int) (any, bool)
	switch v := v.(type) {
	case map[string]any:
		if len(v) != len(fields) {
			return nil, fmt.Errorf("%d fields are needed, not %d", len(fields), len(v))
		}
		get = func(i int) (any, bool) { one, ok := v[fields[i].name]; return one, ok }
	case Fields:
		if len(v) != len(fields) {
			return nil, fmt.Errorf("%d fields are needed, not %d", len(fields), len(v))
		}
		get = func(i int) (any, bool) { return v[i].Value, v[i].Name == fields[i].name }
	default:
		return nil, fmt.Errorf("fields are needed, not %T", v)
	}
	for i, f := range fields {
		one, ok := get(i)
		if !ok {
			return nil, fmt.Errorf("field %s is missing", f.name)
		}
		var err error
		if dst, err = g.encode(dst, f.typ, one, depth+1); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return dst, nil
}

func (g registry) encodeVariant(dst []byte, t *typeDef, v any, depth int) ([]byte, error) {
	value, ok := v.(Variant)
	if !ok {
		return nil, fmt.Errorf("a variant is needed, not %T", v)
	}
	def := t.variant(value.Name)
	if def == nil {
		return nil, fmt.Errorf("there is no variant %s of %v", value.Name, t.path)
	}
	return g.encodeFields(append(dst, def.index), def.fields, value.Fields, depth)
}

func (g registry) encodeItems(dst []byte, t *typeDef, v any, depth int) ([]byte, error) {
	raw, isBytes := v.([]byte)
	items, isList := v.([]any)
	n := len(raw) + len(items)
	if !isBytes && !isList {
		return nil, fmt.Errorf("bytes or a list are needed, not %T", v)
	}
	if t.kind == kindSequence {
		dst = AppendCompact(dst, uint64(n))
	} else if n != t.size {
		return nil, fmt.Errorf("%d items are needed, not %d", t.size, n)
	}
	if item := &g[t.item]; isBytes && item.kind == kindPrimitive && item.prim == primU8 {
		return append(dst, raw...), nil
	} else if isBytes {
		return nil, fmt.Errorf("a list is needed, not bytes")
	}
	var err error
	for _, one := range items {
		if dst, err = g.encode(dst, t.item, one, depth+1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func encodePrimitive(dst []byte, p primitive, v any) ([]byte, error) {
	switch p {
	case primBool:
		b, ok := v.(bool)
		if !ok {
			return nil, fmt.Errorf("a bool is needed, not %T", v)
		}
		if b {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case primText:
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("text is needed, not %T", v)
		}
		return append(AppendCompact(dst, uint64(len(s))), s...), nil
	case primChar:
		return encodeNumber(dst, v, 32, false)
	}
	bits, signed := p.number()
	return encodeNumber(dst, v, bits, signed)
}

func encodeNumber(dst []byte, v any, bits int, signed bool) ([]byte, error) {
	n, err := number(v)
	if err == nil {
		err = fits(n, bits, signed)
	}
	if err != nil {
		return nil, err
	}
	return appendInt(dst, n, bits/8), nil
}

// encodeCompact takes integers, also those wrapped in structs of one field.
func (g registry) encodeCompact(dst []byte, id int, v any) ([]byte, error) {
	for depth := 0; g[id].kind == kindComposite && len(g[id].fields) == 1 && depth < maxDepth; depth++ {
		id = g[id].fields[0].typ
	}
	if g.empty(id) {
		return dst, nil
	}
	bits, signed := g[id].prim.number()
	if g[id].kind != kindPrimitive || bits == 0 || signed {
		return nil, fmt.Errorf("type %d has no compact form", id)
	}
	n, err := number(v)
	if err == nil {
		err = fits(n, bits, false)
	}
	if err != nil {
		return nil, err
	}
	return appendCompactBig(dst, n), nil
}

func number(v any) (*big.Int, error) {
	switch v := v.(type) {
	case *big.Int:
		if v == nil {
			return nil, fmt.Errorf("a number is needed, not nil")
		}
		return v, nil
	case int:
		return big.NewInt(int64(v)), nil
	case int64:
		return big.NewInt(v), nil
	case uint8:
		return big.NewInt(int64(v)), nil
	case uint16:
		return big.NewInt(int64(v)), nil
	case uint32:
		return big.NewInt(int64(v)), nil
	case uint64:
		return new(big.Int).SetUint64(v), nil
	}
	return nil, fmt.Errorf("a number is needed, not %T", v)
}
