package otlp

import (
	"github.com/kymogram/kymogram/server/internal/runrule"
)

// Config is what a user sets.
type Config struct {
	// Workspace and Project are where the points of a request that names none go.
	Workspace, Project string
	// Runs names the run of a resource: rules as PROJECT=RULE, with the resource's
	// attributes in braces; the project * stands for all that have none of their own.
	Runs []string
}

const (
	settingRuns      = "otlp.runs"
	defaultWorkspace = "default"
	defaultProject   = "opentelemetry"
	// What the specification calls an instance of a service: no two of them run together.
	defaultRun = "{kymogram.run}|{service.name}/{service.instance.id}|{service.name}|default"
)

// ruleBook has the rules by project.
type ruleBook map[string]runrule.Rule

func newRuleBook(texts []string) (ruleBook, error) {
	usual, err := runrule.Parse(settingRuns, defaultRun)
	if err != nil {
		return nil, err
	}
	book := ruleBook{runrule.AnyPlace: usual}
	for _, text := range texts {
		project, rule, err := runrule.Split(settingRuns, "project", text)
		if err != nil {
			return nil, err
		}
		if book[project], err = runrule.Parse(settingRuns, rule); err != nil {
			return nil, err
		}
	}
	return book, nil
}

func (b ruleBook) find(project string) runrule.Rule {
	if rule, ok := b[project]; ok {
		return rule
	}
	return b[runrule.AnyPlace]
}
