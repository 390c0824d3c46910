//go:build e2e

package wandb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	t.Parallel()
	quick(t, both, func(t *testing.T, r *room) {
		r.run("log.py")
		d := r.ends("everything", "finished")
		r.whole(d)

		loss, i := map[int]string{}, map[int]string{}
		for step := range 1000 {
			loss[step], i[step] = text(t, 1/float64(step+1)), fmt.Sprint(step)
		}
		r.wants(d, "loss", nil, loss)
		r.wants(d, "i", nil, i)
		for metric, want := range map[string]string{
			"nan": "NaN", "inf": "Infinity", "minus": "-Infinity", "tiny": "1e-300", "third": "0.3333333333333333",
			"float32": "0.10000000149011612", "a.b": "5", "c/d": "6", "e f": "7", "nest.a": "1", "nest.deep.b": "2.5",
		} {
			r.one(d, metric, "", 1000, want)
		}
		r.one(d, "text", "text", 1000, "some text")
		for metric, want := range map[string]string{"flag": "true", "none": "null", "list": "[1,2,3]", "array": "[0,1,2,3]", "big": "1152921504606846977"} {
			r.json(d, metric, 1000, want)
		}
		got := r.curve(d, "hist", map[string]string{"type": "histogram"})["1000"]
		if len(got) != 1 || !strings.Contains(got[0], "0.5") {
			r.Errorf("hist is %v", got)
		}
		r.one(d, "once", "", 1001, "1")
		r.one(d, "more", "", 1001, "2")
		r.one(d, "jump", "", 5000, "3")
		r.one(d, "jump2", "", 5000, "4")

		if d.DisplayName != "another name" || d.Description != "other notes" || !slices.Equal(d.Tags, []string{"first", "second", "third"}) {
			r.Errorf("the run is %q, %q, %v", d.DisplayName, d.Description, d.Tags)
		}
		r.attributes(d, map[string]string{
			"config/lr": "0.2", "config/later": "7", "config/nest/a/b": "1", "config/text": "ü\U0001f600", "config/flag": "true",
			"summary/best": "0.25", "summary/note": "text", "summary/deep/x": "1",
			"wandb/group": "a group", "wandb/job_type": "train",
		})
		console := r.console(d)
		for _, line := range []string{"a first line", "on stderr", "100%", "a last line"} {
			if !slices.ContainsFunc(console, func(have string) bool { return strings.Contains(have, line) }) {
				r.Errorf("the console lacks %q: %q", line, console)
			}
		}
		if n := r.machine(d); n == 0 {
			r.Error("there are no system metrics")
		}
	})
}

// json compares a value that is kept as JSON, white space aside.
func (r *room) json(d *document, metric string, step int, want string) {
	r.Helper()
	got := r.curve(d, metric, map[string]string{"type": "json"})[fmt.Sprint(step)]
	if len(got) != 1 || strings.ReplaceAll(got[0], " ", "") != want {
		r.Errorf("%s at step %d is %q, want %s", metric, step, got, want)
	}
}

func TestMedia(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		said := r.run("media.py")
		r.whole(r.ends("media", "finished"))
		r.is(said, "files", `["end.txt","live.txt","one.txt","sub/two.txt"]`)
		r.is(said, "contents", `["one","two","second, longer","end"]`)
		r.is(said, "media", `{"audio":"audio-file","html":"html-file","image":"image-file","images":"images/separated","plot_table":"table-file","table":"table-file"}`)
		r.is(said, "table artifact", `["run_table",["a","b"],[[1,"x"],[2.5,null]]]`)
		r.is(said, "upload", `["later.txt",14,"uploaded later"]`)
		r.is(said, "delete", `["sub/two.txt"]`)
		r.is(said, "metadata", `[true,true]`)
	})
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	quick(t, newest, func(t *testing.T, r *room) {
		said := r.run("artifacts.py")
		r.whole(r.ends("maker", "finished"))
		for name, want := range map[string]string{
			"log":                    `["data:v0","v0","COMMITTED",["best","latest","prod"]]`,
			"log the same":           `"data:v0"`,
			"log another":            `["data:v1",["latest"]]`,
			"log a path and code":    `"the-code:v0"`,
			"use":                    `["data:best","v0","dataset",{"m":1,"n":{"x":[1]}},"words","data:v0",true]`,
			"one entry":              `"bbb"`,
			"table":                  `[[1]]`,
			"verify":                 `null`,
			"use what is not there":  `CommError: …`,
			"draft":                  `["data:v2",["big.bin","draft.txt","new.txt","sub/b b.txt","tab.table.json"]]`,
			"incremental":            `["data:v3",["big.bin","draft.txt","more.txt","new.txt","ref.txt","sub/b b.txt","tab.table.json"]]`,
			"distributed":            `["parts:v0",["part0.txt","part1.txt"]]`,
			"refer":                  `"bbb"`,
			"link":                   `["shelf:linked","data:v0",true]`,
			"tags":                   `["t2"]`,
			"change":                 `[["best","extra"],{"k":2,"m":1,"n":{"x":[1]}},"other words"]`,
			"time to live":           `[null,"COMMITTED"]`, // it is not kept, and the artifact stays
			"move an alias":          `"v1"`,
			"model":                  `["model","another"]`,
			"table of images":        `"logged"`,
			"read":                   `["COMMITTED",true,6,32,true]`,
			"read what is not there": `CommError: …`,
			"files":                  `[5,3,"aaa"]`,
			"who":                    `["maker",["maker"]]`,
			"of the run":             `[[],["data:v0"]]`,
			"versions":               `["v0","v1","v2","v3"]`,
			"types":                  `["code","dataset","model","run_table"]`,
			"collections":            `["data","parts","refers","shelf"]`,
			"collection":             `["renamed","renamed:v0"]`,
			"delete":                 `["v0","v2","v3"]`,
		} {
			if name == "types" && r.old() {
				want = `["code","dataset","run_table"]`
			}
			r.is(said, name, want)
		}
		files, ok := said["download"].(map[string]any)
		if !ok || len(files) != 5 || files["a.txt"] != "aaa" || files["sub/b b.txt"] != "bbb" {
			r.Errorf("the download has %v", said["download"])
		}
	})
}
