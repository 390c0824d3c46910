package mongo

import (
	"slices"
	"strings"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// Record gives the fields of a run as JSON texts, by the names that Fields lists.
// A text may have bare NaN; it must have passed loose.Check. A field that the run
// does not have is not ok.
type Record interface {
	Field(name string) (value []byte, ok bool)
}

// Indexed is a Record that knows where the members of some of its fields lie.
type Indexed interface {
	Record
	// Index is that of a field, nil where the Record has none.
	Index(name string) loose.Index
}

func indexOf(r Record, name string) loose.Index {
	if r, is := r.(Indexed); is {
		return r.Index(name)
	}
	return nil
}

// shape is what lies below a field.
type shape uint8

const (
	plain    shape = iota // one value, no path goes on
	moment                // a time as text
	list                  // an array of texts
	tree                  // a JSON value with keys
	settings              // a tree whose values lie in {"value": …}
)

// names lists the fields: the name for Record, what lies below it, and the other spellings.
var names = []struct {
	name      string
	shape     shape
	spellings string
}{
	{"id", plain, ""},
	{"name", plain, "run_id"},
	{"displayName", plain, "display_name"},
	{"state", plain, ""},
	{"group", plain, "groupName group_name"},
	{"jobType", plain, "job_type"},
	{"tags", list, ""},
	{"createdAt", moment, "created_at"},
	{"heartbeatAt", moment, "heartbeat_at updatedAt updated_at"},
	{"username", plain, "user user.username user.name userName user_name"},
	{"notes", plain, "description"},
	{"host", plain, "hostname"},
	{"sweep", plain, "sweepName sweep_name"},
	{"commit", plain, ""},
	{"program", plain, "jobProgram"},
	{"repo", plain, "jobRepo"},
	{"duration", plain, ""},
	{"project", plain, ""},
	{"entity", plain, "entityName"},
	{"config", settings, ""},
	{"summaryMetrics", tree, "summary_metrics summary"},
	{"systemMetrics", tree, "system_metrics"},
	{"historyKeys", tree, "keys_info keysInfo history_keys"},
	{"inputArtifacts", list, "input_artifacts"},
	{"outputArtifacts", list, "output_artifacts"},
}

// summaryKeys are keys of the summary that W&B lets stand without summary_metrics.
var summaryKeys = []string{"_step", "_runtime", "_timestamp", "_absolute_runtime"}

// Fields lists the names by which a Record is asked.
func Fields() []string {
	var all []string
	for _, f := range names {
		all = append(all, f.name)
	}
	return all
}

// path leads from a field to a value.
type path struct {
	spelled string // as the caller wrote it
	field   string
	shape   shape
	rest    string // below the field, keys joined by dots
}

func parsePath(spelled string) (path, error) {
	if slices.Contains(summaryKeys, spelled) {
		return path{spelled, "summaryMetrics", tree, spelled}, nil
	}
	for _, f := range names {
		for _, name := range append(strings.Fields(f.spellings), f.name) {
			rest, ok := strings.CutPrefix(spelled, name)
			if !ok || rest != "" && (rest[0] != '.' || f.shape < tree) {
				continue
			}
			return path{spelled, f.name, f.shape, strings.TrimPrefix(rest, ".")}, nil
		}
	}
	if root, _, below := strings.Cut(spelled, "."); below {
		if _, err := parsePath(root); err == nil {
			return path{}, refuse("the field %.100q has no parts, as in %.100q", root, spelled).WithHint("Only config and summary_metrics have keys below them.")
		}
	}
	return path{}, refuse("there is no field %.100q of a run", spelled).
		WithHint("Use config.KEY, summary_metrics.KEY, or one of %s.", strings.Join(Fields(), ", "))
}
