package influx

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
)

// point is a field of a line, as the naive reader below finds it.
type point struct {
	Run, Metric, Labels, Axes string
	TimeNs                    int64
	Kind                      model.Kind
	Float                     uint64 // bits
	Int                       int64
	Text                      string
}

// naive reads line protocol once more, a character at a time and with other
// means: splitting, strconv and big numbers. It knows the default rules only.
func naive(body string, unit, now int64) (out []point, ok bool) {
	for body != "" {
		body = strings.TrimLeft(body, " \t\r")
		if body == "" {
			break
		}
		if body[0] == '\n' {
			body = body[1:]
			continue
		}
		if body[0] == '#' {
			_, body, _ = strings.Cut(body, "\n")
			continue
		}
		line, rest := naiveLine(body)
		points, ok := naivePoints(line, unit, now)
		if !ok {
			return nil, false
		}
		out = append(out, points...)
		body = rest
	}
	return out, true
}

// naiveLine cuts at the first line feed that is in no string. Strings are only in
// values, so behind a = that is no part of the measurement or the tags.
func naiveLine(body string) (line, rest string) {
	head := naiveSplit(body, " \n", 2)[0]
	at := len(head)
	quoted, skip, value := false, false, false
	for i := at; i < len(body); i++ {
		c := body[i]
		switch {
		case skip:
			skip = false
		case quoted && c == '\\' && i+1 < len(body) && (body[i+1] == '"' || body[i+1] == '\\'):
			skip = true
		case quoted:
			quoted = c != '"'
		case c == '\n':
			return body[:i], body[i+1:]
		case c == '\\' && !value:
			skip = true
		case c == '"' && value && body[i-1] == '=':
			quoted = true
		case c == '=':
			value = true
		case c == ',':
			value = false
		}
	}
	return body, ""
}

