package ingest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// Limits of one record (docs/design/points.md). Past them the record is
// refused for good, the rest of its batch is taken.
const (
	maxLabels      = 64
	maxLabelName   = 128
	maxLabelValue  = 1 << 10
	maxMetric      = 1 << 10
	maxScale       = 128
	maxStep        = 1 << 62 // leaves room for what is added to a step
	maxDocument    = 1 << 20 // the largest record of a spool
	maxAttrPath    = 512
	maxAttrText    = 64 << 10
	maxTagBytes    = 256
	maxTags        = 1_000 // in one update
	maxEventText   = 64 << 10
	maxReasonBytes = 256
)

// fault is why a record is refused.
type fault struct {
	Code    model.Code
	Message string
}

func bad(format string, args ...any) *fault {
	return &fault{model.CodeBadRecord, fmt.Sprintf(format, args...)}
}

func limit(format string, args ...any) *fault {
	return &fault{model.CodeLimit, fmt.Sprintf(format, args...)}
}

// CheckSeries says why no point of a series can be taken, for a receiver that tells its
// clients which of their points were refused.
func CheckSeries(k *model.SeriesKey) error {
	if f := checkSeries(k); f != nil {
		return model.Errorf(f.Code, "%s", f.Message)
	}
	return nil
}

// checkSeries checks the names of a series.
func checkSeries(k *model.SeriesKey) *fault {
	switch {
	case k.Metric == "":
		return bad("the metric has no name")
	case len(k.Metric) > maxMetric:
		return limit("the metric's name %q… has %d bytes, at most %d", model.Clip(k.Metric), len(k.Metric), maxMetric)
	case !model.IsClean(k.Metric):
		return bad("the metric's name %q has control characters or is not UTF-8", model.Clip(k.Metric))
	case k.Scale == "":
		return bad("the series %q has no scale", model.Clip(k.Metric))
	case len(k.Scale) > maxScale:
		return limit("the scale of %q has %d bytes, at most %d", model.Clip(k.Metric), len(k.Scale), maxScale)
	case !model.IsClean(k.Scale):
		return bad("the scale of %q has control characters or is not UTF-8", model.Clip(k.Metric))
	case len(k.Labels) > maxLabels:
		return limit("the series %q has %d labels, at most %d", model.Clip(k.Metric), len(k.Labels), maxLabels)
	}
	return checkLabels(k)
}

func checkLabels(k *model.SeriesKey) *fault {
	for i, l := range k.Labels {
		switch {
		case l.Name == "":
			return bad("a label of %q has no name", model.Clip(k.Metric))
		case len(l.Name) > maxLabelName:
			return limit("a label's name of %q has %d bytes, at most %d", model.Clip(k.Metric), len(l.Name), maxLabelName)
		case len(l.Value) > maxLabelValue:
			return limit("the label %s of %q has %d bytes, at most %d", l.Name, model.Clip(k.Metric), len(l.Value), maxLabelValue)
		case !model.IsClean(l.Name) || !model.IsClean(l.Value):
			return bad("the label %q of %q has control characters or is not UTF-8", l.Name, model.Clip(k.Metric))
		case i > 0 && k.Labels[i-1].Name >= l.Name:
			return bad("the labels of %q are not sorted or repeat %q", model.Clip(k.Metric), l.Name)
		}
	}
	return nil
}

// checkRow checks the axes, the time and the sizes of one row.
func checkRow(g *model.RowGroup, row int) *fault {
	for i := range g.Axes {
		if f := checkAxis(g.Axes[i].Axis, g.Axes[i].Values[row]); f != nil {
			return f
		}
	}
	if t := g.TimeNs[row]; t > maxStep || t < -maxStep {
		return bad("the time %d ns is out of range", t)
	}
	return nil
}

func checkAxis(a model.Axis, v int64) *fault {
	switch a {
	case model.AxisStep, model.AxisRLStep, model.AxisEpisode, model.AxisEnvStep:
		if v < 0 {
			return bad("the %s is %d; it must not be negative", a, v)
		}
	default:
		if v < -maxStep {
			return bad("the %s %d is out of range", a, v)
		}
	}
	if v > maxStep {
		return bad("the %s %d is out of range, the largest is %d", a, v, int64(maxStep))
	}
	return nil
}

// checkValue checks what one row of a column holds. Numbers are all valid.
func checkValue(c *model.Column, row int) *fault {
	switch c.Kind {
	case model.KindText:
		if len(c.Texts[row]) > maxDocument {
			return limit("a text of %q has %d bytes, at most %d", model.Clip(c.Series.Metric), len(c.Texts[row]), maxDocument)
		}
		if !utf8.ValidString(c.Texts[row]) {
			return bad("a text of %q is not UTF-8", model.Clip(c.Series.Metric))
		}
	case model.KindHistogram, model.KindScatter:
		if len(c.Docs[row]) > maxDocument {
			return limit("a %s of %q has %d bytes, at most %d", c.Kind, model.Clip(c.Series.Metric), len(c.Docs[row]), maxDocument)
		}
		if err := model.CheckDocument(c.Kind, c.Docs[row]); err != nil {
			return bad("a %s of %q: %s", c.Kind, model.Clip(c.Series.Metric), err)
		}
	}
	return nil
}

