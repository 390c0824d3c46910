package doctor_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/doctor"
)

const influxToken = "t0p-s3cret"

// influx2 answers as InfluxDB 2 does. What it refuses is by path.
type influx2 struct {
	mu      sync.Mutex
	points  []string
	deleted string
	refuse  map[string]int
}

func (f *influx2) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("X-Influxdb-Version", "v2.7.1")
	body, _ := io.ReadAll(r.Body)
	if status := f.refuse[r.URL.Path]; status != 0 {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":"x","message":"not with %s"}`, r.Header.Get("Authorization")) // a server that repeats what it was told
		return
	}
	if r.URL.Path != "/ping" && r.Header.Get("Authorization") != "Token "+influxToken {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"code":"unauthorized","message":"unauthorized access"}`)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /ping":
		w.WriteHeader(http.StatusNoContent)
	case "GET /api/v2/buckets":
		list := `{"name":"b"}`
		if r.URL.Query().Get("name") != "b" {
			list = ""
		}
		fmt.Fprintf(w, `{"buckets":[%s]}`, list)
	case "POST /api/v2/write":
		f.points = append(f.points, string(body))
		w.WriteHeader(http.StatusNoContent)
	case "POST /api/v2/query":
		for _, p := range f.points { // the check's mark is in the point and in the query
			if _, mark, _ := strings.Cut(p, "check="); strings.Contains(string(body), mark[:8]) {
				fmt.Fprintf(w, ",result,table,_value,check\n,,0,1,%s\n", mark[:8])
			}
		}
	case "POST /api/v2/delete":
		f.deleted = string(body)
		w.WriteHeader(http.StatusNoContent)
	}
}

// examined is the names of the findings with a mark for those that failed, and all texts.
func examined(t *testing.T, q doctor.InfluxQuestion) (steps, text string) {
	t.Helper()
	d, err := doctor.ExamineInflux(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.Findings {
		if steps += f.Name + " "; !f.OK {
			steps += "FAIL"
		}
		text += f.Detail + "\n" + f.Hint + "\n"
	}
	if (d.Err() == nil) != !strings.Contains(steps, "FAIL") || d.OK != (d.Err() == nil) {
		t.Errorf("ends with %v: %s", d.Err(), steps)
	}
	raw, _ := json.Marshal(d) // texts alone never fail
	if strings.Contains(string(raw), influxToken) {
		t.Errorf("the token is shown: %s", raw)
	}
	return strings.TrimSpace(steps), text
}

func TestExamineInflux(t *testing.T) {
	const all = "resolve connect tls server auth write read clean"
	serve := func(refuse map[string]int) *influx2 { return &influx2{refuse: refuse} }
	for name, tt := range map[string]struct {
		server      *influx2
		token, base string
		steps, says string
	}{
		"well":               {serve(nil), influxToken, "b", all, "InfluxDB 2.7.1, asked by the API of version 2"},
		"wrong token":        {serve(nil), "other", "b", "resolve connect tls server auth FAIL", "the token is not accepted: 401 unauthorized access\nset INFLUXDB_TOKEN to a token of this server"},
		"no token":           {serve(nil), "", "b", "resolve connect tls server auth FAIL", "set INFLUXDB_TOKEN"},
		"no bucket":          {serve(nil), influxToken, "c", "resolve connect tls server auth FAIL", "there is no bucket c in o"},
		"may not write":      {serve(map[string]int{"/api/v2/write": 403}), influxToken, "b", "resolve connect tls server auth write FAIL", "the token may not write: 403 not with Token …"},
		"full":               {serve(map[string]int{"/api/v2/write": 507}), influxToken, "b", "resolve connect tls server auth write FAIL", "the point was not taken: 507"},
		"may not read":       {serve(map[string]int{"/api/v2/query": 404}), influxToken, "b", all, "the token may write, and not read"},
		"cannot read":        {serve(map[string]int{"/api/v2/query": 500}), influxToken, "b", "resolve connect tls server auth write read FAILclean", "the point cannot be read: 500"},
		"may not delete":     {serve(map[string]int{"/api/v2/delete": 403}), influxToken, "b", all, "the point stays in kymogram_doctor (tag check="},
		"sent on":            {serve(map[string]int{"/ping": 307}), influxToken, "b", "resolve connect tls server FAIL", "the server sends clients on to"},
		"taken and not kept": {serve(map[string]int{"/api/v2/write": 204}), influxToken, "b", "resolve connect tls server auth write read FAILclean", "is not there after"},
	} {
		s := httptest.NewServer(tt.server)
		t.Cleanup(s.Close)
		steps, text := examined(t, doctor.InfluxQuestion{Host: s.URL, Database: tt.base, Org: "o", Token: tt.token, Wait: time.Second})
		if steps != tt.steps || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %s\n%s", name, steps, text)
		}
		if name == "well" && (len(tt.server.points) != 1 || !strings.Contains(tt.server.deleted, `_measurement=\"kymogram_doctor\" AND check=\"`)) {
			t.Errorf("%v, deleted %s", tt.server.points, tt.server.deleted)
		}
	}
}

