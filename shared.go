package kymogram

import (
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// tellShared reports who else logs environments of this process, each other
// process once: their steps mix.
func (r *Run) tellShared(page *spool.Page) {
	if page.Shared <= r.sharedTold.Swap(page.Shared) {
		return
	}
	all, err := spool.ReadShared(r.folder.WriterPath(r.w.ID))
	if err != nil || len(all) == 0 { // the folder is delivered and gone
		r.errors.report(fmt.Errorf("%d environments of this process are logged by another one too: %s", page.Shared, ownEnvironments))
		r.sharedEnvs.Store(max(r.sharedEnvs.Load(), page.Shared))
		return
	}
	envs, by := map[string]bool{}, map[model.WriterID][]model.SharedWith{}
	for _, s := range all {
		envs[s.Env] = true
		by[s.Writer] = append(by[s.Writer], s)
	}
	r.sharedEnvs.Store(uint64(len(envs)))
	for _, s := range all {
		if known := r.sharers[s.Writer]; !known {
			r.sharers[s.Writer] = true
			r.errors.report(sharedError(by[s.Writer]))
		}
	}
}

const ownEnvironments = "their steps mix; let each process log environments of its own"

// sharedError names the environments that one other process logs.
func sharedError(with []model.SharedWith) error {
	s, more, rank := with[0], "", ""
	if len(with) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(with)-1)
	}
	if s.Rank != nil {
		rank = fmt.Sprintf(" (rank %d)", *s.Rank)
	}
	return fmt.Errorf("the environment %q%s is also logged by process %d on %s%s: %s", s.Env, more, s.PID, s.Host, rank, ownEnvironments)
}
