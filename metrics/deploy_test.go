package metrics_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/testkit/prometheus"
)

const deployed = "../deploy/prometheus"

// deployment is a copy of deploy/prometheus as its comment says to install it.
func deployment(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(deployed)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kymogram.key"), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestDeployedConfigurationIsValid(t *testing.T) {
	folder := deployment(t)
	prometheus.Promtool(t, folder, "", "check", "config", "--lint-fatal", "prometheus.yml")
	prometheus.Promtool(t, folder, "", "check", "rules", "--lint-fatal", "kymogram.rules.yml", "cluster.rules.yml")
}

func TestDeployedRules(t *testing.T) {
	prometheus.Promtool(t, deployment(t), "", "test", "rules", "kymogram.test.yml", "cluster.test.yml")
}

// ruleFiles are the names of the files with rules; each has a file of tests.
func ruleFiles() []string { return []string{"kymogram", "cluster"} }

// deployedText is a file of deploy/prometheus.
func deployedText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	familyName = regexp.MustCompile(`\bkymogram_[a-z0-9_]+`)
	alertRule  = regexp.MustCompile(`(?m)- alert: (\S+)\n\s+expr: (.+)$`)
	selector   = regexp.MustCompile(`\b(kymogram[_:][a-z0-9_:]+|ClickHouse\w+|pg_\w+|up\b)`)
	ownJob     = regexp.MustCompile(`\{job(="(kymogram|clickhouse|postgres)"|=~"kymogram\(-agent\)\?")`)
	ruleName   = regexp.MustCompile(`(?m)(?:- alert|- record): (\S+)`)
)

// A rule about a family that no code makes would be silent for ever.
func TestDeployedRulesAreAboutFamiliesThatExist(t *testing.T) {
	code := goSources(t)
	for _, file := range ruleFiles() {
		for _, name := range familyName.FindAllString(deployedText(t, file+".rules.yml"), -1) {
			if !strings.Contains(code, `"`+strings.TrimSuffix(name, "_bucket")+`"`) {
				t.Errorf("no code makes %s", name)
			}
		}
	}
}

func TestDeployedRulesAreTested(t *testing.T) {
	for _, file := range ruleFiles() {
		tests := deployedText(t, file+".test.yml")
		found := ruleName.FindAllStringSubmatch(deployedText(t, file+".rules.yml"), -1)
		if len(found) < 15 {
			t.Fatalf("%d rules found in %s", len(found), file)
		}
		for _, m := range found {
			// The two halves of the ratio are tested by it.
			if half, ok := strings.CutSuffix(m[1], "s:rate5m"); ok && strings.HasPrefix(half, "kymogram:function_") {
				continue
			}
			if name := m[1]; !strings.Contains(tests, name) {
				t.Errorf("no test of %s", name)
			}
		}
	}
}

// Strangers must not be able to raise an alert: each is about jobs of the operator, and is
// tried with the series of a stranger.
func TestAlertsAreAboutTheOperatorsOwnJobs(t *testing.T) {
	for _, file := range ruleFiles() {
		rules := deployedText(t, file+".rules.yml")
		_, strangers, found := strings.Cut(deployedText(t, file+".test.yml"), "- name: strangers")
		alerts := alertRule.FindAllStringSubmatch(rules, -1)
		if !found || len(alerts) < 15 || len(alerts) != strings.Count(rules, "- alert:") {
			t.Fatalf("%d alerts found in %s", len(alerts), file)
		}
		for _, a := range alerts {
			selectors := selector.FindAllString(a[2], -1)
			if len(selectors) == 0 || len(selectors) != len(ownJob.FindAllString(a[2], -1)) {
				t.Errorf("%s is not about the operator's jobs only: %s", a[1], a[2])
			}
			if !strings.Contains(strangers, "alertname: "+a[1]+",") {
				t.Errorf("%s is not tried with a stranger's series", a[1])
			}
		}
	}
}

// TestClusterAlertsAreExplained: each alert leads to a section that says what it means.
func TestClusterAlertsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../docs/scale-out.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := deployedText(t, "cluster.rules.yml")
	_, section, _ := strings.Cut(string(page), "\n### What to watch\n")
	section, _, _ = strings.Cut(section, "\n### ")
	alerts := alertRule.FindAllStringSubmatch(rules, -1)
	for _, a := range alerts {
		if !strings.Contains(section, "`"+a[1]+"`") {
			t.Errorf("What to watch does not explain %s", a[1])
		}
	}
	for _, want := range []string{"summary: ", "action: ", "docs/scale-out.md#what-to-watch"} {
		if n := strings.Count(rules, want); n != len(alerts) {
			t.Errorf("%d alerts have %q, of %d", n, want, len(alerts))
		}
	}
}

func goSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{".", "../chain", "../internal", "../server"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
