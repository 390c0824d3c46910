package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unique"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
)

// The bounds of an entry.
const (
	MaxUID   = math.MaxUint16
	MaxScore = 100
	// MaxName is how long the name of a GPU may be, in bytes.
	MaxName = 128
	MaxGPUs = math.MaxUint16
	maxTime = 64 // of created_at, in bytes

	// rounding is what a score may exceed MaxScore by: programs scale to it.
	rounding = 1e-6
)

// GPU is what a proof of GPU found: [Stat]'s gpu_specs.
type GPU struct {
	Name  string `json:"gpu_name"`
	Count int    `json:"num_gpus"`
}

// Stat is what a validator says of one miner.
type Stat struct {
	UID    int    `json:"uid"`
	Hotkey string `json:"hotkey"`
	// GPU is nil where no proof told.
	GPU   *GPU    `json:"gpu_specs"`
	Score float64 `json:"score"` // 0 to 100
	// Allocated: somebody rents the machine. OwnScore: the validator measured the
	// score itself.
	Allocated   bool    `json:"allocated"`
	OwnScore    bool    `json:"own_score"`
	Reliability float64 `json:"reliability_score"`
	CreatedAt   string  `json:"created_at"`
}

// Reports are the entries of one validator.
type Reports struct {
	Stats []Stat // by uid
	// Rest are the uids beyond the most that was asked for, by number; what is said
	// of them was not read.
	Rest []int
	// LeftOut is how many entries have a wrong form, Reason what is wrong with one.
	LeftOut int
	Reason  string
}

func (r *Reports) leave(key, reason string) {
	if r.LeftOut++; r.Reason == "" {
		r.Reason = fmt.Sprintf("%q: %s", model.Clip(key), reason)
	}
}

// Note says what was left out, "" for nothing.
func (r *Reports) Note() string {
	if r.LeftOut == 0 {
		return ""
	}
	return fmt.Sprintf("%d of its reports have a wrong form and do not count, for example %s", r.LeftOut, r.Reason)
}

// entry is one that was found and not read yet.
type entry struct {
	uid   int
	value []byte
}

// Read reads stats, a value of valid JSON, and of these the most entries with the
// lowest uids.
func Read(stats []byte, most int) (out Reports) {
	var found []entry
	object := Members(stats, func(key string, value []byte) {
		if uid, err := ReadUID(key); err != nil {
			out.leave(key, "it is no uid")
		} else {
			found = append(found, entry{uid, value})
		}
	})
	if !object && len(stats) > 0 && !null(stats) {
		out.leave("stats", "it is no object")
	}
	found = lastOfEach(found)
	r := reader{names(), map[GPU]*GPU{}}
	for i, e := range found {
		if i >= most {
			out.Rest = append(out.Rest, e.uid)
			continue
		}
		if s, reason := r.stat(e); reason != "" {
			out.leave(strconv.Itoa(e.uid), reason)
		} else {
			out.Stats = append(out.Stats, s)
		}
	}
	return out
}

// lastOfEach orders by uid; of two entries with one name the last counts.
func lastOfEach(all []entry) []entry {
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.uid, b.uid) })
	out := all[:0]
	for i, e := range all {
		if i+1 == len(all) || all[i+1].uid != e.uid {
			out = append(out, e)
		}
	}
	return out
}

// ReadUID is strict: one text for each number.
func ReadUID(text string) (int, error) {
	uid, err := strconv.Atoi(text)
	if err != nil || uid < 0 || uid > MaxUID || strconv.Itoa(uid) != text {
		return 0, fmt.Errorf("%q is no uid", model.Clip(text))
	}
	return uid, nil
}

// reader keeps each GPU once.
type reader struct {
	names []string
	gpus  map[GPU]*GPU
}

// names are the members of an entry that are read.
func names() []string {
	return []string{"uid", "hotkey", "gpu_specs", "score", "allocated", "own_score", "reliability_score", "created_at"}
}

// stat reads an entry; the reason is empty for one of the right form. What is null
// or missing is as if nothing were said, but for score and hotkey.
func (r *reader) stat(e entry) (s Stat, reason string) {
	values := make([][]byte, len(r.names))
	object := Members(e.value, func(name string, value []byte) {
		if i := slices.Index(r.names, name); i >= 0 {
			values[i] = value
		}
	})
	if !object {
		return s, "it is no object"
	}
	s.UID, s.Score = e.uid, math.NaN()
	for i, value := range values {
		if value == nil || null(value) {
			continue
		}
		if reason := r.field(&s, r.names[i], value); reason != "" {
			return s, reason
		}
	}
	switch {
	case math.IsNaN(s.Score):
		return s, "it has no score"
	case s.Hotkey == "":
		return s, "it has no hotkey"
	}
	return s, ""
}

func (r *reader) field(s *Stat, name string, value []byte) (reason string) {
	ok := true
	switch name {
	case "uid":
		uid, whole := Whole(value)
		if !whole || uid != int64(s.UID) {
			return "its uid is another one"
		}
	case "hotkey":
		return readHotkey(s, value)
	case "gpu_specs":
		s.GPU, reason = r.gpu(value)
		return reason
	case "score":
		if s.Score, ok = Number(value); !ok || s.Score < 0 || s.Score > MaxScore+rounding {
			return fmt.Sprintf("its score is %s, it must be a number from 0 to %d", model.Clip(string(value)), MaxScore)
		}
	case "allocated":
		s.Allocated, ok = Bool(value)
	case "own_score":
		s.OwnScore, ok = Bool(value)
	case "reliability_score":
		s.Reliability, ok = Number(value)
	case "created_at":
		if s.CreatedAt, ok = Text(value); len(s.CreatedAt) > maxTime {
			return fmt.Sprintf("its created_at has more than %d bytes", maxTime)
		}
		s.CreatedAt = unique.Make(s.CreatedAt).Value()
	}
	if !ok {
		return fmt.Sprintf("its %s has a wrong type", name)
	}
	return ""
}

// readHotkey takes the one form of an address: look-alikes are none.
func readHotkey(s *Stat, value []byte) (reason string) {
	text, _ := Text(value)
	account, _, err := wallet.ParseAddress(text)
	if err != nil || account.String() != text {
		return "its hotkey is no address"
	}
	s.Hotkey = unique.Make(text).Value() // thousands of validators name the same
	return ""
}

// ReadGPU reads gpu_specs, nil for what is none.
func ReadGPU(text []byte) *GPU {
	if !Valid(text) {
		return nil
	}
	r := reader{gpus: map[GPU]*GPU{}}
	found, _ := r.gpu(text)
	return found
}

// gpu is nil for null and {}.
func (r *reader) gpu(value []byte) (found *GPU, reason string) {
	var g GPU
	var count int64
	said, named, counted := false, false, false
	object := Members(value, func(name string, value []byte) {
		said = true
		switch name {
		case "gpu_name":
			g.Name, named = Text(value)
		case "num_gpus":
			count, counted = Whole(value)
		}
	})
	switch {
	case null(value) || object && !said:
		return nil, ""
	case !named || g.Name == "" || len(g.Name) > MaxName:
		return nil, fmt.Sprintf("the gpu_name of its gpu_specs is no text of 1 to %d bytes", MaxName)
	case !counted || count < 0 || count > MaxGPUs:
		return nil, fmt.Sprintf("the num_gpus of its gpu_specs is no integer from 0 to %d", MaxGPUs)
	}
	g.Count = int(count)
	if r.gpus[g] == nil {
		r.gpus[g] = &g
	}
	return r.gpus[g], ""
}
