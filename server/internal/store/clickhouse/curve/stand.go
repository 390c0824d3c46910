package curve

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// StepKey names what steps are counted for: a series, or one episode of it.
type StepKey struct {
	Series   store.SeriesID
	Episode  int64
	Episodic bool
}

// stand is where the curve of a series, or of one of its episodes, ends.
type stand struct {
	stepped       bool
	step          int64
	rlStep        *int64
	episode       *int64
	episodeStand  int64 // the highest step of the highest episode
	episodeHasOne bool
}

// next is the step after one; the last of all has none and is repeated.
func next(stepped bool, last int64) int64 {
	switch {
	case !stepped:
		return 0
	case last == math.MaxInt64:
		return last
	}
	return last + 1
}

// NextSteps is, for each key, 1 + the highest step of the series' curve, 0 where it has none. An
// episodic key counts the points of its episode. Another key of an ENVIRONMENT_STEP series leaves
// out the points that have an episode.
func (r *Reader) NextSteps(ctx context.Context, run model.RunID, keys []StepKey) ([]int64, error) {
	facts, err := r.source.Facts(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("read what run %s has: %w", run, err)
	}
	wanted := map[StepKey]bool{}
	for _, k := range keys {
		wanted[k] = true
	}
	last, asked, err := tops(ctx, r.source, &facts, wanted)
	if err != nil {
		return nil, err
	}
	surveys, err := r.surveyed(ctx, &facts, asked)
	if err != nil {
		return nil, err
	}
	for _, s := range r.selections(&facts, asked, surveys) {
		if err := r.lastSteps(ctx, s, wanted, last); err != nil {
			return nil, err
		}
	}
	out := make([]int64, len(keys))
	for i, k := range keys {
		step, stepped := last[k]
		out[i] = next(stepped, step)
	}
	return out, nil
}

// KnownSteps answers [Reader.NextSteps] where streams tell it: no point is read. The other keys are
// left.
func KnownSteps(ctx context.Context, source Source, run model.RunID, keys []StepKey) (steps map[StepKey]int64, left []StepKey, err error) {
	facts, err := source.Facts(ctx, run)
	if err != nil {
		return nil, nil, fmt.Errorf("read what run %s has: %w", run, err)
	}
	wanted := map[StepKey]bool{}
	for _, k := range keys {
		wanted[k] = true
	}
	last, asked, err := tops(ctx, source, &facts, wanted)
	if err != nil {
		return nil, nil, err
	}
	steps = map[StepKey]int64{}
	for _, k := range keys {
		if slices.ContainsFunc(asked, func(s Series) bool { return s.ID == k.Series }) {
			left = append(left, k)
			continue
		}
		step, stepped := last[k]
		steps[k] = next(stepped, step)
	}
	return steps, left, nil
}

// tops are the highest steps that streams tell. The series that are asked do not tell it.
func tops(ctx context.Context, source Source, f *Facts, wanted map[StepKey]bool) (last map[StepKey]int64, asked []Series, err error) {
	var ids []store.SeriesID
	for k := range wanted {
		ids = append(ids, k.Series)
	}
	slices.Sort(ids)
	list, err := source.Series(ctx, f.Run, slices.Compact(ids))
	if err != nil {
		return nil, nil, fmt.Errorf("look up series of run %s: %w", f.Run, err)
	}
	last = map[StepKey]int64{}
	line := lineageOf(f.Attempts)
	for i := range list {
		if high, known := list[i].top(line); known {
			raise(last, wanted, StepKey{Series: list[i].ID}, high)
		} else {
			asked = append(asked, list[i])
		}
	}
	return last, asked, nil
}

// lastSteps finds the highest steps of keys of some series.
func (r *Reader) lastSteps(ctx context.Context, s *selection, wanted map[StepKey]bool, last map[StepKey]int64) error {
	environment := map[store.SeriesID]bool{}
	for _, one := range s.series {
		environment[one.ID] = one.Key.Scale == model.ScaleEnvironment
	}
	at := s.query("series", "has", "step", "episode")
	episodes := "1"
	if found := episodesOf(wanted); len(found) > 0 && len(found) <= placesAtOnce {
		episodes = fmt.Sprintf("NOT %s OR %s IN (%s) OR %s NOT IN (%s)", at.on(1<<episode), at.axis(episode), joined(found, decimal),
			at.of("series"), joined(environments(s.series), seriesNumber))
	}
	statement := fmt.Sprintf("SELECT %[1]s, toUInt8(%[2]s) AS episodic, if(%[2]s, %[3]s, toInt64(0)) AS at, max(%[4]s) FROM %[5]s GROUP BY %[1]s, episodic, at",
		at.of("series"), at.on(1<<episode), at.axis(episode), at.axis(step), at.source(at.on(1<<step), episodes))
	return r.each(ctx, statement, func(rows driver.Rows) error {
		var id uint32
		var episodic uint8
		var place, highest int64
		if err := rows.Scan(&id, &episodic, &place, &highest); err != nil {
			return fmt.Errorf("read a last step: %w", err)
		}
		series := store.SeriesID(id)
		if episodic == 1 {
			raise(last, wanted, StepKey{Series: series, Episode: place, Episodic: true}, highest)
		}
		if episodic == 0 || !environment[series] {
			raise(last, wanted, StepKey{Series: series}, highest)
		}
		return nil
	})
}

