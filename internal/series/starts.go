package series

import (
	"github.com/kymogram/kymogram/internal/model"
)

// Starts are the next steps that Init learned from the server. They never change.
type Starts struct {
	complete bool
	next     map[string]int64
	episodes map[string]map[int64]int64 // by series, then episode
	last     map[string]int64           // the highest episode of a series
}

// NewStarts reads the server's answer; nil where there was none.
func NewStarts(result *model.OpenResult) *Starts {
	s := &Starts{next: map[string]int64{}, episodes: map[string]map[int64]int64{}, last: map[string]int64{}}
	if result == nil {
		return s
	}
	s.complete = result.StartsComplete
	for _, start := range result.Starts {
		key := model.NewSeriesKey(start.Metric, start.Scale, start.Labels).String()
		if start.Episode == nil {
			s.next[key] = start.Next
			continue
		}
		if s.episodes[key] == nil {
			s.episodes[key], s.last[key] = map[int64]int64{}, *start.Episode
		}
		s.episodes[key][*start.Episode] = start.Next
		s.last[key] = max(s.last[key], *start.Episode)
	}
	return s
}

// Of is the next step of a series; known is false where only the server can say.
func (s *Starts) Of(key string) (next int64, known bool) {
	if next, ok := s.next[key]; ok {
		return next, true
	}
	return 0, s.complete
}

// OfEpisode is the next step of a series within an episode.
func (s *Starts) OfEpisode(key string, episode int64) (next int64, known bool) {
	if next, ok := s.episodes[key][episode]; ok {
		return next, true
	}
	last, seen := s.last[key]
	return 0, s.complete && (!seen || episode > last)
}
