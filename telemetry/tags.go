package telemetry

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// replaced stands for a secret.
const replaced = "***"

var (
	secretName = regexp.MustCompile(`(?i)secret|passw(or)?d|passphrase|mnemonic|credential|private_?key|api_?key|access_?key` +
		`|(^|[_.-])(token|auth|pwd|seed_phrase)$`)
	secretValue = regexp.MustCompile(`(?s)^(?:(sk-|sk_|pk_|rk_|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|hf_|AKIA|ASIA|AIza|eyJ|ya29\.` +
		`|-----BEGIN|npm_|pypi-|kym_).{16}|\w+://[^/@\s]*:[^/@\s]+@)`)
)

// Standard are the tags that every point of the process has; those without a value are none.
func (o Options) Standard() map[string]string {
	out := map[string]string{
		"uid": o.UID, "prefix": o.Prefix, "version": o.Version, "runtime_id": o.RuntimeID,
		"role": o.Role, "group": o.Group, "job_type": o.JobType,
	}
	for name, value := range out {
		if value == "" {
			delete(out, name)
		}
	}
	return out
}

// PlainConfig are the plain values at the top of the configuration, secrets replaced.
func (o Options) PlainConfig() map[string]string {
	out := map[string]string{}
	for name, value := range o.Config {
		switch value.(type) {
		case string, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		default:
			continue
		}
		text := fmt.Sprint(value)
		if strings.HasPrefix(name, "_") {
			continue
		}
		if text != "" && (secretName.MatchString(name) || secretValue.MatchString(text)) {
			text = replaced
		}
		out[name] = text
	}
	return out
}

// runName is the run of the points.
func (o Options) runName() string {
	if o.Role == "" || o.UID == "" {
		return "default"
	}
	return o.Role + "-" + o.UID
}

func textOf(value any) string { return fmt.Sprint(value) }

// textsOf are tags as text; one without a value is none.
func textsOf(tags Tags) map[string]string {
	out := make(map[string]string, len(tags))
	for name, value := range tags {
		if text := textOf(value); value != nil && text != "" && name != "" {
			out[name] = text
		}
	}
	return out
}

// steps are the tags that may be a point's step, best first.
func steps() []model.Axis {
	return []model.Axis{model.AxisStep, model.AxisGlobalStep, model.AxisWindow, model.AxisBlock}
}

// split are the axes and labels of a point, with the step that the axes give.
func split(tags map[string]string) (axes map[string]int64, labels map[string]string) {
	axes, labels = map[string]int64{}, map[string]string{}
	for name, text := range tags {
		switch model.Axis(name) {
		case model.AxisStep, model.AxisGlobalStep, model.AxisWindow, model.AxisBlock, model.AxisBatch, model.AxisEpoch:
			if n, ok := axisValue(text); ok {
				axes[name] = n
				continue
			}
		}
		labels[name] = text
	}
	if step, ok := stepOf(axes); ok {
		axes[string(model.AxisStep)] = step
	}
	return axes, labels
}

// stepOf is the step that axes give: with an epoch and a batch alone there is none.
func stepOf(axes map[string]int64) (int64, bool) {
	for _, name := range steps() {
		if n, ok := axes[string(name)]; ok {
			return n, true
		}
	}
	epoch, hasEpoch := axes[string(model.AxisEpoch)]
	batch, hasBatch := axes[string(model.AxisBatch)]
	switch {
	case hasEpoch == hasBatch:
		return 0, false
	case hasEpoch:
		return epoch, true
	}
	return batch, true
}

// axisValue reads a natural number as it would be written.
func axisValue(text string) (int64, bool) {
	const most = 18
	if text == "" || len(text) > most || len(text) > 1 && text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