// naiveSplit cuts at any of the separators that no backslash precedes; a line feed
// always cuts.
func naiveSplit(s, separators string, most int) (parts []string) {
	start := 0
	for i := 0; i < len(s) && len(parts)+1 < most; i++ {
		if strings.IndexByte(separators, s[i]) >= 0 && (s[i] == '\n' || i == start || s[i-1] != '\\') {
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

func naiveUnescape(s string) string {
	for _, c := range []string{",", "=", " "} {
		s = strings.ReplaceAll(s, `\`+c, c)
	}
	return s
}

func naivePoints(line string, unit, now int64) (out []point, ok bool) {
	parts := naiveSplit(line, " ", 2)
	if len(parts) < 2 || parts[0] == "" {
		return nil, false
	}
	run, labels, axes, measurement, ok := naiveHead(parts[0])
	if !ok {
		return nil, false
	}
	fields, stamp, ok := naiveFields(strings.TrimLeft(parts[1], " "))
	if !ok {
		return nil, false
	}
	at := now
	if stamp = strings.Trim(stamp, " \r\t"); stamp != "" {
		v, good := new(big.Int).SetString(stamp, 10)
		if !good || stamp[0] == '+' || strings.Contains(stamp, "_") {
			return nil, false
		}
		if v.Mul(v, big.NewInt(unit)); !v.IsInt64() || len(strings.TrimLeft(stamp, "-0")) > 19 {
			return nil, false
		}
		at = v.Int64()
	}
	if model.CheckRunName(run) != nil { // refused alone
		return nil, true
	}
	latest := map[string]int{}
	for i, f := range fields {
		latest[f.Metric] = i
	}
	for i, f := range fields {
		if latest[f.Metric] != i {
			continue
		}
		f.Run, f.Labels, f.Axes, f.TimeNs = run, labels, axes, at
		f.Metric = measurement + "/" + f.Metric
		out = append(out, f)
	}
	return out, true
}

func naiveHead(head string) (run, labels, axes, measurement string, ok bool) {
	parts := naiveSplit(head, ",", len(head)+2)
	measurement = strings.ReplaceAll(strings.ReplaceAll(naiveUnescape(parts[0]), "%", "%25"), "/", "%2F")
	if parts[0] == "" {
		return "", "", "", "", false
	}
	tags := map[string]string{}
	for _, p := range parts[1:] {
		pair := naiveSplit(p, "=", len(p)+2)
		if len(pair) != 2 || pair[0] == "" || pair[1] == "" {
			return "", "", "", "", false
		}
		name := naiveUnescape(pair[0])
		if _, twice := tags[name]; twice {
			return "", "", "", "", false
		}
		tags[name] = naiveUnescape(pair[1])
	}
	run = "default"
	if tags["role"] != "" && tags["uid"] != "" {
		run = tags["role"] + "-" + tags["uid"]
	}
	if tags["run"] != "" {
		run = tags["run"]
		delete(tags, "run")
	}
	found := map[string]int64{}
	for _, name := range []string{"step", "global_step", "window", "block", "batch", "epoch"} {
		v, err := strconv.ParseInt(tags[name], 10, 64)
		if err != nil || v < 0 || strconv.FormatInt(v, 10) != tags[name] || v >= 1e18 {
			continue
		}
		found[name] = v
		delete(tags, name)
	}
	_, batch := found["batch"]
	_, epoch := found["epoch"]
	_, given := found["step"]
	for _, name := range []string{"epoch", "batch", "block", "window", "global_step"} {
		inside := (name == "epoch" || name == "batch") && batch && epoch
		if v, has := found[name]; has && !inside && !given {
			found["step"] = v
		}
	}
	for _, a := range model.Axes() {
		if v, has := found[string(a)]; has {
			axes += fmt.Sprintf("%s=%d ", a, v)
		}
	}
	return run, fmt.Sprintf("%q", naiveSorted(tags)), axes, measurement, true
}

func naiveSorted(tags map[string]string) (out []string) {
	for k, v := range tags {
		out = append(out, k+"\x00"+v)
	}
	slices.SortFunc(out, func(a, b string) int {
		return strings.Compare(strings.SplitN(a, "\x00", 2)[0], strings.SplitN(b, "\x00", 2)[0])
	})
	return out
}

// naiveFields reads NAME=VALUE,… up to a space outside of strings.
func naiveFields(s string) (fields []point, rest string, ok bool) {
	for {
		i := 0
		for i < len(s) && s[i] != '=' {
			if strings.IndexByte(", \n", s[i]) >= 0 {
				return nil, "", false
			}
			if s[i] == '\\' {
				i++
			}
			i++
		}
		if i == 0 || i >= len(s) {
			return nil, "", false
		}
		f := point{Metric: naiveUnescape(s[:i])}
		s = s[i+1:]
		if strings.HasPrefix(s, `"`) {
			end := 1
			for end < len(s) && s[end] != '"' {
				if s[end] == '\\' && end+1 < len(s) && (s[end+1] == '"' || s[end+1] == '\\') {
					end++
				}
				end++
			}
			if end >= len(s) {
				return nil, "", false
			}
			f.Kind, f.Text = model.KindText, strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(s[1:end])
			s = s[end+1:]
			if s != "" && !strings.ContainsRune(", \r\n", rune(s[0])) {
				return nil, "", false
			}
		} else {
			end := strings.IndexAny(s, ", \r\n")
			if end < 0 {
				end = len(s)
			}
			if !f.naiveValue(s[:end]) {
				return nil, "", false
			}
			s = s[end:]
		}
		fields = append(fields, f)
		if !strings.HasPrefix(s, ",") {
			return fields, s, true
		}
		s = s[1:]
	}
}

func (f *point) naiveValue(s string) bool {
	switch s {
	case "t", "T", "true", "True", "TRUE":
		f.Kind, f.Text = model.KindText, "true"
		return true
	case "f", "F", "false", "False", "FALSE":
		f.Kind, f.Text = model.KindText, "false"
		return true
	}
	if digits, found := strings.CutSuffix(s, "i"); found {
		v, err := strconv.ParseInt(digits, 10, 64)
		f.Kind, f.Int = model.KindInt, v
		return err == nil && len(strings.TrimLeft(digits, "+-0")) <= 19
	}
	if digits, found := strings.CutSuffix(s, "u"); found {
		v, ok := new(big.Int).SetString(digits, 10)
		if !ok || !v.IsInt64() || v.Sign() < 0 || strings.Contains(digits, "_") {
			return false
		}
		f.Kind, f.Int = model.KindInt, v.Int64()
		return true
	}
	v, err := strconv.ParseFloat(s, 64)
	f.Kind, f.Float = model.KindFloat, math.Float64bits(v)
	return err == nil && !strings.ContainsAny(s, "xX_") && !strings.Contains(strings.ToLower(s), "infinity") && !strings.HasPrefix(strings.ToLower(s), "+nan") && !strings.HasPrefix(strings.ToLower(s), "-nan")
}

// flat lists what a decoder read, a point at a time, in the order in which they arrive.
func flat(d *decoder) (out []point) {
	for _, part := range d.parts() {
		turns := map[int][]point{}
		for _, g := range part.Batch.Groups {
			for row := range g.Rows() {
				turn := len(turns)
				if g.Turn != nil {
					turn = int(g.Turn[row])
				}
				for _, c := range g.Columns {
					turns[turn] = append(turns[turn], flatPoint(part.Run, &g, &c, row))
				}
			}
		}
		for turn := range len(turns) {
			out = append(out, turns[turn]...)
		}
	}
	return out
}

func flatPoint(run string, g *model.RowGroup, c *model.Column, row int) point {
	tags := map[string]string{}
	for _, l := range c.Series.Labels {
		tags[l.Name] = l.Value
	}
	p := point{Run: run, Metric: c.Series.Metric, Labels: fmt.Sprintf("%q", naiveSorted(tags)), TimeNs: g.TimeNs[row], Kind: c.Kind}
	for _, a := range g.Axes {
		p.Axes += fmt.Sprintf("%s=%d ", a.Axis, a.Values[row])
	}
	switch c.Kind {
	case model.KindFloat:
		p.Float = math.Float64bits(c.Floats[row])
	case model.KindInt:
		p.Int = c.Ints[row]
	default:
		p.Text = c.Texts[row]
	}
	return p
}

func defaultRules(t testing.TB) *Rules {
	book, err := newRuleBook(Config{})
	if err != nil {
		t.Fatal(err)
	}
	return book.find("any")
}

// fresh is a decoder that knows nothing.
func fresh(r *reading) *decoder {
	d := newDecoder()
	d.begin(r, maxSeries)
	return d
}

// agree reads a body in both ways, twice by a decoder that knows it then, and compares the
// points.
func agree(t interface {
	Errorf(format string, args ...any)
	Helper()
}, d *decoder, rules *Rules, body string,
) {
	t.Helper()
	for range 2 {
		agreeOnce(t, d, rules, body)
	}
}

func agreeOnce(t interface {
	Errorf(format string, args ...any)
	Helper()
}, d *decoder, rules *Rules, body string,
) {
	t.Helper()
	const unit, now = 1_000, 42
	want, valid := naive(body, unit, now)
	d.begin(&reading{rules: rules, unit: unit, now: now, budget: 1 << 30}, maxSeries)
	defer d.end()
	sent := []byte(body)
	_, err := d.decode(sent, len(sent))
	for i := range sent { // another request's body lies there next
		sent[i] = '~'
	}
	if (err == nil) != valid {
		t.Errorf("%q: the decoder says %v, the naive reader valid=%v", body, err, valid)
		return
	}
	if err != nil {
		if model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%q: %v", body, err)
		}
		return
	}
	got := flat(d)
	for _, list := range [][]point{want, got} { // points of one series stay in their order
		slices.SortStableFunc(list, func(a, b point) int {
			return strings.Compare(fmt.Sprintf("%q", []string{a.Run, a.Metric, a.Labels}), fmt.Sprintf("%q", []string{b.Run, b.Metric, b.Labels}))
		})
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%q (-naive +decoder):\n%s", body, diff)
	}
}

func corpus() []string {
	return []string{
		"m f=1", "m f=1 17\n", "m,a=b f=1,g=2i,h=3u,i=t,j=\"x\" -17\r\n", "# comment\n\n  m f=1\n#\nm f=2",
		"m f=1 1\nm f=2 2\nm f=3i 3\nm g=1 4\n", "m,run=r,uid=7,role=miner loss=0.5", "m,uid=7,role=miner,window=12,global_step=345 loss=0.5,n=3i",
		"m,step=05 f=1", "m,step=-1 f=1", "m,step=x,window=3 f=1", "m,step=999999999999999999 f=1", "m,step=1000000000000000000 f=1",
		`m\ x\,y,a\,b=c\=d f\ g="q\"\\z" 5`, `a/b%c f=1`, "m f=\"two\nlines\" 7\nm f=\"x\" 8", `m f="\n\t"`, "m f=1e3,g=-1.5E-7,h=.5,i=5.,j=-0,k=+4",
		"m f=NaN,g=Inf,h=-inf,i=+INF,j=nan", "m f=1e400", "m f=9223372036854775807i,g=-9223372036854775808i", "m f=9223372036854775808i", "m f=9223372036854775807u", "m f=9223372036854775808u",
		"m f=18446744073709551615u", "m f=-0u", "m f=-1u", "m f=1.5i", "m f=1,f=2", "m f=1,f=2i,f=\"3\" 9\nm f=1,f=2i,f=\"4\" 10",
		"m", "m ", " f=1", ",a=b f=1", "m,a f=1", "m,a= f=1", "m,=b f=1", "m,a=b,a=c f=1", "m,a=b=c f=1", "m f", "m f=", "m =1", "m f=1,", "m f=1,g", "m f=x", "m f=tru", "m f=\"x", "m f=\"x\"y",
		"m f=1 12345678\nm f=1 123456789\nm f=1 1700000000000000", "m f=1 9999999999999999999", "m f=1 99999999999999999999", "m f=1 0000000000000000000042", "m f=1 1234567x", "m f=1 12345678x", "m f=1 x2345678", "m f=1 12345678 12345678",
		"m f=1 x", "m f=1 1 2", "m f=1 9223372036854775807", "m f=1 9223372036854775", "m f=1 9223372036854776", "m f=1 +1", "m f=1 1.0", "m f=1  5  ", "m  f=1", "m,a=b  f=1\t5", "m f=1\n\x00", "m\r f=1", "m\r\n", "m \r\n", "m \r=1", "m,a=b\r f=1",
		"m,run=\x01 f=1", "m,a=b,run=x f=1\nm,run=x,a=b f=2\nm,a=b,run=x f=3", "m f=123456789012345678901234567890", "m f=0.1,g=0.30000000000000004,h=1.7976931348623157e308,i=5e-324,j=4.9406564584124654e-324",
		"m f=00012,g=000000000000000000000000000001i", `m f=1,\=2`, `m a\=b=1`, "m f=1\\", "m\\ f=1", "m,a=b\\ f=1", `m f="\`, "m f=i", "m f=-", "m f=.", "m f=1e", "m f=1e+", "m f=1ee5", "m f=1i2", "m f=truefalse", "m f=0x10", "m f=1_000", "m f=infinity",
		"m,step=1,a=b f=1\nm,step=2,a=b f=2\nm,step=2x,a=b f=3\nm,step=03,a=b f=3\nm,a=b,step=4 f=1\nm,step=5,a=bc f=1\nm,step=6 f=1\nm,step=7 g=1\nm,step=",
		"m,window=1,step=2 f=1\nm,window=3,step=4 f=1\nm,window=x,step=4 f=1\nm,window=5,step=6,a=1 f=2\nm,window=5,step=7,a=1 f=2\nm,window=5,step=7,a=1\n",
		"m,a=x\\,step\\=5,step=1 f=1\nm,a=x\\,step\\=6,step=2 f=1\nm,a=x\\,step\\=6,step=3 f=1", "m,window=1,batch=2 f=1\nm,window=3,batch=4 f=1\nm,window=3 f=1\nm,batch=3 f=1\nm,batch=4 f=1",
		"x,run=a g=7 1\nx,run=a,step=5 f=1 1\nx,run=a f=2 1", "m f=1 1\nm g=1,f=2 1\nm f=3 1\nm,run=r f=4 1\nm f=5i 1\nm f=6,g=2 1\nm,run=r g=1,f=5 1\nm f=7 1",
		"m f=1 1\nn f=1 1\nm f=2 1\nm,step=1 f=3 1\nn,step=2 f=2 1\nm f=4 1\nn f=3 1\nn,step=3,window=1 f=4 1\nm,step=2 f=5 1\nn f=5 1",
	}
}

func TestTheDecoderAgreesWithANaiveReader(t *testing.T) {
	rules, knowing := defaultRules(t), newDecoder()
	for _, body := range corpus() {
		agree(t, newDecoder(), rules, body)
		agree(t, knowing, rules, body)
	}
	for _, a := range corpus() {
		agree(t, newDecoder(), rules, a+"\n"+a+"\nm f=1 3\n"+a)
		agree(t, knowing, rules, a+"\n"+a+"\nm f=1 3\n"+a)
	}
}

// Lines of few series and times with other axes, fields and kinds in any order.
func TestPointsOfASeriesArriveInTheOrderOfTheirLines(t *testing.T) {
	rules, knowing := defaultRules(t), newDecoder()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Custom(func(t *rapid.T) string {
			pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "piece") }
			return pick("m", "m", "n") + pick("", ",run=r", ",a=b") + pick("", "", ",step=1", ",step=2", ",window=1", ",epoch=1,batch=2") +
				" f=" + pick("1", "2", "3i", "t") + pick("", "", ",g=1", ",f=4,h=2i") + pick(" 1", " 1", " 2", "")
		})
		body := strings.Join(rapid.SliceOfN(line, 1, 30).Draw(t, "lines"), "\n")
		agree(t, newDecoder(), rules, body)
		agree(t, knowing, rules, body)
	})
}

// bounds hold for any body: a series of six bytes takes some thousand bytes of memory.
var bounds = cost.Bounds{Bytes: 64 << 10, PerByte: 700, TimePerByte: 3 * time.Microsecond}

func FuzzDecode(f *testing.F) {
	for _, body := range corpus() {
		f.Add(body)
	}
	rules := defaultRules(f)
	f.Fuzz(func(t *testing.T, body string) {
		agree(t, newDecoder(), rules, body)
		bounds.Check(t, []byte(body), func(body []byte) {
			_, _ = fresh(&reading{rules: rules, unit: 1, budget: 1 << 30}).decode(body, len(body))
		})
	})
}

// Numbers are read as strconv reads them, bit for bit.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(v) {
			return
		}
		format := rapid.SampledFrom([]byte{'g', 'e', 'f'}).Draw(t, "format")
		text := strconv.FormatFloat(v, format, rapid.SampledFrom([]int{-1, 3, 17}).Draw(t, "digits"), 64)
		want, err := strconv.ParseFloat(text, 64)
		got, end, reason := parseValue([]byte(text+","), 0)
		if (err == nil) != (reason == "") || err == nil && (math.Float64bits(got.float) != math.Float64bits(want) || end != len(text)) {
			t.Fatalf("%s: %v (%s), want %v (%v)", text, got.float, reason, want, err)
		}
		if f, end, usual := scanFloat([]byte(text+","), 0); usual && (math.Float64bits(f) != math.Float64bits(want) || end != len(text)) {
			t.Fatalf("%s: %v, want %v", text, f, want)
		}
	})
}

// The usual numbers: up to 19 digits with a point anywhere, ties included.
func TestUsualNumbers(t *testing.T) {
	usual := 0
	rapid.Check(t, func(t *rapid.T) {
		digits := strconv.FormatUint(rapid.Uint64().Draw(t, "digits"), 10)
		if rapid.Bool().Draw(t, "half") { // halfway between two float64
			v := math.Float64frombits(rapid.Uint64Range(0x4340000000000000, 0x43d0000000000000).Draw(t, "bits"))
			a, b := uint64(v), uint64(math.Nextafter(v, math.Inf(1)))
			digits = strconv.FormatUint(a/2+b/2+(a&b&1), 10)
		}
		point := rapid.IntRange(0, len(digits)).Draw(t, "point")
		text := rapid.SampledFrom([]string{"", "-", "-0", "0", "000"}).Draw(t, "sign") + digits[:point] + "." + strings.Repeat("0", rapid.IntRange(0, 9).Draw(t, "zeros")) + digits[point:]
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		got, end, ok := scanFloat([]byte(text+" 1"), 0)
		if !ok {
			return
		}
		usual++
		if math.Float64bits(got) != math.Float64bits(want) || end != len(text) {
			t.Fatalf("%s is %v, want %v", text, got, want)
		}
	})
	if usual == 0 { // about one in two is
		t.Errorf("only %d numbers were usual", usual)
	}
}

func TestABadLineIsNamed(t *testing.T) {
	d := fresh(&reading{rules: defaultRules(t), unit: 1, now: 0, budget: 1 << 30})
	err := d.all("m f=1 1\n# c\n\nm f=\"a\nb\" 2\nm,x= f=1 3\n")
	const want = "unable to parse 'm,x= f=1 3': line 6: missing tag value"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRules(t *testing.T) {
	book, err := newRuleBook(Config{Runs: []string{"*=all", "b={uid}:{x}|other"}, Axes: []string{"b=window|step", "c="}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(bucket, body string) []point {
		d := fresh(&reading{rules: book.find(bucket), unit: 1, now: 0, budget: 1 << 30})
		if err := d.all(body); err != nil {
			t.Fatal(err)
		}
		return flat(d)
	}
	body := "m,step=7,uid=u,window=3,x=y f=1 1"
	for bucket, want := range map[string]point{
		"a": {Run: "all", Metric: "m/f", Labels: `["uid\x00u" "x\x00y"]`, Axes: "step=7 window=3 ", TimeNs: 1, Kind: model.KindFloat, Float: math.Float64bits(1)},
		"b": {Run: "u:y", Metric: "m/f", Labels: `["uid\x00u" "x\x00y"]`, Axes: "step=7 window=3 ", TimeNs: 1, Kind: model.KindFloat, Float: math.Float64bits(1)},
		"c": {Run: "all", Metric: "m/f", Labels: `["step\x007" "uid\x00u" "window\x003" "x\x00y"]`, TimeNs: 1, Kind: model.KindFloat, Float: math.Float64bits(1)},
	} {
		if diff := cmp.Diff([]point{want}, read(bucket, body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", bucket, diff)
		}
	}
	for _, bad := range []Config{{Runs: []string{"x"}}, {Runs: []string{"=a"}}, {Runs: []string{"b={uid}"}}, {Runs: []string{"b={uid|x"}}, {Runs: []string{"b=a}"}}, {Runs: []string{"b="}}, {Axes: []string{"b=stepp"}}, {Axes: []string{"b=step|step"}}} {
		if _, err := newRuleBook(bad); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// Tags that describe the process are attributes and make the attempt. Role and uid do where
// they name the run, all of them only with a runtime_id or by a bucket's rule.
func TestTagsOfTheProcess(t *testing.T) {
	for _, c := range []struct{ rule, tags, run, attributes, labels string }{
		{"", "uid=7,role=v,version=2,group=g,x=1", "v-7", "", "group=g role=v uid=7 version=2 x=1"},
		{"", "uid=7,role=v,version=2,group=g,x=1,runtime_id=r,config_lr=3,config_=4,window=5", "v-7", "config_=4 config/lr=3 group=g role=v runtime_id=r uid=7 version=2", "x=1"},
		{"", "uid=7,role=v,run=n,version=2,runtime_id=r", "n", "runtime_id=r version=2", "role=v uid=7"},
		{"", "uid=7,runtime_id=r", "default", "runtime_id=r", "uid=7"},
		{"b=version|c*", "version=2,code=1,runtime_id=r,uid=1", "default", "code=1 version=2", "runtime_id=r uid=1"},
		{"*=version", "version=2,x=1", "default", "version=2", "x=1"},
		{"b=", "version=2,runtime_id=r", "default", "", "runtime_id=r version=2"},
		{"other=version", "version=2,runtime_id=r", "default", "runtime_id=r version=2", ""},
	} {
		var rules []string
		if c.rule != "" {
			rules = []string{c.rule}
		}
		book, err := newRuleBook(Config{Attributes: rules})
		if err != nil {
			t.Fatal(err)
		}
		d := fresh(&reading{rules: book.find("b"), unit: 1, budget: 1 << 20})
		if err := d.all("m," + c.tags + " f=1 1"); err != nil {
			t.Fatal(err)
		}
		part := d.parts()[0]
		got := []string{part.Run, written(part.Attributes), written(part.Batch.Groups[0].Columns[0].Series.Labels)}
		if diff := cmp.Diff([]string{c.run, c.attributes, c.labels}, got); diff != "" || (part.Process == "") != (c.attributes == "") {
			t.Errorf("%s, %s: process %q (-want +got):\n%s", c.rule, c.tags, part.Process, diff)
		}
	}
	for _, rule := range []string{"b", "=x", "b=a*b", "b=x|x"} {
		if _, err := newRuleBook(Config{Attributes: []string{rule}}); err == nil {
			t.Errorf("the rule %q was taken", rule)
		}
	}
}

func written(labels []model.Label) string {
	var out []string
	for _, l := range labels {
		out = append(out, l.Name+"="+l.Value)
	}
	return strings.Join(out, " ")
}

// A decoder serves any project: a tag of one with a byte of zero is not two tags of another.
func TestATagIsNotTwoTagsOfAnotherRequest(t *testing.T) {
	lines := []string{"m,a=b\x00c\x00d f=1 1", "m,a=b,c=d f=2 2"}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		d := newDecoder()
		for _, i := range order {
			read := &reading{budget: bodyLimit, rules: defaultRules(t), unit: 1}
			d.begin(read, maxSeries)
			if err := d.all(lines[i]); err != nil {
				t.Fatal(err)
			}
			want := []string{"a=b\x00c\x00d", "a=b c=d"}[i]
			var have []string
			for _, l := range d.parts()[0].Batch.Groups[0].Columns[0].Series.Labels {
				have = append(have, l.Name+"="+l.Value)
			}
			if got := strings.Join(have, " "); got != want {
				t.Errorf("order %v: %q has the labels %q", order, lines[i], got)
			}
			d.end()
		}
	}
}

// A run name that is not valid refuses its points. All others are stored, also of a body in parts.
func TestAnInvalidRunRefusesItsPointsOnly(t *testing.T) {
	bad := "m,run=" + strings.Repeat("r", 300) + " f=1,g=2 5\n"
	for _, times := range []int{1, 20_000} {
		in := &taker{}
		body := strings.Repeat(bad+"m,run=good f=1 5\n", times)
		w := write(receiver(t, in, 8<<20), []byte(body), false)
		want := fmt.Sprintf("dropped=%d", 2*times)
		if got := w.Body.String(); w.Code != 422 || in.points != times || !strings.Contains(got, want) || !strings.Contains(got, "the run name") {
			t.Errorf("%d, %d points stored, %s; want %s", w.Code, in.points, got, want)
		}
	}
}
