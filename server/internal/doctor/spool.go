package doctor

import (
	"fmt"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/delivery"
	"github.com/kymogram/kymogram/server/internal/table"
)

func (d *Diagnosis) checkSpool(q Question) *spool.Folder {
	folder, err := delivery.Open(q.Env, q.Spool)
	if err != nil {
		d.add("spool", "", err)
		return nil
	}
	detail := fmt.Sprintf("%s on %s (%s); survives %s", folder.Path, folder.FS.Name, folder.FS.Kind, folder.FS.Survives())
	if len(folder.Passed) > 0 {
		detail += "; not used: " + strings.Join(folder.Passed, "; ")
	}
	d.add("spool", detail, nil)
	detail, err = space(folder)
	d.add("space", detail, err)
	waiting, err := delivery.LeftIn(folder)
	d.add("waiting", fmt.Sprintf("%s of %d runs are not delivered yet", waiting, waiting.Writers), err)
	d.add("envs", "no program that logs here shares an environment with another", sharedIn(folder))
	d.checkHolder(folder, waiting)
	return folder
}

// leastCap is what a first segment and its successor need.
const leastCap = 2 << 20

func space(folder *spool.Folder) (string, error) {
	used, err := folder.Used()
	if err != nil {
		return "", err
	}
	limit, err := folder.Cap()
	if err == nil && limit < leastCap {
		err = model.Errorf(model.CodeDiskFull, "the spool may use %d bytes, a tenth of the free space", limit).
			WithHint("free disk space, or set KYMOGRAM_SPOOL_DIR to a folder on another disk")
	}
	return fmt.Sprintf("%d MiB of at most %d MiB used", used>>20, limit>>20), err
}

// sharedIn tells of a writer in the spool whose environment another one logs too.
func sharedIn(folder *spool.Folder) error {
	writers, err := folder.Writers()
	if err != nil {
		return err
	}
	for _, id := range writers {
		dir := folder.WriterPath(id)
		shared, err := spool.ReadShared(dir)
		if err != nil || len(shared) == 0 {
			continue // delivered meanwhile, or alone
		}
		open, err := spool.ReadOpen(dir)
		if err != nil {
			continue
		}
		s, run := shared[0], open.Open
		return model.Errorf(model.CodeConflict, "process %d of run %s logs the environment %q, and so does process %d on %s%s (%d such environments)",
			run.PID, run.RunName, s.Env, s.PID, s.Host, table.Rank(s.Rank), len(shared)).
			WithHint("let each process log environments of its own: their steps mix now")
	}
	return nil
}

func (d *Diagnosis) checkHolder(folder *spool.Folder, waiting delivery.Left) {
	holder, held, err := folder.Held()
	detail := "nobody delivers the spool now; programs start an agent when they log"
	switch {
	case held:
		detail = fmt.Sprintf("process %d (%s, version %s, protocol %d) delivers the spool", holder.PID, holder.Kind, holder.Version, holder.Protocol)
	case err == nil && waiting.Writers > 0:
		err = model.Errorf(model.CodeUnavailable, "%s of %d runs wait, and nobody delivers them", waiting, waiting.Writers).
			WithHint("`kymogram sync` delivers them now, `kymogram agent` from now on; the next program that logs here starts an agent, too")
	}
	d.add("agent", detail, err)
}
