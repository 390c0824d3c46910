package wandb

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// treeAbout is what W&B's clients say of a run beside config and summary.
const treeAbout = "wandb/run"

// defaultProject is W&B's for runs that name none.
const defaultProject = "uncategorized"

// about is what a run is told of itself by its clients.
type about struct {
	Group   string `json:"group,omitempty"`
	JobType string `json:"jobType,omitempty"`
	Sweep   string `json:"sweepName,omitempty"`
	Program string `json:"program,omitempty"`
	Host    string `json:"host,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Repo    string `json:"repo,omitempty"`
	User    string `json:"user,omitempty"`
	// Imported is nil for a run that was logged here.
	Imported *imported `json:"imported,omitempty"`
}

func readAbout(text string) (a about) {
	_ = json.Unmarshal([]byte(text), &a) // we wrote it; of another's there is nothing to say
	return a
}

// upsert is one upsertBucket.
type upsert struct {
	*Receiver
	in    graph.Args
	at    place
	id    model.RunID
	fresh bool // it made the run
	alone bool // it is of a process that begins, while no other runs
}

// upsertBucket makes a run or changes one. What its input lacks stays as it is. The SDK
// sends it when a process begins and for each change after that; so does the public API,
// with an id alone.
func (r *Receiver) upsertBucket(ctx context.Context, args graph.Args) (graph.Field, error) {
	u := &upsert{Receiver: r, in: args.Inner("input")}
	if err := u.find(ctx); err != nil {
		return nil, err
	}
	// The answer is read: a key that may not would leave a run behind that it cannot use.
	if err := r.query.Allow(ctx, u.at.entity, u.at.project); err != nil {
		return nil, err
	}
	var release func()
	var v *life
	if u.id.IsZero() {
		id, err := u.create(ctx)
		if err != nil {
			return nil, err
		}
		u.id, u.fresh = id, true
	}
	v, release = r.lives.acquire(u.id, u.at)
	defer release()
	if err := u.process(ctx, v); err != nil {
		v.close() // it is read anew
		return nil, err
	}
	updates, err := u.updates(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := r.ingest.UpdateRun(ctx, u.id, updates); err != nil {
		v.plain = nil // see setSummary
		return nil, err
	}
	if u.imports() {
		if err := u.ends(ctx, v); err != nil {
			v.close() // it is read anew
			return nil, err
		}
	}
	bucket, err := r.runObject(ctx, u.id)
	if err != nil {
		return nil, err
	}
	return graph.Object{"bucket": bucket, "inserted": u.fresh}, nil
}

// find looks the run up, by its id or by its place.
func (u *upsert) find(ctx context.Context) error {
	u.at = place{u.in.Text("entityName"), u.in.Text("modelName"), u.in.Text("name")}
	if id := u.in.Text("id"); id != "" && u.at.run == "" {
		run, err := readNode(id)
		if err != nil {
			return err
		}
		found, err := u.ingest.Writable(ctx, run)
		if err != nil {
			return err
		}
		u.id, u.at = found.ID, place{found.Workspace, found.Project, found.Name}
		return nil
	}
	if u.at.entity == "" {
		u.at.entity = entityOf(ctx)
	}
	if u.at.project == "" {
		u.at.project = defaultProject
	}
	if u.at.run == "" {
		u.at.run = strings.ToLower(rand.Text()[:8])
	}
	id, err := u.ingest.FindRun(ctx, u.at.entity, u.at.project, u.at.run)
	if model.CodeOf(err) == model.CodeNotFound {
		return checkID(u.at.run)
	}
	u.id = id
	return err
}

// checkID says what is wrong with the id of a new run. Newer clients refuse the same;
// older ones put it into paths as it is, and wait for days when there is no such path.
func checkID(id string) error {
	if i := strings.IndexAny(id, `/\#?%:;,'`); i >= 0 {
		return model.Errorf(model.CodeInvalid, "the run id %q has a %q", model.Clip(id), id[i]).WithHint("An id has none of / \\ # ? %% : ; , '")
	}
	return model.CheckRunName(id)
}

// create makes the run, by the process that begins it.
func (u *upsert) create(ctx context.Context) (model.RunID, error) {
	request := (&life{at: u.at}).request(newWriter(), processSDK+u.version(), u.host())
	if u.imports() { // its rows come whole, those of a parent too
		u.origin(&request)
	} else if parent, step, ok := u.branch(); ok && parent != u.at.run {
		request.ForkFromRun, request.ForkAtStep = parent, &step
	}
	session, err := u.ingest.Join(ctx, request)
	if err != nil {
		return model.RunID{}, err
	}
	defer session.Close() // the life of the run takes the writer over
	return session.Opened.Run, nil
}

