package telemetry

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// ProcessValue is a field as the original keeps it: an int64, a float64 or text; of a list of
// numbers its mean, min, max and median. A list of whole numbers is text: ids of peers.
func ProcessValue(value any) any {
	if value == nil {
		return 0.0
	}
	v := reflect.ValueOf(value)
	switch {
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return int64(1)
		}
		return int64(0)
	case v.CanInt():
		return v.Int()
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		return processList(v)
	}
	return fmt.Sprint(value)
}

func processList(v reflect.Value) any {
	if v.Len() == 0 {
		return 0.0
	}
	numbers, texts, whole := make([]float64, v.Len()), make([]string, v.Len()), true
	for i := range v.Len() {
		one := ProcessValue(v.Index(i).Interface())
		texts[i] = fmt.Sprint(one)
		switch n := one.(type) {
		case int64:
			numbers[i] = float64(n)
		case float64:
			numbers[i], whole = n, false
		default:
			return fmt.Sprint(v.Interface())
		}
	}
	if whole {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return statistics(numbers)
}

func statistics(numbers []float64) map[string]float64 {
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return map[string]float64{"mean": sum / float64(len(numbers)), "min": sorted[0], "max": sorted[len(sorted)-1], "median": median}
}

// ProcessFields are fields as they are kept: one of statistics becomes four.
func ProcessFields(fields Fields) map[string]any {
	out := make(map[string]any, len(fields))
	for name, value := range fields {
		switch one := ProcessValue(value).(type) {
		case map[string]float64:
			for part, number := range one {
				out[name+"_"+part] = number
			}
		default:
			out[name] = one
		}
	}
	return out
}
