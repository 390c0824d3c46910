package importer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// fact takes what a table of runs says of a run beside numbers.
func (t *table) fact(c *csvColumn, text string) {
	if text == "" {
		return
	}
	switch c.role {
	case roleName:
		t.run.DisplayName = CleanRunName(text)
	case roleNotes:
		t.run.Description = model.CutBytes(strings.ToValidUTF8(text, "\ufffd"), maxText)
	case roleTags:
		for tag := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
			t.tag(strings.Trim(tag, " '\""))
		}
	case roleStatus:
		t.run.Failed = t.run.Failed || slices.Contains(csvFailed, strings.ToLower(text))
		t.attribute("import/status", model.StringValue(text))
	case roleStarted, roleEnded:
		when, relative, ok := timestamps(c.name, text)
		switch {
		case !ok || relative:
			t.attribute("import/"+c.name, model.StringValue(text))
		case c.role == roleStarted:
			t.run.StartedNs = when
		default:
			t.run.EndedNs = when
		}
	case roleRuntime:
		if when, relative, ok := timestamps(c.name, text); ok && relative {
			t.runtime = when
		}
	case roleAttribute:
		t.attribute(c.name, model.StringValue(text))
	case roleMetric:
		if _, ok := number(text); !ok {
			t.setting(c.name, text)
		}
	}
}

// setting is a value of the configuration, which a run has one of.
func (t *table) setting(name, text string) {
	if text == "" {
		return
	}
	if before, known := t.config[name]; known {
		if before != text {
			t.skipOf("later values (the first is kept) of the configuration", name)
		}
		return
	}
	t.config[name] = text
	value := model.StringValue(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		value = model.IntValue(n)
	} else if f, ok := number(text); ok {
		value = model.FloatValue(f)
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			value = model.BoolValue(b)
		}
	}
	t.attribute("config/"+strings.Trim(name, "/"), value)
}
