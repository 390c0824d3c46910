package loose

import "encoding/json"

// Decode reads a whole text into Go's values, nested as deep as the caller says.
// Numbers are json.Number; the bare words are float64.
func Decode(b []byte, depth int) (any, error) {
	if err := CheckDepth(b, depth); err != nil {
		return nil, err
	}
	v, _ := decode(b, space(b, 0))
	return v, nil
}

// decode reads a value of a text that Check has passed.
func decode(b []byte, i int) (v any, end int) {
	switch KindOf(b[i:]) {
	case Array:
		return decodeArray(b, i)
	case Object:
		return decodeObject(b, i)
	case String:
		end = pastText(b, i)
		v, _ = Text(b[i:end])
		return v, end
	case Number:
		if end = pastValue(b, i); isWord(b[i:end]) {
			v, _ = Float(b[i:end])
			return v, end
		}
		return json.Number(b[i:end]), end
	case Bool:
		return b[i] == 't', pastValue(b, i)
	}
	return nil, pastValue(b, i)
}

func decodeArray(b []byte, i int) (list []any, end int) {
	list = []any{}
	for i = space(b, i+1); b[i] != ']'; {
		var one any
		one, i = decode(b, i)
		list = append(list, one)
		i = pastComma(b, i)
	}
	return list, i + 1
}

func decodeObject(b []byte, i int) (all map[string]any, end int) {
	all = map[string]any{}
	for i = space(b, i+1); b[i] != '}'; {
		end := pastText(b, i)
		name, _ := Text(b[i:end])
		all[name], i = decode(b, space(b, space(b, end)+1))
		i = pastComma(b, i)
	}
	return all, i + 1
}
