package loose

import "iter"

// Member is a key of an object with its value. All of it lies in the text that
// was read, but a Key with escapes.
type Member struct {
	Key      []byte // decoded
	RawKey   []byte // as it came, with its quotes
	Faithful bool   // Key is the whole key: it has no lone surrogate
	Value    []byte // without white space around it
}

// Members walks through the members of an object, in the order of the text. At a
// fault the walk ends with an error, so the members before it were already given.
func Members(b []byte) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) { members(b, yield) }
}

func members(b []byte, yield func(Member, error) bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		yield(Member{}, &Error{i, noObject})
		return
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		if err := ended(b, i+1); err != nil {
			yield(Member{}, err)
		}
		return
	}
	for {
		from := i
		end, val, reason := key(b, from)
		if i = val; reason == "" {
			i, reason = value(b, val, MaxDepth-1)
		}
		if reason != "" {
			yield(Member{}, fault(i, reason, MaxDepth))
			return
		}
		name, faithful := unquoted(b[from:end])
		if !yield(Member{Key: name, RawKey: b[from:end], Faithful: faithful, Value: b[val:i]}, nil) {
			return
		}
		var more bool
		if i, more, reason = next(b, i, '}'); !more {
			if err := closed(b, i, reason); err != nil {
				yield(Member{}, err)
			}
			return
		}
	}
}

// Elements walks through the elements of an array, in order. At a fault the walk
// ends with an error, so the elements before it were already given.
func Elements(b []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { elements(b, yield) }
}

func elements(b []byte, yield func([]byte, error) bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		yield(nil, &Error{i, noArray})
		return
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		if err := ended(b, i+1); err != nil {
			yield(nil, err)
		}
		return
	}
	for {
		end, reason := value(b, i, MaxDepth-1)
		if reason != "" {
			yield(nil, fault(end, reason, MaxDepth))
			return
		}
		if !yield(b[i:end], nil) {
			return
		}
		var more bool
		if i, more, reason = next(b, end, ']'); !more {
			if err := closed(b, i, reason); err != nil {
				yield(nil, err)
			}
			return
		}
	}
}

func closed(b []byte, i int, reason string) error {
	if reason != "" {
		return &Error{i, reason}
	}
	return ended(b, i)
}

func ended(b []byte, i int) error {
	if i = space(b, i); i < len(b) {
		return &Error{i, trailing}
	}
	return nil
}
