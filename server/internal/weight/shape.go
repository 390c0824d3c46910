package weight

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What Go's allocator and slices cost, in bytes.
const (
	// growth is what all sizes of a list that grows by append take together, in elements of
	// the last: each size is 1.25 times the one before it.
	growth     = 6
	pointer    = 8
	allocation = 16  // a small one, or what a larger one is rounded up by
	firstEntry = 384 // a map with one group of slots
	eachEntry  = 256 // one more entry, with the tables that were too small
	tags       = 64  // fields with a higher number are never the first of their kind
)

// ErrMalformed is the error for bytes that are no message.
var ErrMalformed = errors.New("the message is not valid protobuf")

// Shape is how much a message of one type takes, by field.
type Shape struct {
	self   int     // the structure
	fields []field // by number
}

type field struct {
	known   bool
	each    int            // of one value
	first   int            // more, of the first value
	packed  protowire.Type // of numbers that follow each other; -1: none do
	once    int            // of one of them, where the room is made at once
	message *Shape
	text    Lists
}

// Extra is what a reader makes of a message or field in addition, by full name.
type Extra map[protoreflect.FullName]int

// Texts are the fields that hold JSON.
type Texts map[protoreflect.FullName]Lists

// NewShape makes the shape of a message's type. The type refers to no message that
// contains it.
func NewShape(m protoreflect.ProtoMessage, extra Extra, texts Texts) *Shape {
	return newShape(m.ProtoReflect().Type(), extra, texts)
}

func newShape(t protoreflect.MessageType, extra Extra, texts Texts) *Shape {
	d := t.Descriptor()
	s := &Shape{self: int(reflect.TypeOf(t.Zero().Interface()).Elem().Size()) + allocation + extra[d.FullName()]}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		at := int(f.Number())
		for len(s.fields) <= at {
			s.fields = append(s.fields, field{})
		}
		s.fields[at] = newField(f, extra)
		s.fields[at].text = texts[f.FullName()]
		if f.Message() != nil && !f.IsMap() {
			s.fields[at].message = newShape(typeOf(t, f), extra, texts)
		}
	}
	return s
}

// typeOf is the Go type of a message field.
func typeOf(t protoreflect.MessageType, f protoreflect.FieldDescriptor) protoreflect.MessageType {
	value := t.New()
	if f.IsList() {
		return value.NewField(f).List().NewElement().Message().Type()
	}
	return value.NewField(f).Message().Type()
}

func newField(f protoreflect.FieldDescriptor, extra Extra) field {
	out := field{known: true, packed: -1, each: extra[f.FullName()]}
	size, wire := sizeOf(f.Kind())
	switch {
	case f.IsMap():
		out.each, out.first = out.each+eachEntry, firstEntry
	case f.IsList():
		if wire != protowire.BytesType {
			out.packed, out.once = wire, out.each+size
		}
		out.each += growth * size
	case f.HasPresence() && wire != protowire.BytesType:
		out.each += allocation
	}
	if f.ContainingOneof() != nil {
		out.each += 2 * allocation
	}
	return out
}

// sizeOf is what a value takes in a list, and how it is written.
func sizeOf(k protoreflect.Kind) (size int, wire protowire.Type) {
	const text, bytes = 16, 24
	switch k {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return pointer, protowire.BytesType
	case protoreflect.StringKind:
		return text, protowire.BytesType
	case protoreflect.BytesKind:
		return bytes, protowire.BytesType
	case protoreflect.BoolKind:
		return 1, protowire.VarintType
	case protoreflect.Uint32Kind, protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		return 4, protowire.VarintType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return 4, protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return 8, protowire.Fixed64Type
	}
	return 8, protowire.VarintType
}

// Of weighs a message. It stops when the weight is above most.
func (s *Shape) Of(data []byte, most int) (int, error) {
	sum := s.self
	var seen uint64 // fields that had a value
	for len(data) > 0 && sum <= most {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return sum, ErrMalformed
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
			return sum, ErrMalformed
		}
		value := data[:n]
		data = data[n:]
		if int(number) >= len(s.fields) || !s.fields[number].known {
			sum += growth * (n + allocation) // kept as it is
			continue
		}
		bit := uint64(1) << (number % tags)
		more, err := s.fields[number].of(value, wire, seen&bit == 0, most-sum)
		if err != nil {
			return sum, err
		}
		seen |= bit
		sum += more
	}
	return sum, nil
}

// of weighs one value of a field.
func (f *field) of(value []byte, wire protowire.Type, isFirst bool, most int) (sum int, err error) {
	sum = f.each
	if isFirst {
		sum += f.first
	}
	if wire != protowire.BytesType {
		return sum, nil
	}
	value, _ = protowire.ConsumeBytes(value) // was consumed before
	switch {
	case f.packed >= 0:
		return f.ofPacked(value, isFirst), nil
	case f.message != nil:
		more, err := f.message.Of(value, most-sum)
		return sum + more, err
	}
	return sum + len(value) + allocation + f.text.Of(value), nil
}

// ofPacked weighs numbers that follow each other. The decoder makes room for the first
// such value at once.
func (f *field) ofPacked(value []byte, isFirst bool) int {
	count := len(value)
	switch f.packed {
	case protowire.VarintType:
		count = 0
		for _, b := range value {
			count += int(1 - b>>7)
		}
	case protowire.Fixed32Type:
		count /= 4
	case protowire.Fixed64Type:
		count /= 8
	}
	each := f.each
	if isFirst {
		each = f.once
	}
	return allocation + count*each
}
