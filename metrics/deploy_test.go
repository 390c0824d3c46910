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
	prometheus.Promtool(t, folder, "", "check", "rules", "--lint-fatal", "kymogram.rules.yml")
}

func TestDeployedRules(t *testing.T) {
	prometheus.Promtool(t, deployment(t), "", "test", "rules", "kymogram.test.yml")
}

var (
	familyName = regexp.MustCompile(`\bkymogram_[a-z0-9_]+`)
	alertRule  = regexp.MustCompile(`(?m)- alert: (\S+)\n\s+expr: (.+)$`)
	selector   = regexp.MustCompile(`\b(kymogram[_:][a-z0-9_:]+|up\b)`)
	ruleName   = regexp.MustCompile(`(?m)(?:- alert|- record): (\S+)`)
)

// A rule about a family that no code makes would be silent for ever.
func TestDeployedRulesAreAboutFamiliesThatExist(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(deployed, "kymogram.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	code := goSources(t)
	for _, name := range familyName.FindAllString(string(rules), -1) {
		if !strings.Contains(code, `"`+strings.TrimSuffix(name, "_bucket")+`"`) {
			t.Errorf("no code makes %s", name)
		}
	}
}

func TestDeployedRulesAreTested(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(deployed, "kymogram.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(deployed, "kymogram.test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	found := ruleName.FindAllStringSubmatch(string(rules), -1)
	if len(found) < 20 {
		t.Fatalf("%d rules found", len(found))
	}
	for _, m := range found {
		// The two halves of the ratio are tested by it.
		if half, ok := strings.CutSuffix(m[1], "s:rate5m"); ok && strings.HasPrefix(half, "kymogram:function_") {
			continue
		}
		if name := m[1]; !strings.Contains(string(tests), name) {
			t.Errorf("no test of %s", name)
		}
	}
}

// Strangers must not be able to raise an alert: each is about jobs of the operator, and is
// tried with the series of a stranger.
func TestAlertsAreAboutTheOperatorsOwnJobs(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(deployed, "kymogram.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(deployed, "kymogram.test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	_, strangers, found := strings.Cut(string(tests), "- name: strangers")
	alerts := alertRule.FindAllStringSubmatch(string(rules), -1)
	if !found || len(alerts) < 15 || len(alerts) != strings.Count(string(rules), "- alert:") {
		t.Fatalf("%d alerts found", len(alerts))
	}
	for _, a := range alerts {
		selectors := selector.FindAllString(a[2], -1)
		if len(selectors) == 0 || len(selectors) != strings.Count(a[2], `{job=~"kymogram(-agent)?"`) {
			t.Errorf("%s is not about the operator's jobs only: %s", a[1], a[2])
		}
		if !strings.Contains(strangers, "alertname: "+a[1]+",") {
			t.Errorf("%s is not tried with a stranger's series", a[1])
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
