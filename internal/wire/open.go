package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

var errNoRequest = errors.New("it has no request")

// unreadable stands for the kind of an update that cannot be read.
const unreadable model.UpdateOp = "unreadable"

// Open makes the first message of a stream.
func Open(r *model.OpenRequest, protocol uint32) (*kymogramv1.Open, error) {
	if protocol == Typed {
		return &kymogramv1.Open{Protocol: protocol, TypedRequest: openRequest(r)}, nil
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode open: %w", err)
	}
	return &kymogramv1.Open{Protocol: protocol, Request: doc}, nil
}

func openRequest(r *model.OpenRequest) *kymogramv1.OpenRequest {
	out := &kymogramv1.OpenRequest{
		Writer: r.Writer[:], Workspace: r.Workspace, Project: r.Project, RunName: r.RunName, LocalRun: r.LocalRun[:],
		DisplayName: r.DisplayName, Experiment: r.Experiment, OrchestrationId: r.OrchestrationID, ResumeStrategy: string(r.ResumeStrategy),
		RestartCount: r.RestartCount, ResumeFromStep: r.ResumeFromStep, ForkFromRun: r.ForkFromRun, ForkAtStep: r.ForkAtStep, LoggerId: r.LoggerID,
		Host: r.Host, Pid: r.PID, Rank: r.Rank, Hotkey: r.Hotkey, OpenedNs: r.OpenedNs, Offline: r.Offline, Sdk: r.SDK, WithStarts: r.WithStarts,
		Ended:   each(r.Ended, func(id model.WriterID) []byte { return id[:] }),
		Initial: each(r.Initial, update),
		StartsOf: each(r.StartsOf, func(n model.SeriesName) *kymogramv1.SeriesName {
			return &kymogramv1.SeriesName{Metric: n.Metric, Scale: n.Scale, Labels: n.Labels}
		}),
	}
	if r.ParentAttempt != nil {
		out.ParentAttempt = r.ParentAttempt[:]
	}
	return out
}

// ReadOpen reads the first message of a stream.
func ReadOpen(m *kymogramv1.Open) (model.OpenRequest, error) {
	if m.Protocol < Typed {
		return readOpenDocument(m.Request)
	}
	if m.TypedRequest == nil {
		return model.OpenRequest{}, errNoRequest
	}
	return readOpenRequest(m.TypedRequest)
}

// readOpenDocument reads the form of protocol 1.
func readOpenDocument(text []byte) (model.OpenRequest, error) {
	var doc struct {
		model.OpenRequest
		Initial []json.RawMessage `json:"initial"`
	}
	err := json.Unmarshal(text, &doc)
	r := doc.OpenRequest
	r.Initial = each(doc.Initial, func(one json.RawMessage) (u model.Update) {
		if json.Unmarshal(one, &u) != nil { // as in the typed form
			u = model.Update{Op: unreadable}
		}
		return u
	})
	return r, err
}

func readOpenRequest(m *kymogramv1.OpenRequest) (model.OpenRequest, error) {
	r := model.OpenRequest{
		Workspace: m.Workspace, Project: m.Project, RunName: m.RunName,
		DisplayName: m.DisplayName, Experiment: m.Experiment, OrchestrationID: m.OrchestrationId, ResumeStrategy: model.ResumeStrategy(m.ResumeStrategy),
		RestartCount: m.RestartCount, ResumeFromStep: m.ResumeFromStep, ForkFromRun: m.ForkFromRun, ForkAtStep: m.ForkAtStep, LoggerID: m.LoggerId,
		Host: m.Host, PID: m.Pid, Rank: m.Rank, Hotkey: m.Hotkey, OpenedNs: m.OpenedNs, Offline: m.Offline, SDK: m.Sdk, WithStarts: m.WithStarts,
		StartsOf: each(m.StartsOf, func(n *kymogramv1.SeriesName) model.SeriesName {
			return model.SeriesName{Metric: n.GetMetric(), Scale: n.GetScale(), Labels: n.GetLabels()}
		}),
	}
	var first error // of how many there may be: a stranger decides that
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	keep(takeID(&r.Writer, m.Writer))
	keep(takeID(&r.LocalRun, m.LocalRun))
	if len(m.ParentAttempt) > 0 {
		r.ParentAttempt = new(model.WriterID)
		keep(takeID(r.ParentAttempt, m.ParentAttempt))
	}
	r.Ended = each(m.Ended, func(from []byte) (id model.WriterID) {
		keep(takeID(&id, from))
		return id
	})
	r.Initial = each(m.Initial, func(one *kymogramv1.Update) model.Update {
		u, err := readUpdate(one)
		if err != nil { // of a newer version: ingest refuses it as unknown, not the open
			u = model.Update{Op: unreadable}
		}
		return u
	})
	return r, first
}

// Opened makes the answer to an open.
func Opened(r *model.OpenResult, protocol uint32) (*kymogramv1.Opened, error) {
	if protocol == Typed {
		return &kymogramv1.Opened{Mark: r.Mark, TypedResult: openResult(r)}, nil
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the answer to an open: %w", err)
	}
	return &kymogramv1.Opened{Mark: r.Mark, Result: doc}, nil
}

func openResult(r *model.OpenResult) *kymogramv1.OpenResult {
	return &kymogramv1.OpenResult{
		Run: r.Run[:], Workspace: r.Workspace, Project: r.Project, RunName: r.RunName, Attempt: r.Attempt, Created: r.Created, CreatedNs: r.CreatedNs,
		OrchestrationId: r.OrchestrationID, LinkedFrom: r.LinkedFrom, ParentMissing: r.ParentMissing, StartsComplete: r.StartsComplete,
		Starts: each(r.Starts, func(s model.Start) *kymogramv1.Start {
			return &kymogramv1.Start{Metric: s.Metric, Scale: s.Scale, Labels: s.Labels, Episode: s.Episode, Next: s.Next}
		}),
		Envs: each(r.Envs, func(e model.EnvEnd) *kymogramv1.EnvEnd {
			return &kymogramv1.EnvEnd{Env: e.Env, LastRlStep: e.LastRLStep, LastEpisode: e.LastEpisode}
		}),
	}
}

// ReadOpened reads the answer to an open.
func ReadOpened(m *kymogramv1.Opened) (model.OpenResult, error) {
	if m.TypedResult != nil {
		return readOpenResult(m.TypedResult, m.Mark)
	}
	var r model.OpenResult
	return r, json.Unmarshal(m.Result, &r)
}

func readOpenResult(m *kymogramv1.OpenResult, mark uint64) (model.OpenResult, error) {
	r := model.OpenResult{
		Workspace: m.Workspace, Project: m.Project, RunName: m.RunName, Attempt: m.Attempt, Created: m.Created, CreatedNs: m.CreatedNs,
		OrchestrationID: m.OrchestrationId, LinkedFrom: m.LinkedFrom, ParentMissing: m.ParentMissing, StartsComplete: m.StartsComplete, Mark: mark,
		Starts: each(m.Starts, func(s *kymogramv1.Start) model.Start {
			return model.Start{Metric: s.GetMetric(), Scale: s.GetScale(), Labels: s.GetLabels(), Episode: s.Episode, Next: s.GetNext()}
		}),
		Envs: each(m.Envs, func(e *kymogramv1.EnvEnd) model.EnvEnd {
			return model.EnvEnd{Env: e.GetEnv(), LastRLStep: e.GetLastRlStep(), LastEpisode: e.LastEpisode}
		}),
	}
	return r, takeID(&r.Run, m.Run)
}