// process notes that a process begins. One that runs sends the same fields when it changes
// its name or tags; the clients tell the two apart by what they say of themselves: an init
// lacks the telemetry of the time after it ("2" of _wandb.t, up to 0.19) and the environment
// (_wandb.e, later). A change of 0.31 within its first seconds lacks that too, and has an id,
// as a resume has.
func (u *upsert) process(ctx context.Context, v *life) error {
	if err := u.load(ctx, v); err != nil {
		return err
	}
	if u.fresh {
		u.alone = true
		for _, p := range v.processes {
			p.client = clientOfContext(ctx)
		}
		return nil
	}
	if !u.in.Has("host") && !u.in.Has("jobProgram") || u.imports() {
		return nil
	}
	own := []byte(u.in.Text("config"))
	if _, later := loose.Get(own, ownKey, "value", "t", "2"); later {
		return nil
	}
	if environment, _ := loose.Get(own, ownKey, "value", "e"); len(environment) > len("{}") {
		return nil
	}
	resumes := u.options.Now().Sub(v.resumed) < processSilence
	if u.in.Has("id") && !resumes {
		return nil
	}
	v.resumed = time.Time{}
	var err error
	u.alone, err = u.begin(ctx, v, beginner{sdk: u.version(), host: u.host(), client: clientOfContext(ctx), resumes: resumes})
	return err
}

func (u *upsert) host() string { return cleaned(u.in.Text("host")) }

// version is the SDK's, of the config that it sends.
func (u *upsert) version() string {
	v, _ := loose.Get([]byte(u.in.Text("config")), ownKey, "value", "cli_version")
	text, _ := loose.Text(v)
	return cleaned(text)
}

// branch is the run and the step that a fork goes on from.
func (u *upsert) branch() (run string, step int64, ok bool) {
	point, ok := loose.Get([]byte(u.in.Text("config")), ownKey, "value", "branch_point")
	if !ok {
		return "", 0, false
	}
	name, _ := loose.Get(point, "run_id")
	at, _ := loose.Get(point, "step")
	run, _ = loose.Text(name)
	f, exact := loose.Float(at)
	return run, int64(f), run != "" && exact && f >= 0 && f < 1<<62
}

// cleaned is a text that may stand in the catalog.
func cleaned(s string) string {
	if len(s) > 256 || !model.IsClean(s) {
		return ""
	}
	return s
}

// updates are what the input changes.
func (u *upsert) updates(ctx context.Context, v *life) (updates []model.Update, err error) {
	if u.in.Has("displayName") {
		updates = append(updates, model.Update{Op: model.OpSetDisplayName, Text: u.in.Text("displayName")})
	}
	if u.in.Has("notes") { // which the public API sends with the description of before
		updates = append(updates, model.Update{Op: model.OpSetDescription, Text: u.in.Text("notes")})
	} else if u.in.Has("description") {
		updates = append(updates, model.Update{Op: model.OpSetDescription, Text: u.in.Text("description")})
	}
	if u.in.Has("tags") {
		updates = append(updates, model.Update{Op: model.OpSetTags, Tags: u.in.Texts("tags")})
	}
	trees, err := u.query.Trees(ctx, u.id, treeConfig, treeAbout)
	if err != nil {
		return nil, err
	}
	changes, err := u.about(ctx, trees[treeAbout])
	if err != nil {
		return nil, err
	}
	updates = append(updates, changes...)
	if u.in.Has("config") {
		text := u.in.Text("config")
		if before := trees[treeConfig]; before != "" && !u.alone && u.in.Has("modelName") {
			text = merged(before, text)
		}
		if changes, err = u.setConfig(trees[treeConfig], text); err != nil {
			return nil, err
		}
		updates = append(updates, changes...)
	}
	if u.in.Has("summaryMetrics") {
		if changes, err = u.setSummary(ctx, v, false, u.in.Text("summaryMetrics"), nil); err != nil {
			return nil, err
		}
		updates = append(updates, changes...)
	}
	return updates, nil
}

