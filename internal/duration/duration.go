// Package duration is the one form in which durations are read and written: whole numbers and
// units, the largest first, as 90d, 36h, 1h30m or 250ms. In: what somebody wrote in a flag, a
// file, a variable or an address; out: a time.Duration, and the text of one. What may mean two
// things is refused: a number without a unit, months, a unit out of its order.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day has 24 hours: a duration knows no calendar.
const Day = 24 * time.Hour

// units are read in this order; a week is read and never written.
var units = []struct {
	name string
	size time.Duration
}{
	{"w", 7 * Day},
	{"d", Day},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"µs", time.Microsecond},
	{"ns", time.Nanosecond},
}

// ErrForm says what a duration looks like.
var ErrForm = errors.New("write it as 90d, 36h, 1h30m, 45s or 250ms")

// Parse reads a duration that is not negative. 0 needs no unit.
func Parse(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	switch {
	case text == "":
		return 0, fmt.Errorf("it is empty: %w", ErrForm)
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("it is negative: %w", ErrForm)
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("it has no unit: is it %[1]ss, %[1]sm, %[1]sh or %[1]sd?", text)
	}
	total, exact := 0.0, time.Duration(0)
	for rest, last := text, -1; rest != ""; {
		number, unit, behind := split(rest)
		i := unitOf(unit)
		value, err := strconv.ParseFloat(number, 64)
		switch {
		case i < 0 && unit != "":
			return 0, fmt.Errorf("%q is no unit: %w", unit, ErrForm)
		case i < 0 || err != nil:
			return 0, ErrForm
		case i <= last:
			return 0, fmt.Errorf("the unit %s comes once, after larger ones: %w", unit, ErrForm)
		}
		total += value * float64(units[i].size)
		part, err := exactly(number, units[i].size)
		if err != nil || total > math.MaxInt64 || exact+part < 0 {
			return 0, errors.New("it is longer than 292 years")
		}
		exact += part
		rest, last = behind, i
	}
	return exact, nil
}

// exactly is a number of units; what is below a nanosecond is cut.
func exactly(number string, unit time.Duration) (time.Duration, error) {
	whole, fraction, _ := strings.Cut(number, ".")
	n, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, errors.New("too long")
	}
	part := 0.0
	if fraction != "" {
		part, err = strconv.ParseFloat("0."+fraction, 64)
	}
	return time.Duration(n)*unit + time.Duration(math.Round(part*float64(unit))), err
}

// split takes the first number and its unit off a text.
func split(text string) (number, unit, rest string) {
	digits := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if digits < 0 {
		return text, "", ""
	}
	number, text = text[:digits], text[digits:]
	end := strings.IndexFunc(text, func(r rune) bool { return r == '.' || r >= '0' && r <= '9' })
	if end < 0 {
		end = len(text)
	}
	return number, text[:end], text[end:]
}

func unitOf(name string) int {
	for i, u := range units {
		if u.name == name || name == "μs" && u.name == "µs" {
			return i
		}
	}
	return -1
}

// Text writes a duration as Parse reads it: 90d, 1d12h, 1h30m, 1m1.5s, 250ms.
func Text(d time.Duration) string {
	switch {
	case d == math.MinInt64:
		return "-106751d23h47m16.854775808s"
	case d < 0:
		return "-" + Text(-d)
	case d < time.Second:
		return d.String() // 0s, 250ms, 1.5µs
	}
	var b strings.Builder
	for _, u := range units[1:4] {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.size
		}
	}
	switch {
	case d == 0:
	case b.Len() > 0 && d < time.Second:
		b.WriteString(strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s")
	default:
		b.WriteString(d.String())
	}
	return b.String()
}

// Short is Text of the two largest units, which is enough for an age.
func Short(d time.Duration) string {
	for i, u := range units[1:4] {
		if d >= u.size {
			return Text(d.Truncate(units[i+2].size))
		}
	}
	return Text(d.Truncate(time.Second))
}

// Seconds reads a setting whose plain number always was of seconds, and a duration as well.
func Seconds(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return Parse(text)
	case !(n >= 0):
		return 0, fmt.Errorf("it is negative: %w", ErrForm)
	case n > math.MaxInt64/float64(time.Second)/2:
		return 0, errors.New("it is longer than 146 years")
	}
	return time.Duration(n * float64(time.Second)), nil
}

// Value is a duration as a flag.
type Value time.Duration

// Var makes a flag of a duration, which keeps what it is until the flag is given.
func Var(d *time.Duration) *Value { return (*Value)(d) }

// Set reads a flag.
func (v *Value) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = Value(d)
	}
	return err
}

// String is the flag's value.
func (v *Value) String() string { return Text(time.Duration(*v)) }

// Type names it in a help text.
func (*Value) Type() string { return "duration" }
