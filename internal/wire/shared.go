package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

// PutShared adds to an ack who else logs the writer's environments.
func PutShared(a *kymogramv1.Ack, shared []model.SharedWith, protocol uint32) error {
	if len(shared) == 0 {
		return nil
	}
	if protocol == Typed {
		a.TypedShared = each(shared, func(s model.SharedWith) *kymogramv1.SharedWith {
			return &kymogramv1.SharedWith{EnvId: s.Env, Writer: s.Writer[:], Host: s.Host, Pid: s.PID, Rank: s.Rank}
		})
		return nil
	}
	var err error
	if a.Shared, err = json.Marshal(shared); err != nil {
		return fmt.Errorf("encode shared environments: %w", err)
	}
	return nil
}

// ReadShared reads who else logs the writer's environments.
func ReadShared(a *kymogramv1.Ack) (shared []model.SharedWith, err error) {
	if len(a.Shared) > 0 {
		err = json.Unmarshal(a.Shared, &shared)
	}
	for _, m := range a.TypedShared {
		s := model.SharedWith{Env: m.GetEnvId(), Host: m.GetHost(), PID: m.GetPid(), Rank: m.Rank}
		err = errors.Join(err, takeID(&s.Writer, m.Writer))
		shared = append(shared, s)
	}
	return shared, err
}
