package kymogram

import (
	"maps"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/series"
	"github.com/kymogram/kymogram/internal/spool"
)

const defaultEnv = "default"

// EnvValues are the values of one environment in one update of an agent.
type EnvValues struct {
	Env     string // "default" when empty
	Episode *int64 // when known
	Values  []float64
	// Values32 stand in for Values; they take 4 bytes a value in the spool.
	Values32 []float32
}

// LogRLEpisode logs a value of one episode. Its step is the [Episode] when that
// is known, else a running number.
func (r *Run) LogRLEpisode(name string, rlStep int64, value float64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if err := rule.Step("rl step", rlStep); err != nil {
		return err
	}
	s, err := r.envSeries(name, ScaleEpisode, &c)
	if err != nil {
		return err
	}
	bits, err := s.convert(math.Float64bits(value), model.KindFloat)
	if err != nil {
		return err
	}
	if c.hasEpisode {
		c.step, c.hasStep = c.episode, true
	}
	if drop, err := r.admit(1); drop || err != nil {
		return err
	}
	flags, step := s.resolve(&c, 1)
	axes := []spool.BlockAxis{stepAxis(flags, spool.ModeConstant, step), axis(spool.AxisRLStep, 0, spool.ModeConstant, rlStep)}
	if c.hasEpisode {
		axes = append(axes, axis(spool.AxisEpisode, 0, spool.ModeConstant, c.episode))
	}
	row := envRow{env: c.env, episode: series.NoEpisode}
	if c.hasEpisode {
		row.episode = c.episode
	}
	r.noteRows([]envRow{row}, rlStep)
	return r.block([]*Series{s}, &spool.Block{Kind: s.spool.Kind, Rows: 1, Time: constant(r.timeNs(&c)), Axes: axes, Values: []uint64{bits}})
}

// LogRLEnvironmentStep logs one value of the next step of an environment.
func (r *Run) LogRLEnvironmentStep(name string, rlStep int64, value float64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	env := EnvValues{Env: c.env, Values: []float64{value}}
	if c.hasEpisode {
		env.Episode = &c.episode
	}
	return r.LogRLEnvironmentSteps(name, rlStep, []EnvValues{env}, opts...)
}

// LogRLEnvironmentSteps logs the next steps of several environments; where they
// have equally many values it is one record.
func (r *Run) LogRLEnvironmentSteps(name string, rlStep int64, envs []EnvValues, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if err := rule.Step("rl step", rlStep); err != nil {
		return err
	}
	m, _ := r.envCalls.Get().(*envCall)
	if m == nil {
		m = new(envCall)
	}
	defer r.envCalls.Put(m)
	if err := r.gather(m, name, envs, c); err != nil {
		return err
	}
	if drop, err := r.admit(len(m.bits)); drop || err != nil {
		return err
	}
	for i := range m.rows {
		r.advance(&m.rows[i])
	}
	r.noteRows(m.rows, rlStep)
	for rows := m.rows; len(rows) > 0; {
		part, rest := split(rows)
		values := m.bits
		if len(part) < len(m.rows) {
			values = nil
			for i := range part {
				values = append(values, part[i].bits...)
			}
		}
		if err := r.logRows(part, values, rlStep, r.timeNs(&c)); err != nil {
			return err
		}
		rows = rest
	}
	return nil
}

// envCall is the memory of a call, which a later one uses again.
type envCall struct {
	rows []envRow
	bits []uint64 // of all rows, one after the other
}

// gather makes the rows of a call, without environments that have no values.
func (r *Run) gather(m *envCall, name string, envs []EnvValues, c call) error {
	values := 0
	for i := range envs {
		values += len(envs[i].Values) + len(envs[i].Values32)
	}
	m.rows, m.bits = slices.Grow(m.rows[:0], len(envs)), slices.Grow(m.bits[:0], values)
	for i := range envs {
		row, err := r.envRow(m.bits, name, &envs[i], c)
		if err != nil {
			return err
		}
		if len(row.bits) > 0 {
			m.rows, m.bits = append(m.rows, row), m.bits[:len(m.bits)+len(row.bits)]
		}
	}
	return nil
}

// envRow is one environment of a call.
type envRow struct {
	series  *Series
	env     string
	episode int64
	bits    []uint64
	narrow  bool
	flags   uint8
	step    int64
}

