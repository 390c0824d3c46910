package series

import "sync"

const (
	// NoEpisode stands for an episode that is not known.
	NoEpisode = -1
	// maxPast bounds the episodes of an environment that may be taken up again.
	maxPast = 16
)

// Episodes counts the steps of one environment's series: each episode counts from
// its own start.
type Episodes struct {
	mu      sync.Mutex
	episode int64
	past    map[int64]int64 // the next steps of episodes that were left
}

// NewEpisodes returns a count that is in no episode.
func NewEpisodes() *Episodes { return &Episodes{episode: NoEpisode, past: map[int64]int64{}} }

// Take enters an episode and takes n of its steps, as [Steps.Take] does. Of an
// episode that is new start says where it begins.
func (e *Episodes) Take(s *Steps, episode, n int64, start func(episode int64) (next int64, known bool)) (step int64, relative bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.enter(s, episode, start)
	return s.Take(n)
}

func (e *Episodes) enter(s *Steps, episode int64, start func(int64) (int64, bool)) {
	if episode == e.episode {
		return
	}
	if len(e.past) >= maxPast {
		clear(e.past)
	}
	e.past[e.episode] = s.next.Load()
	e.episode = episode
	if next, ok := e.past[episode]; ok {
		s.next.Store(next)
		return
	}
	s.Begin(start(episode))
}
