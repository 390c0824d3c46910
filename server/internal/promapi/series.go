package promapi

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// engineVersion is the version of the Prometheus whose engine this is, for clients that ask
// what they may send.
const engineVersion = "3.8.0"

var (
	beginning = time.Unix(-mostTime, 0)
	ending    = time.Unix(mostTime, 0)
)

// each yields the labels of all series that the request selects, some of them twice.
func (q *request) each(needed bool, yield func(labels.Labels) error) error {
	selectors, err := matches(q.Request, needed)
	if err != nil {
		return err
	}
	start, end, err := q.span(beginning, ending)
	if err != nil {
		return err
	}
	for _, s := range selectors {
		if err := q.series(q.Context(), s, nanosOf(start), nanosOf(end), yield); err != nil {
			return failed(err)
		}
	}
	return nil
}

func listSeries(q *request) error {
	limit, err := limitOf(q.Request, "limit")
	if err != nil {
		return err
	}
	found := map[string]labels.Labels{}
	var key []byte
	err = q.each(true, func(of labels.Labels) error {
		key = of.Bytes(key)
		if _, known := found[string(key)]; known {
			return nil
		}
		found[string(key)] = of
		return q.room.take(int64(seriesBytes + 2*size(of)))
	})
	if err != nil {
		return err
	}
	all := slices.SortedFunc(maps.Values(found), labels.Compare)
	all, cut := first(all, limit)
	w := q.begin()
	list(w, len(all), func(i int) { w.labels(all[i]) })
	return finish(w, cut)
}

func first[T any](all []T, limit int) ([]T, bool) {
	if limit > 0 && len(all) > limit {
		return all[:limit], true
	}
	return all, false
}

func finish(w writer, cut bool) error {
	if cut {
		w.notes("warnings", []string{cutShort})
	}
	w.raw("}")
	return nil
}

// textBytes is what a text in a map takes besides its own bytes.
const textBytes = 80

// set collects texts.
type set struct {
	request *request
	texts   map[string]struct{}
}

func (s *set) add(text string) error {
	if _, known := s.texts[text]; known {
		return nil
	}
	s.texts[text] = struct{}{}
	return s.request.room.take(int64(textBytes + len(text)))
}

func (s *set) write(limit int) error {
	all, cut := first(slices.Sorted(maps.Keys(s.texts)), limit)
	w := s.request.begin()
	w.texts(all)
	return finish(w, cut)
}

func labelNames(q *request) error {
	limit, err := limitOf(q.Request, "limit")
	if err != nil {
		return err
	}
	names := &set{q, map[string]struct{}{}}
	err = q.each(false, func(of labels.Labels) error {
		return of.Validate(func(l labels.Label) error { return names.add(l.Name) })
	})
	if err != nil {
		return err
	}
	return names.write(limit)
}

func labelValues(q *request) error {
	name := q.PathValue("name")
	if decoded := model.UnescapeName(name, model.ValueEncodingEscaping); decoded != "" {
		name = decoded
	}
	if !model.LabelName(name).IsValid() { //nolint:staticcheck // as Prometheus does by default
		return badData("invalid label name: %q", name)
	}
	limit, err := limitOf(q.Request, "limit")
	if err != nil {
		return err
	}
	values := &set{q, map[string]struct{}{}}
	err = q.each(false, func(of labels.Labels) error {
		if v := of.Get(name); v != "" {
			return values.add(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return values.write(limit)
}

// metadata tells the exact names of metrics; types are not known.
func metadata(q *request) error {
	limit, err := limitOf(q.Request, "limit")
	if err != nil {
		return err
	}
	wanted := q.Form.Get("metric")
	exact := map[string]*set{}
	q.Form.Del("match[]")
	err = q.each(false, func(of labels.Labels) error {
		name := of.Get(labelName)
		if wanted != "" && name != wanted {
			return nil
		}
		if exact[name] == nil {
			exact[name] = &set{q, map[string]struct{}{}}
		}
		return exact[name].add(of.Get(labelMetric))
	})
	if err != nil {
		return err
	}
	names, _ := first(slices.Sorted(maps.Keys(exact)), limit)
	w := q.begin()
	w.raw("{")
	for i, name := range names {
		if i > 0 {
			w.raw(",")
		}
		w.text(name)
		w.raw(":")
		kind := "unknown"
		if name == runInfo {
			kind = "gauge"
		}
		helps := slices.Sorted(maps.Keys(exact[name].texts))
		list(w, len(helps), func(k int) {
			w.raw(`{"type":"` + kind + `","help":`)
			w.text(helps[k])
			w.raw(`,"unit":""}`)
		})
	}
	w.raw("}")
	return finish(w, false)
}

func buildInfo(q *request) error {
	w := q.begin()
	w.raw(`{"version":"` + engineVersion + `","revision":`)
	w.text("kymogram-" + q.handler.options.Version)
	w.raw(`,"branch":"","buildUser":"","buildDate":"","goVersion":""}`)
	return finish(w, false)
}
