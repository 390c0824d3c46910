package curve

import (
	"context"
	"slices"
	"sort"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Ends is where the curves of a run go on: the next steps of at most limit
// series, and where each environment stands.
func Ends(ctx context.Context, views []*View, limit int) ([]model.Start, []model.EnvEnd, error) {
	var starts []model.Start
	envs := map[string]*model.EnvEnd{}
	for _, v := range views {
		if err := ctx.Err(); err != nil {
			return nil, nil, model.Errorf(model.CodeTimeout, "the read was stopped: %v", err)
		}
		v.environment(envs)
		if len(starts) < limit {
			starts = append(starts, v.startOf())
		}
	}
	return starts, sortedEnvs(envs), nil
}

func (v *View) startOf() model.Start {
	key := v.Series.Key()
	out := model.Start{Metric: key.Metric, Scale: key.Scale, Labels: key.LabelMap()}
	end := v.End()
	if key.Scale == model.ScaleEnvironment && end.mask.Has(column.Episode) {
		episode := end.hi[column.Episode]
		out.Episode = &episode
		out.Next = v.NextStep(record.StartKey{Episode: episode, Episodic: true})
		return out
	}
	out.Next = v.NextStep(record.StartKey{})
	return out
}

// environment widens what is known of the environment that a series is of.
func (v *View) environment(envs map[string]*model.EnvEnd) {
	end := v.End()
	labels := v.Series.Key().Labels
	at := slices.IndexFunc(labels, func(l model.Label) bool { return l.Name == model.LabelEnv })
	if at < 0 || !end.mask.Has(column.RLStep) {
		return
	}
	name := labels[at].Value
	env := envs[name]
	if env == nil {
		env = &model.EnvEnd{Env: name, LastRLStep: end.hi[column.RLStep]}
		envs[name] = env
	}
	env.LastRLStep = max(env.LastRLStep, end.hi[column.RLStep])
	if end.mask.Has(column.Episode) && (env.LastEpisode == nil || *env.LastEpisode < end.hi[column.Episode]) {
		episode := end.hi[column.Episode]
		env.LastEpisode = &episode
	}
}

func sortedEnvs(envs map[string]*model.EnvEnd) []model.EnvEnd {
	var out []model.EnvEnd
	for _, env := range envs {
		out = append(out, *env)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Env < out[j].Env })
	return out
}
