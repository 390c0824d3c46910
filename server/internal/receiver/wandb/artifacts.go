package wandb

import (
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

func (r *Receiver) artifactQueries() graph.Object                { return nil }
func (r *Receiver) artifactMutations() graph.Object              { return nil }
func (r *Receiver) artifactProject(graph.Object, place)          {}
func (r *Receiver) artifactRun(graph.Object, model.RunID, place) {}
func artifactType(name string) []string                          { return nil }
