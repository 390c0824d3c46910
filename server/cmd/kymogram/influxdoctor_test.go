package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/doctor"
)

// diagnosed is what the doctor found: "step " for one that is well, "step FAIL" for the last.
func diagnosed(t *testing.T, q doctor.InfluxQuestion) (steps, text string) {
	t.Helper()
	if q.Wait == 0 {
		q.Wait = 10 * time.Second
	}
	d, err := doctor.ExamineInflux(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.Findings {
		steps += f.Name + " "
		text += f.Name + ": " + f.Detail + "\n" + f.Hint + "\n"
		if !f.OK {
			steps += "FAIL "
		}
	}
	if q.Token != "" && strings.Contains(text, q.Token) {
		t.Errorf("the token is shown: %s", text)
	}
	return strings.TrimSpace(steps), text
}

const wellInflux = "resolve connect tls server auth write read clean"

func TestDoctorInfluxOfKymogram(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	s.addKey("in and out", auth.KeySpec{Scopes: []auth.Scope{auth.Ingest, auth.Read}})
	for key, want := range map[string]struct{ steps, says string }{
		"admin":         {wellInflux, "is in the trash"},
		"in and out":    {wellInflux, "the point stays (delete it with: kymogram runs delete w/p/doctor-"},
		"ingest":        {wellInflux, "the token may write, and not read"},
		"read":          {"resolve connect tls server auth FAIL", "kymogram key create --name influx --scope ingest"},
		"other project": {"resolve connect tls server auth FAIL", "there is no bucket p in w that the token may use"},
		"wrong":         {"resolve connect tls server auth FAIL", "the token is not accepted: 401"},
		"revoked":       {"resolve connect tls server auth FAIL", "the token is not accepted: 401"},
		"none":          {"resolve connect tls server auth FAIL", "set INFLUXDB_TOKEN"},
	} {
		steps, text := diagnosed(t, doctor.InfluxQuestion{Host: "http://" + s.address, Database: "p", Org: "w", Token: s.keys[key]})
		if steps != want.steps || !strings.Contains(text, want.says) {
			t.Errorf("%s: %s\n%s", key, steps, text)
		}
	}
}

func TestDoctorInfluxOfRealServers(t *testing.T) {
	for _, name := range []string{"influxd-1.6", "influxd-1.8"} {
		t.Run(name, func(t *testing.T) {
			address := startInflux(t, name, "auth-enabled = true\n")
			create := func(statement, login string) {
				if status, text := post(t, strings.Replace(address, "//", "//"+login, 1)+"/query?q="+strings.ReplaceAll(statement, " ", "+"), ""); status != http.StatusOK || strings.Contains(text, "error") {
					t.Fatal(statement, status, text)
				}
			}
			create("CREATE USER admin WITH PASSWORD 'pass' WITH ALL PRIVILEGES", "")
			create("CREATE DATABASE tplr", "admin:pass@")
			create("CREATE USER writer WITH PASSWORD 'pass'", "admin:pass@")
			create("GRANT WRITE ON tplr TO writer", "admin:pass@")
			for token, want := range map[string]struct{ steps, says string }{
				"admin:pass":  {wellInflux, "the point is deleted"},
				"writer:pass": {wellInflux, "the token may write, and not read"},
				"admin:wrong": {"resolve connect tls server auth FAIL", "set INFLUXDB_TOKEN to USER:PASSWORD"},
				"":            {"resolve connect tls server auth FAIL", "the server asks for a token"},
			} {
				steps, text := diagnosed(t, doctor.InfluxQuestion{Host: address, Token: token})
				if steps != want.steps || !strings.Contains(text, want.says) {
					t.Errorf("%s: %s\n%s", token, steps, text)
				}
			}
			steps, text := diagnosed(t, doctor.InfluxQuestion{Host: address, Token: "admin:pass", Database: "other"})
			if steps != "resolve connect tls server auth FAIL" || !strings.Contains(text, `CREATE DATABASE "other"`) {
				t.Errorf("%s\n%s", steps, text)
			}
			if _, text := post(t, strings.Replace(address, "//", "//admin:pass@", 1)+"/query?db=tplr&q=SELECT+count(*)+FROM+kymogram_doctor", ""); strings.Count(text, "1]") > 1 {
				t.Errorf("points are left: %s", text)
			}
		})
	}
}