func raise(last map[StepKey]int64, wanted map[StepKey]bool, key StepKey, step int64) {
	if old, has := last[key]; wanted[key] && (!has || step > old) {
		last[key] = step
	}
}

func episodesOf(wanted map[StepKey]bool) (out []int64) {
	for k := range wanted {
		if k.Episodic {
			out = append(out, k.Episode)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// environments are the series whose steps are counted by episode. One that no series has makes
// sure that the list is not empty.
func environments(list []Series) []Series {
	out := slices.DeleteFunc(slices.Clone(list), func(s Series) bool { return s.Key.Scale != model.ScaleEnvironment })
	if len(out) == 0 {
		out = append(out, Series{ID: math.MaxUint32})
	}
	return out
}

// Ends answers [store.Starts.Ends].
func (r *Reader) Ends(ctx context.Context, run model.RunID, limit int) (starts []model.Start, envs []model.EnvEnd, complete bool, err error) {
	facts, err := r.source.Facts(ctx, run)
	if err != nil {
		return nil, nil, false, fmt.Errorf("read what run %s has: %w", run, err)
	}
	complete = true
	found, line := map[string]*model.EnvEnd{}, lineageOf(facts.Attempts)
	err = r.eachPage(ctx, run, store.SeriesFilter{}, func(list []Series) error {
		stands := map[store.SeriesID]stand{}
		var asked []Series
		for i := range list {
			if high, known := list[i].top(line); known {
				stands[list[i].ID] = stand{stepped: true, step: high}
			} else {
				asked = append(asked, list[i])
			}
		}
		if err := r.stands(ctx, &facts, asked, stands); err != nil {
			return err
		}
		for _, s := range list {
			at := stands[s.ID]
			at.widen(found, s.Key)
			if len(starts) < limit {
				starts = append(starts, at.start(s.Key))
			} else {
				complete = false
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, false, err
	}
	for _, env := range found {
		envs = append(envs, *env)
	}
	slices.SortFunc(envs, func(a, b model.EnvEnd) int { return cmp.Compare(a.Env, b.Env) })
	return starts, envs, complete, nil
}

// stands reads where curves end. The highest episode counts by its highest step; a point of it
// without a step comes before those with one.
func (r *Reader) stands(ctx context.Context, f *Facts, list []Series, out map[store.SeriesID]stand) error {
	surveys, err := r.surveyed(ctx, f, list)
	if err != nil {
		return err
	}
	for _, s := range r.selections(f, list, surveys) {
		if err := r.standsOf(ctx, s, out); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) standsOf(ctx context.Context, s *selection, out map[store.SeriesID]stand) error {
	at := s.query("series", "has", "step", "rl_step", "episode")
	highest := func(axis int) string {
		return fmt.Sprintf("toUInt8(countIf(%[1]s) > 0), maxIf(%[2]s, %[1]s)", at.on(1<<axis), at.axis(axis))
	}
	stepped := "toUInt8(" + at.on(1<<step) + ")"
	standing := func(value string) string {
		return fmt.Sprintf("argMaxIf(%s, (%s, %s, %s), %s)", value, at.axis(episode), stepped, at.axis(step), at.on(1<<episode))
	}
	statement := fmt.Sprintf("SELECT %[1]s, %s, %s, %s, %s, %s FROM %s GROUP BY %[1]s",
		at.of("series"), highest(step), highest(rlStep), highest(episode), standing(stepped), standing(at.axis(step)), at.source())
	return r.each(ctx, statement, func(rows driver.Rows) error {
		var id uint32
		var has [3]uint8
		var one uint8
		var st stand
		var rl, ep int64
		if err := rows.Scan(&id, &has[0], &st.step, &has[1], &rl, &has[2], &ep, &one, &st.episodeStand); err != nil {
			return fmt.Errorf("read where a series ends: %w", err)
		}
		if st.stepped, st.episodeHasOne = has[0] == 1, one == 1; has[1] == 1 {
			st.rlStep = &rl
		}
		if has[2] == 1 {
			st.episode = &ep
		}
		out[store.SeriesID(id)] = st
		return nil
	})
}

func (s *stand) start(key model.SeriesKey) model.Start {
	out := model.Start{Metric: key.Metric, Scale: key.Scale, Labels: key.LabelMap()}
	if key.Scale == model.ScaleEnvironment && s.episode != nil {
		out.Episode, out.Next = s.episode, next(s.episodeHasOne, s.episodeStand)
		return out
	}
	out.Next = next(s.stepped, s.step)
	return out
}

// widen adds the series to the environment that it is of.
func (s *stand) widen(envs map[string]*model.EnvEnd, key model.SeriesKey) {
	at := slices.IndexFunc(key.Labels, func(l model.Label) bool { return l.Name == model.LabelEnv })
	if at < 0 || s.rlStep == nil {
		return
	}
	name := key.Labels[at].Value
	env := envs[name]
	if env == nil {
		env = &model.EnvEnd{Env: name, LastRLStep: *s.rlStep}
		envs[name] = env
	}
	env.LastRLStep = max(env.LastRLStep, *s.rlStep)
	if s.episode != nil && (env.LastEpisode == nil || *env.LastEpisode < *s.episode) {
		env.LastEpisode = s.episode
	}
}
