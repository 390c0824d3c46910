package network

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// section is the part of a run's config section that the page draws.
type section struct {
	version   *int64
	allocated string
	portOpen  *bool
	reports   []report // by uid
}

// report is what a validator says of one miner.
type report struct {
	uid    uint16
	hotkey string
	score  float64
	gpu    GPU
	flags  int16
}

// maxReports bounds what one validator may say.
const maxReports = MaxMiners

// fields are a JSON object by its exact names: encoding/json takes Own_Score for
// own_score, and who reads a stranger must not.
type fields map[string]json.RawMessage

func readFields(text []byte) fields {
	var out fields
	if !utf8.Valid(text) || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}

// readSection reads a payload. A part of another form than ours is as if it were
// not there: the record is authentic all the same.
func readSection(payload []byte) section {
	f := readFields(payload)
	s := section{version: as[int64](f["version"]), portOpen: as[bool](f["is_port_open"])}
	if hotkey := as[string](f["allocated"]); hotkey != nil {
		s.allocated = model.Clip(*hotkey)
	}
	for key, text := range readFields(f["stats"]) {
		if r, ok := readReport(key, text); ok {
			s.reports = append(s.reports, r)
		}
	}
	slices.SortFunc(s.reports, func(a, b report) int { return int(a.uid) - int(b.uid) })
	s.reports = slices.Clip(s.reports[:min(len(s.reports), maxReports)])
	return s
}

// as reads a value of exactly this type, nil for any other.
func as[T any](raw json.RawMessage) *T {
	var v *T
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// readUID takes the one form of a number.
func readUID(key string) (uint16, bool) {
	uid, err := strconv.ParseUint(key, 10, 16)
	return uint16(uid), err == nil && strconv.FormatUint(uid, 10) == key
}

func readReport(key string, text json.RawMessage) (report, bool) {
	uid, ok := readUID(key)
	if !ok {
		return report{}, false
	}
	f := readFields(text)
	r := report{uid: uid, gpu: readGPU(f["gpu_specs"])}
	score := as[float64](f["score"])
	if score == nil || math.IsInf(*score, 0) {
		return report{}, false
	}
	r.score = *score
	if hotkey := as[string](f["hotkey"]); hotkey != nil {
		r.hotkey = model.Clip(*hotkey)
	}
	if own := as[bool](f["own_score"]); own != nil && *own {
		r.flags |= flagOwn
	}
	if allocated := as[bool](f["allocated"]); allocated != nil && *allocated {
		r.flags |= flagAllocated
	}
	return r, true
}

// readGPU reads gpu_specs; null and what has another form are no GPU.
func readGPU(text json.RawMessage) GPU {
	f := readFields(text)
	name, number := as[string](f["gpu_name"]), as[int64](f["num_gpus"])
	if name == nil || number == nil {
		return GPU{}
	}
	return GPU{model.Clip(*name), *number}
}
