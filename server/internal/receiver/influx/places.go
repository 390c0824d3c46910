package influx

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// How many places an answer has, by default and at most (InfluxDB's numbers), and how many
// projects are looked at for one answer.
const (
	usualPlaces  = 20
	mostPlaces   = 100
	mostProjects = 100_000
)

// probed is the project that stands for any: a key for a whole workspace may write to it.
const probed = "default"

// stated are the headers by which clients know what they talk to.
func (r *Receiver) stated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Influxdb-Version", "2.0.0-kymogram-"+r.options.Version)
		w.Header().Set("X-Influxdb-Build", "OSS")
		h.ServeHTTP(w, q)
	})
}

func (r *Receiver) ping(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// health says whether points can be taken now.
func (r *Receiver) health(w http.ResponseWriter, _ *http.Request) {
	status, doc := http.StatusOK, map[string]any{
		"name": "kymogram", "status": "pass", "message": "ready for points", "version": r.options.Version, "checks": []any{},
	}
	if err := r.options.Ready(); err != nil {
		_, _, message := reply(err)
		status, doc["status"], doc["message"] = http.StatusServiceUnavailable, "fail", message
	}
	answer(w, status, doc)
}

func (r *Receiver) ready(w http.ResponseWriter, q *http.Request) {
	if err := r.options.Ready(); err != nil {
		r.fail(w, q, version2, err)
		return
	}
	up := r.options.Now().Sub(r.started).Round(time.Second)
	answer(w, http.StatusOK, map[string]string{"status": "ready", "started": r.started.UTC().Format(time.RFC3339), "up": up.String()})
}

// wanted selects workspaces and projects, as InfluxDB's clients ask for them.
type wanted struct {
	org, orgID, name, id string
	offset, limit        int
}

func parseWanted(q url.Values) (s wanted, err error) {
	s = wanted{org: q.Get("org"), orgID: q.Get("orgID"), name: q.Get("name"), id: q.Get("id"), limit: usualPlaces}
	for name, number := range map[string]*int{"offset": &s.offset, "limit": &s.limit} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		if *number, err = strconv.Atoi(text); err != nil || *number < 0 {
			return s, model.Errorf(model.CodeInvalid, "%s is %q", name, model.Clip(text)).WithHint("It is a whole number.")
		}
	}
	s.limit = min(s.limit, mostPlaces)
	return s, nil
}

func (s *wanted) takes(at ingest.Place) bool {
	return (s.org == "" || s.org == at.Workspace) && (s.orgID == "" || s.orgID == idOf(at.Workspace)) &&
		(s.name == "" || s.name == at.Project) && (s.id == "" || s.id == idOf(at.Workspace, at.Project))
}

// page is what a list shows of what was found.
func (s *wanted) page(found []map[string]any) []map[string]any {
	from := min(s.offset, len(found))
	return append([]map[string]any{}, found[from:min(from+s.limit, len(found))]...)
}

// buckets are the projects that the caller may write to. One that is asked for by its name
// need not be there yet: its first point makes it.
func (r *Receiver) buckets(w http.ResponseWriter, q *http.Request) {
	s, err := parseWanted(q.URL.Query())
	if err == nil {
		var places []ingest.Place
		if places, err = r.places(q.Context(), &s); err == nil {
			found := make([]map[string]any, len(places))
			for i, at := range places {
				found[i] = map[string]any{
					"id": idOf(at.Workspace, at.Project), "orgID": idOf(at.Workspace), "type": "user", "name": at.Project, "retentionRules": []any{},
				}
			}
			answer(w, http.StatusOK, map[string]any{"links": map[string]string{"self": "/api/v2/buckets"}, "buckets": s.page(found)})
			return
		}
	}
	r.fail(w, q, version2, err)
}

// orgs are the workspaces of these projects.
func (r *Receiver) orgs(w http.ResponseWriter, q *http.Request) {
	s, err := parseWanted(q.URL.Query())
	if err == nil {
		var places []ingest.Place
		if places, err = r.places(q.Context(), &s); err == nil {
			found, seen := []map[string]any{}, map[string]bool{}
			for _, at := range places {
				if !seen[at.Workspace] {
					found = append(found, map[string]any{"id": idOf(at.Workspace), "name": at.Workspace})
				}
				seen[at.Workspace] = true
			}
			answer(w, http.StatusOK, map[string]any{"links": map[string]string{"self": "/api/v2/orgs"}, "orgs": s.page(found)})
			return
		}
	}
	r.fail(w, q, version2, err)
}

// places are the projects that a caller may write to, and that it asks for.
func (r *Receiver) places(ctx context.Context, s *wanted) (out []ingest.Place, err error) {
	seen, cursor := 0, ""
	for next := true; next && seen < mostProjects; next = cursor != "" {
		var page []ingest.Place
		if page, cursor, err = r.options.Projects(ctx, cursor); err != nil {
			return nil, err
		}
		seen += len(page)
		for _, at := range page {
			if s.takes(at) && r.ingest.Allow(ctx, at.Workspace, at.Project) == nil {
				out = append(out, at)
			}
		}
	}
	if asked := s.byName(r.workspace); len(out) == 0 && asked.Project != "" && s.takes(asked) && r.ingest.Allow(ctx, asked.Workspace, asked.Project) == nil {
		out = append(out, asked)
	}
	return out, nil
}

// byName is the place that names alone tell of, "" where they do not.
func (s *wanted) byName(workspace string) (at ingest.Place) {
	at = ingest.Place{Workspace: s.org, Project: s.name}
	switch {
	case at.Workspace == "":
		at.Workspace = workspace
	case at.Project == "" && s.id == "":
		at.Project = probed
	}
	return at
}

// idOf makes the 16 digits that InfluxDB names things by.
func idOf(names ...string) string {
	sum := fnv.New64a()
	for _, name := range names {
		fmt.Fprintf(sum, "%d %s ", len(name), name)
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // the client is gone when this fails
}