// isKnown reports whether clients may send updates of this kind. Trees and files come from
// receivers only: the wire of our own clients has no place for them.
func isKnown(op model.UpdateOp) bool {
	switch op {
	case model.OpSetAttribute, model.OpSetEnvAttribute, model.OpSetTags, model.OpAddTags, model.OpRemoveTags, model.OpSetDescription,
		model.OpSetDisplayName, model.OpLog, model.OpClose, model.OpRendering, model.OpGone, model.OpDropped:
		return true
	}
	return false
}

// checkUpdate checks one change of a run.
func checkUpdate(u *model.Update) *fault {
	switch u.Op {
	case model.OpSetAttribute:
		if u.Initial && (u.Value == nil || !strings.HasPrefix(u.Path, "config/")) {
			return bad("the initial value %q is not of the configuration", model.Clip(u.Path))
		}
		return checkAttribute(u)
	case model.OpSetEnvAttribute:
		if u.Env == "" || len(u.Env) > maxAttrPath || !model.IsClean(u.Env) {
			return bad("the environment %q is not valid", model.Clip(u.Env))
		}
		if u.Episode != nil && (*u.Episode < 0 || *u.Episode > maxStep) {
			return bad("the episode is %d", *u.Episode)
		}
		return checkAttribute(u)
	case model.OpSetTags, model.OpAddTags, model.OpRemoveTags:
		return checkTags(u.Tags)
	case model.OpSetDescription, model.OpSetDisplayName, model.OpLog:
		return checkText(u)
	case model.OpClose:
		if u.Text != string(model.StatusFinished) && u.Text != string(model.StatusFailed) {
			return bad("a close says finished or failed, not %q", model.Clip(u.Text))
		}
		return checkSignal(u.Signal)
	case model.OpRendering:
		return checkRendering(u.Rendering)
	case model.OpGone:
		return checkSignal(u.Signal)
	case model.OpSetTree, model.OpSetFile:
		if u.Seq != 0 {
			break // a client sent it
		}
		return checkKept(u)
	case model.OpDropped:
		return nil
	}
	return bad("the update %q is not known", model.Clip(string(u.Op)))
}

// checkSignal checks the name of what ended a process; any signal may be named.
func checkSignal(name string) *fault {
	if name != "" && (!strings.HasPrefix(name, "SIG") || len(name) > 16 || !model.IsClean(name)) {
		return bad("%q is no signal", model.Clip(name))
	}
	return nil
}

func checkAttribute(u *model.Update) *fault {
	switch {
	case u.Path == "" || !model.IsClean(u.Path):
		return bad("the attribute's path %q is empty, has control characters or is not UTF-8", model.Clip(u.Path))
	case len(u.Path) > maxAttrPath:
		return limit("the attribute's path %q… has %d bytes, at most %d", model.Clip(u.Path), len(u.Path), maxAttrPath)
	case u.Value == nil:
		return nil
	}
	size, valid := len(u.Value.Str), utf8.ValidString(u.Value.Str)
	for _, member := range u.Value.Set {
		size, valid = size+len(member), valid && model.IsClean(member)
	}
	if size > maxAttrText {
		return limit("the attribute %q has %d bytes, at most %d", model.Clip(u.Path), size, maxAttrText)
	}
	if !valid {
		return bad("the attribute %q is not UTF-8, or its set has control characters", model.Clip(u.Path))
	}
	return nil
}

func checkTags(tags []string) *fault {
	if len(tags) > maxTags {
		return limit("%d tags at once, at most %d", len(tags), maxTags)
	}
	for _, tag := range tags {
		if tag == "" || !model.IsClean(tag) {
			return bad("the tag %q is empty, has control characters or is not UTF-8", model.Clip(tag))
		}
		if len(tag) > maxTagBytes {
			return limit("the tag %q… has %d bytes, at most %d", model.Clip(tag), len(tag), maxTagBytes)
		}
	}
	return nil
}

func checkText(u *model.Update) *fault {
	most := maxEventText
	if u.Op == model.OpSetDisplayName {
		most = maxTextBytes
	}
	if len(u.Text) > most {
		return limit("the text of %s has %d bytes, at most %d", u.Op, len(u.Text), most)
	}
	if !utf8.ValidString(u.Text) || (u.Op == model.OpSetDisplayName && !model.IsClean(u.Text)) {
		return bad("the text of %s is not UTF-8 or has control characters", u.Op)
	}
	if u.Op != model.OpLog {
		return nil
	}
	if u.Value != nil && u.Value.Type != model.TypeStringSet {
		return bad("the tags of the event %q are not a set of strings", model.Clip(u.Path))
	}
	return checkAttribute(u) // name and tags have the same rules
}