// about are the updates of what the run is told of itself: the tree, and attributes.
func (u *upsert) about(ctx context.Context, before string) ([]model.Update, error) {
	a := readAbout(before)
	if u.fresh {
		if p := auth.PrincipalOf(ctx); p != nil {
			a.User = p.Name
		}
	}
	var updates []model.Update
	if in := u.in.Inner("imported"); u.imports() {
		a.User, a.Imported = in.Text("user"), &imported{in.Text("key"), in.Text("digest")}
		updates = u.originAttributes()
	}
	for _, f := range []struct {
		name, path string
		to         *string
	}{
		{"groupName", "wandb/group", &a.Group},
		{"jobType", "wandb/job_type", &a.JobType},
		{"sweep", "wandb/sweep", &a.Sweep},
		{"jobProgram", "wandb/program", &a.Program},
		{"host", "host", &a.Host},
		{"commit", "git/commit", &a.Commit},
		{"jobRepo", "git/remote", &a.Repo},
	} {
		if !u.in.Has(f.name) || u.in.Text(f.name) == *f.to {
			continue
		}
		*f.to = u.in.Text(f.name)
		update := model.Update{Op: model.OpSetAttribute, Path: f.path}
		if *f.to != "" {
			update.Value = model.StringValue(*f.to)
		}
		updates = append(updates, update)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	if string(text) != before {
		updates = append(updates, model.Update{Op: model.OpSetTree, Path: treeAbout, Text: string(text)})
	}
	return updates, nil
}

// merged is a config of a process that runs, with what others that log into the run set. The
// SDK takes no key out of a config, so a key that is missing is another's; so is a missing
// environment in _wandb.e. A text that lacks nothing stays as it came.
func merged(before, text string) string {
	out := union([]byte(before), []byte(text))
	own, _ := loose.Get(out, ownKey, "value")
	theirs, _ := loose.Get([]byte(before), ownKey, "value", "e")
	ours, has := loose.Get(own, "e")
	if theirs == nil || loose.KindOf(own) != loose.Object || has && loose.KindOf(ours) != loose.Object {
		return string(out)
	}
	if !has {
		ours = []byte("{}")
	}
	all := union(theirs, ours)
	if has && bytes.Equal(all, ours) {
		return string(out)
	}
	value := set(own, "e", all)
	entry, _ := loose.Get(out, ownKey)
	return string(set(out, ownKey, set(entry, "value", value)))
}

// union is an object with the members of another that it lacks, behind its own.
func union(before, text []byte) []byte {
	missing := map[string]bool{}
	for m, err := range loose.Members(before) {
		if err != nil {
			return text
		}
		missing[string(m.Key)] = true
	}
	out := []byte{'{'}
	for m, err := range loose.Members(text) {
		if err != nil {
			return text
		}
		delete(missing, string(m.Key))
		out = append(member(out, string(m.Key)), m.Value...)
	}
	if len(missing) == 0 {
		return text
	}
	for m, err := range loose.Members(before) {
		if err != nil || !missing[string(m.Key)] {
			continue
		}
		delete(missing, string(m.Key))
		value, _ := loose.Get(before, string(m.Key)) // the last of that key
		out = append(member(out, string(m.Key)), value...)
	}
	return append(out, '}')
}

// set is an object with a member replaced, or added.
func set(object []byte, key string, value []byte) []byte {
	out := []byte{'{'}
	done := false
	for m, err := range loose.Members(object) {
		if err != nil {
			return object
		}
		v := m.Value
		if string(m.Key) == key {
			v, done = value, true
		}
		out = append(member(out, string(m.Key)), v...)
	}
	if !done {
		out = append(member(out, key), value...)
	}
	return append(out, '}')
}

// member begins a member of an object that grows.
func member(out []byte, key string) []byte {
	if len(out) > 1 {
		out = append(out, ',')
	}
	return append(loose.AppendText(out, key), ':')
}

// rewindRun goes back to a step of a run: what comes next hides what was behind it.
func (r *Receiver) rewindRun(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	at := place{in.Text("entityName"), in.Text("projectName"), in.Text("runName")}
	if at.entity == "" {
		at.entity = entityOf(ctx)
	}
	if metric := in.Text("metricName"); metric != "" && metric != "_step" {
		return nil, model.Errorf(model.CodeInvalid, "a run goes back to a _step, not to a value of %q", model.Clip(metric))
	}
	step, err := in.Int("metricValue", -1)
	if err != nil || step < 0 || step >= 1<<62 {
		return nil, model.Errorf(model.CodeInvalid, "a run goes back to a step from 0 to 2^62 - 1")
	}
	id, err := r.ingest.FindRun(ctx, at.entity, at.project, at.run)
	if err != nil {
		return nil, err
	}
	v, release := r.lives.acquire(id, at)
	defer release()
	if err := r.rewind(ctx, v, step); err != nil {
		return nil, err
	}
	v.resumed = r.options.Now()
	run, err := r.runObject(ctx, id)
	return graph.Object{"rewoundRun": run}, err
}

// clientKey is the key of a context's client.
type clientKey struct{}

func clientOfContext(ctx context.Context) string {
	id, _ := ctx.Value(clientKey{}).(string)
	return id
}

// entityOf is the entity of a caller that names none.
func entityOf(ctx context.Context) string {
	if p := auth.PrincipalOf(ctx); p != nil && p.Workspace != "" {
		return p.Workspace
	}
	return "default"
}

func newWriter() (id model.WriterID) {
	_, _ = rand.Read(id[:]) // never fails, see crypto/rand
	return id
}

// stamp is a time as W&B writes it.
func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05Z") }