// listen takes connections and does with them what do does.
func listen(t *testing.T, do func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go do(c)
		}
	}()
	return l.Addr().String()
}

func TestExamineInfluxOnTheWay(t *testing.T) {
	secure := httptest.NewTLSServer(&influx2{})
	t.Cleanup(secure.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(page.Close)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	silent := listen(t, func(c net.Conn) { <-done; _ = c.Close() })
	rude := listen(t, func(c net.Conn) { _ = c.Close() })
	endless := listen(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c)) // an answer before the question counts as none
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Influxdb-Version: 1.8.3\r\nContent-Length: 99999999\r\n\r\n")
		<-done
		_ = c.Close()
	})
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for name, tt := range map[string]struct{ host, steps, says string }{
		"no such name":  {"http://no-such-name.invalid", "resolve FAIL", "has no address"},
		"closed port":   {"http://" + closed.Addr().String(), "resolve connect FAIL", "start the server, or name its port"},
		"self-signed":   {secure.URL, "resolve connect tls FAIL", "set SSL_CERT_FILE"},
		"plain":         {"https://" + page.Listener.Addr().String(), "resolve connect tls FAIL", "give --host http://" + page.Listener.Addr().String()},
		"TLS as plain":  {"http://" + secure.Listener.Addr().String(), "resolve connect tls server FAIL", "is no InfluxDB"},
		"another thing": {page.URL, "resolve connect tls server FAIL", "is no InfluxDB"},
		"silent":        {"http://" + silent, "resolve connect tls server FAIL", "does not answer within 300ms"},
		"silent TLS":    {silent, "resolve connect tls FAIL", "does not answer the TLS handshake"},
		"hangs up":      {"http://" + rude, "resolve connect tls server FAIL", "no answer"},
		"endless":       {"http://" + endless, "resolve connect tls server FAIL", "broke off"},
	} {
		began := time.Now()
		steps, text := examined(t, doctor.InfluxQuestion{Host: tt.host, Token: influxToken, Wait: 300 * time.Millisecond})
		if steps != tt.steps || !strings.Contains(text, tt.says) || time.Since(began) > 5*time.Second {
			t.Errorf("%s after %s: %s\n%s", name, time.Since(began), steps, text)
		}
	}
}

func TestParseInflux(t *testing.T) {
	for host, want := range map[string]string{
		"a": "https://a:8086", "a:9": "https://a:9", "http://a": "http://a:8086", "http://[::1]:7/x/": "http://[::1]:7/x", "[::1]": "https://[::1]:8086",
		"": "no host is given", "http://": "no address", "ftp://a": "no address", "http://u:" + influxToken + "@a": "holds a password", "http://a?t=" + influxToken: "no address", "a b": "no address",
	} {
		_, base, err := doctor.ParseInflux(doctor.InfluxQuestion{Host: host})
		got := fmt.Sprint(base)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, influxToken) {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if _, _, err := doctor.ParseInflux(doctor.InfluxQuestion{Host: "a", Token: "x\n"}); err == nil || strings.Contains(err.Error(), "x\n") {
		t.Error(err)
	}
	if q, base, err := doctor.ParseInflux(doctor.InfluxQuestion{Host: "a", Port: "7"}); err != nil || base.Host != "a:7" || q.Database != "tplr" || q.Org != "tplr" {
		t.Error(q, base, err)
	}
}
