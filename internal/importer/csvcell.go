package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number reads what trackers and spreadsheets write for numbers.
func number(cell string) (float64, bool) {
	if strings.ContainsAny(cell, "_xX") {
		return 0, false
	}
	value, err := strconv.ParseFloat(cell, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // 0 or an infinity
	}
	if err == nil {
		return value, true
	}
	switch strings.ToLower(cell) {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	return 0, false
}

// wholeNumber reads 7, and 7.0 as pandas writes it.
func wholeNumber(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// timestamps reads Unix seconds, ms, µs or ns by their size, a date, or a
// relative time: seconds below 3 years, or 1:02:03.5.
func timestamps(column, text string) (ns int64, relative, ok bool) {
	name := strings.ToLower(column)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case strings.HasSuffix(name, "_ns"):
			return n, false, true
		case strings.HasSuffix(name, "_ms") && n > -maxStep/1_000_000 && n < maxStep/1_000_000:
			return n * 1_000_000, false, true
		case n < relativeBelow && n > -relativeBelow:
			return n * 1e9, true, true
		}
		return unixTime(n), false, true
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e18 {
		switch {
		case math.Abs(f) < relativeBelow:
			return seconds(f), true, true
		case math.Abs(f) < 1e11:
			return seconds(f), false, true
		}
		return unixTime(int64(f)), false, true
	}
	for _, layout := range csvDates {
		if when, err := time.Parse(layout, text); err == nil {
			return when.UnixNano(), false, true
		}
	}
	var days, hours, minutes int64
	var rest float64
	before, clock, found := strings.Cut(text, " days ") // as pandas writes it
	if !found {
		before, clock = "0", text
	}
	days, err := strconv.ParseInt(before, 10, 32)
	n, _ := fmt.Sscanf(clock, "%d:%d:%g", &hours, &minutes, &rest)
	if err != nil || n < 3 || days < 0 || days > 10_000 || hours < 0 || hours > 10_000 || minutes < 0 || minutes > 59 || !(rest >= 0 && rest < 60) {
		return 0, false, false
	}
	return ((days*24+hours)*60+minutes)*60e9 + seconds(rest), true, true
}

// unixTime tells the unit of a time by its size: as seconds none is above the
// year 5138.
func unixTime(n int64) int64 {
	for _, unit := range []int64{1e9, 1e6, 1e3} {
		if n > -maxStep/unit && n < maxStep/unit && n < 1e11*(1e9/unit) {
			return n * unit
		}
	}
	return n
}

func cell(row []string, i int) string { return strings.TrimSpace(rawCell(row, i)) }

func rawCell(row []string, i int) string {
	if i < 0 || i >= len(row) {
		return ""
	}
	return row[i]
}
