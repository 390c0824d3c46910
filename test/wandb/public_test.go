//go:build e2e

package wandb

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPublicAPI(t *testing.T) {
	t.Parallel()
	quick(t, pinned, func(t *testing.T, r *room) {
		said := r.run("public.py")
		// Runs come oldest first since 0.17.
		first := "run0"
		if r.version < "0.17" {
			first = "run4"
		}
		for name, want := range map[string]string{
			"entity":                    `[false,true]`,
			"projects":                  `true`,
			"project":                   `[true,true]`,
			"all":                       `[5,true,["run0","run1","run2","run3","run4"],"` + first + `"]`,
			"pages":                     `["run0","run1","run2","run3","run4"]`,
			"oldest first":              `["run0","run1","run2","run3","run4"]`,
			"newest first":              `["run4","run3","run2","run1","run0"]`,
			"by summary":                `[["run0","run1","run2","run3","run4"],["run4","run3","run2","run1","run0"]]`,
			"by config":                 `[["run0","run1","run2","run3","run4"],["run4","run3","run2","run1","run0"],["run4","run3","run2","run1","run0"]]`,
			"count of a filter":         `2`,
			"run":                       `["run0","name 0","finished",0,99,true]`,
			"no run":                    `CommError: …`,
			"no project":                `0`,
			"history":                   `[true,true,0,1,101]`,
			"history of keys":           `[100,99,true,true]`,
			"history over another axis": `[100,{"acc":0,"loss":1},99]`,
			"history of nan":            `1`,
			"system":                    `true`,
			"scan":                      `[101,true,0.125,"NaN"]`,
			"scan in pages":             `true`,
			"scan of keys":              `[100,99,50,99]`,
			"scan of a range":           `[3,4,5,6,7,8]`,
			"keys":                      `["acc","loss","nan","odd"]`,
			"update":                    `[5,0.1,["all","more","tag1"],"new name","new notes"]`,
			"update the summary":        `[1.5,1,9]`,
			"sort by what was updated":  `"run1"`,
			"wait":                      `null`,
			"nothing":                   `[[],[],[],[]]`,
			"create":                    `["by-api",1]`,
			"delete":                    `[3,["run0","run1","run4"]]`,
			"attributes":                `["name 1",{"lr":0.1,"list":[1],"maybe":null,"nest":{"a":1}},["all","tag1"],"finished","some notes",9,5,true,true]`,
		} {
			r.is(said, name, want)
		}
		if have := fmt.Sprint(said["bad filter"]); !strings.Contains(have, "$strange") {
			r.Errorf("a bad filter: %s", have)
		}
		filters, ok := said["filters"].(map[string]any)
		if !ok {
			r.Fatalf("filters: %v", said["filters"])
		}
		for name, want := range map[string]string{
			"equal": "run1", "value": "run1", "nested": "run2", "greater": "run3 run4", "between": "run1 run2", "or": "run1 run4",
			"not": "run0 run2 run3 run4", "in": "run1 run2", "not in": "run0 run3 run4", "regex": "run1 run2",
			"regex of null": "run1 run3", "regex of list": "run0 run1 run2 run3 run4", "exists": "", "absent": "run0 run1 run2 run3 run4",
			"state": "run4", "tag": "run3", "tags": "run1 run2", "summary": "run3 run4", "group": "5", "job": "5", "name": "run3", "none": "",
		} {
			have := strings.Trim(fmt.Sprint(filters[name]), "[]")
			if have != want {
				r.Errorf("the filter %q finds %q, want %q", name, have, want)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		readable := r.startIn(r.fresh(), nil, "errors.py", `{"id":"taken"}`)
		said, _ := readable.wait()
		r.is(said, "answer", `"taken"`)
		for name, c := range map[string]struct{ args, key string }{
			"an id with a slash": {`{"id":"a/b"}`, ""},
			"an id with a query": {`{"id":"a?b"}`, ""},
			"a long project":     {`{"project":"` + strings.Repeat("x", 300) + `"}`, ""},
			"an unknown key":     {`{"id":"stranger"}`, "WANDB_API_KEY=" + strings.Repeat("0123abcd", 5)},
		} {
			p := r.startIn(r.fresh(), strings.Fields(c.key), "errors.py", c.args)
			late := time.AfterFunc(80*time.Second, func() { _ = p.cmd.Cancel() })
			said, code := p.wait()
			if !late.Stop() {
				r.Errorf("%s: the program hung", name)
			} else if have, ok := said["answer"].(string); code == 0 && (!ok || have == "taken") {
				r.Errorf("%s: %v", name, said["answer"])
			}
		}
	})
}

// A key of one workspace that only logs and reads does that, and nothing else.
func TestScopedKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		hidden := r.startIn(r.fresh(), []string{"WANDB_ENTITY=strangers", "WANDB_PROJECT=secret"}, "errors.py", `{"id":"hidden"}`)
		said, _ := hidden.wait()
		r.is(said, "answer", `"taken"`)

		key := strings.TrimSpace(r.rig.CLI(t, "key", "create", "--name", "scoped", "--scope", "ingest,read", "--project", entity, "--server", r.server.Address, "--key", r.key))
		p := r.startIn(r.fresh(), []string{"WANDB_API_KEY=" + key}, "scoped.py")
		late := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Cancel() })
		said, _ = p.wait()
		if !late.Stop() {
			t.Error("the program hung")
		}
		r.is(said, "log", `[1]`)
		r.is(said, "entity", `"lab"`)
		r.is(said, "projects", `["sdk"]`)
		r.is(said, "still there", `"scoped"`)
		for _, name := range []string{"read elsewhere", "a run elsewhere", "log elsewhere"} {
			// Of what a key may not read it does not even learn that it is there.
			have := fmt.Sprint(said[name])
			if strings.Contains(have, "hidden") && !strings.Contains(have, "Error") || have == "taken" || have == "<nil>" {
				r.Errorf("%s: %s", name, have)
			}
		}
		if have := fmt.Sprint(said["delete"]); !strings.Contains(have, "Error") {
			r.Errorf("delete without the right: %s", have)
		}
		for _, project := range []string{"strangers/secret"} {
			if runs := r.client.Runs(t, project); len(runs) != 1 {
				r.Errorf("%s has %d runs, want 1", project, len(runs))
			}
		}
	})
}