// envRow makes a row; its bits lie behind those of the rows before.
func (r *Run) envRow(before []uint64, name string, env *EnvValues, c call) (envRow, error) {
	row := envRow{episode: series.NoEpisode}
	c.env = env.Env
	if env.Episode != nil {
		row.episode = *env.Episode
		if err := rule.Step("episode", row.episode); err != nil {
			return row, err
		}
	}
	s, err := r.envSeries(name, ScaleEnvironment, &c)
	if err != nil {
		return row, err
	}
	row.series, row.env = s, c.env
	bits := before[len(before):]
	if env.Values32 == nil {
		row.bits, err = appendBits(bits, s, env.Values)
		return row, err
	}
	if env.Values != nil {
		return row, invalidf("environment %q has both Values and Values32", c.env)
	}
	row.narrow = isNarrow[float32](s.spool.Kind)
	row.bits, err = appendBits(bits, s, env.Values32)
	return row, err
}

// advance takes the row's steps within its episode.
func (r *Run) advance(row *envRow) {
	s := row.series
	row.flags, row.step = stepFlags(s.env.Take(&s.steps, row.episode, int64(len(row.bits)), func(episode int64) (int64, bool) {
		return r.starts.OfEpisode(s.key.String(), episode)
	}))
}

// split takes the rows that fit one record with the first.
func split(rows []envRow) (part, rest []envRow) {
	first := &rows[0]
	differs := func(row envRow) bool {
		return len(row.bits) != len(first.bits) || row.narrow != first.narrow || row.flags != first.flags || row.series.spool.Kind != first.series.spool.Kind ||
			(row.episode == series.NoEpisode) != (first.episode == series.NoEpisode)
	}
	if !slices.ContainsFunc(rows, differs) {
		return rows, nil
	}
	for _, row := range rows {
		if differs(row) {
			rest = append(rest, row)
		} else {
			part = append(part, row)
		}
	}
	return part, rest
}

// logRows writes rows that fit one record; values are theirs.
func (r *Run) logRows(rows []envRow, values []uint64, rlStep, timeNs int64) error {
	first := &rows[0]
	all := make([]*Series, len(rows))
	steps, episodes := make([]int64, len(rows)), make([]int64, len(rows))
	block := &spool.Block{Kind: first.series.spool.Kind, Narrow: first.narrow, Rows: len(first.bits), Time: constant(timeNs), Values: values}
	for i := range rows {
		all[i], steps[i], episodes[i] = rows[i].series, rows[i].step, rows[i].episode
	}
	const linear = spool.ModeLinear | spool.ModePerSeries
	block.Axes = []spool.BlockAxis{stepAxis(first.flags, linear, steps...), axis(spool.AxisRLStep, 0, spool.ModeConstant, rlStep)}
	if first.episode != series.NoEpisode {
		block.Axes = append(block.Axes, axis(spool.AxisEpisode, 0, spool.ModeConstant|spool.ModePerSeries, episodes...))
	}
	block.Axes = append(block.Axes, axis(spool.AxisEnvStep, first.flags, linear, steps...))
	return r.block(all, block)
}

// envSeries finds the series of an environment; c.env becomes its name.
func (r *Run) envSeries(name, scale string, c *call) (*Series, error) {
	if c.env == "" && !c.hasEnv {
		c.env = defaultEnv
	}
	if len(c.labels) == 0 && !c.evaluation { // one that is known is found by its key's text alone
		if s := r.all.Find(name + "\x00" + scale + "\x00" + model.LabelEnv + "\x01" + c.env); s != nil {
			return s, s.claim(howOrdered)
		}
	}
	if err := rule.Env(c.env); err != nil {
		return nil, err
	}
	d := *c
	d.scale = scale
	d.labels = maps.Clone(c.allLabels())
	if d.labels == nil {
		d.labels = map[string]string{}
	}
	d.labels[model.LabelEnv] = c.env
	s, err := r.series(name, model.KindFloat, &d)
	if err != nil {
		return nil, err
	}
	return s, s.claim(howOrdered)
}

// envEnds are where environments stood when the run was opened.
func envEnds(opened *model.OpenResult) map[string]model.EnvEnd {
	envs := map[string]model.EnvEnd{}
	if opened != nil {
		for _, end := range opened.Envs {
			envs[end.Env] = end
		}
	}
	return envs
}

// noteRows remembers where environments stand.
func (r *Run) noteRows(rows []envRow, rlStep int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range rows {
		end := model.EnvEnd{Env: rows[i].env, LastRLStep: rlStep}
		if rows[i].episode != series.NoEpisode {
			episode := rows[i].episode
			end.LastEpisode = &episode
		}
		r.envs[rows[i].env] = end
	}
}

// LastRL is the last update and, when known, the last episode of an environment.
func (r *Run) LastRL(env string) (rlStep int64, episode *int64, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	end, ok := r.envs[env]
	return end.LastRLStep, end.LastEpisode, ok
}
