package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
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

// isMissing reports a cell that says that there is no value, as pandas reads them;
// NaN is a number.
func isMissing(cell string) bool {
	switch cell {
	case "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None", "-":
		return true
	}
	return false
}

// grouped is a number whose comma may be its decimal point or group thousands.
var grouped = regexp.MustCompile(`^[+-]?[1-9][0-9]{0,2},[0-9]{3}$`)

// decimals reads decimal commas. Where semicolons separate, spreadsheets write them; where
// others do, 1,234 may also be above a thousand, and stays a text.
func (s *sheet) decimals(row []string, separator rune) {
	for i := range row {
		if separator != ';' && grouped.MatchString(strings.TrimSpace(row[i])) {
			s.table("").skip("numbers with a comma, which may be a decimal point or group thousands: they are texts")
			continue
		}
		row[i] = decimalPoint(row[i])
	}
}

// decimalPoint turns a number with a decimal comma, 1,5 or 1.234,5, into one with a
// point: so spreadsheets write them where a comma does not separate cells.
func decimalPoint(cell string) string {
	if strings.Count(cell, ",") != 1 || strings.Trim(cell, "+-.,0123456789eE ") != "" {
		return cell
	}
	whole, rest, _ := strings.Cut(cell, ",")
	text := strings.ReplaceAll(whole, ".", "") + "." + rest
	if _, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return cell
	}
	return text
}

// headBytes of the column names tell what separates them.
const headBytes = 64 << 10

// separatorOf tells what separates the cells: that of comma, semicolon, tab and bar
// which the line of column names has most of.
func separatorOf(r *bufio.Reader) (rune, error) {
	head, err := r.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, noHeader(err)
	}
	if err := checkText(head); err != nil {
		return 0, err
	}
	count, quoted := map[byte]int{}, false
	for i, c := range head {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\n':
			return most(count), nil
		case c == '\r' && i+1 < len(head) && head[i+1] != '\n':
			return 0, model.Errorf(model.CodeInvalid, "its lines end with a carriage return alone").WithHint("end them with a line feed")
		default:
			count[c]++
		}
	}
	return most(count), nil
}

func most(count map[byte]int) rune {
	best := byte(',')
	for _, c := range []byte(";\t|") {
		if count[c] > count[best] {
			best = c
		}
	}
	return rune(best)
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
