package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
)

// maxInfluxAnswer bounds what is read of an answer.
const maxInfluxAnswer = 1 << 20

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	body   string
}

// said is what the answer says of a failure.
func (r reply) said() string {
	var doc struct {
		Error, Message string
	}
	if json.Unmarshal([]byte(r.body), &doc) == nil && doc.Error+doc.Message != "" {
		return fmt.Sprintf("%d %s", r.status, max(doc.Message, doc.Error))
	}
	return fmt.Sprintf("%d %s", r.status, model.CutBytes(strings.TrimSpace(r.body), 300))
}

// send asks the server; signed adds the token.
func (i *influx) send(ctx context.Context, method, path string, query url.Values, kind, body string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, i.question.Wait)
	defer cancel()
	target := *i.base
	target.Path += path
	target.RawQuery = query.Encode()
	q, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("make a request: %w", err)
	}
	if kind != "" {
		q.Header.Set("Content-Type", kind)
	}
	if token := i.question.Token; token != "" && path != "/ping" {
		q.Header.Set("Authorization", "Token "+token)
		if i.kind == influxKymogram {
			q.Header.Set("Authorization", "Bearer "+token) // its JSON API knows no other form
		}
		if user, password, ok := strings.Cut(token, ":"); ok && i.kind == influx1 {
			q.SetBasicAuth(user, password)
		}
	}
	answer, err := i.client.Do(q)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			return reply{}, wrong("is it an InfluxDB that listens there? Look at its log", "%s takes connections and does not answer within %s", i.base.Host, i.question.Wait)
		}
		return reply{}, wrong("is it an InfluxDB that listens there? Look at its log", "no answer: %v", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxInfluxAnswer))
	if err != nil {
		return reply{}, wrong("look at the server's log", "the answer broke off: %v", err)
	}
	return reply{answer.StatusCode, answer.Header, string(text)}, nil
}

// greet finds out what server it is.
func (i *influx) greet(ctx context.Context) (string, error) {
	r, err := i.send(ctx, http.MethodGet, "/ping", nil, "", "")
	if err != nil {
		return "", err
	}
	i.version = strings.TrimPrefix(r.header.Get("X-Influxdb-Version"), "v")
	_, kymogram, isKymogram := strings.Cut(i.version, "-kymogram-")
	switch {
	case r.status >= 300 && r.status < 400:
		return "", wrong("give that address with --host", "the server sends clients on to %s", r.header.Get("Location"))
	case i.version == "":
		return "", wrong("name the port of the InfluxDB: --port, INFLUXDB_PORT", "what answers there (%s) is no InfluxDB", r.said())
	case isKymogram:
		i.kind = influxKymogram
		return "Kymogram " + kymogram, nil
	case strings.HasPrefix(i.version, "1."):
		i.kind = influx1
	case strings.HasPrefix(i.version, "2."):
		i.kind = influx2
	default: // a build of one's own says "unknown"
		r, err := i.send(ctx, http.MethodGet, "/api/v2/buckets", nil, "", "")
		if err != nil {
			return "", err
		}
		if i.kind = influx2; r.status == http.StatusNotFound {
			i.kind = influx1
		}
	}
	return fmt.Sprintf("InfluxDB %s, asked by the API of version %d", i.version, i.kind), nil
}

// signIn asks for the database, which only a known token gets.
func (i *influx) signIn(ctx context.Context) (string, error) {
	if i.kind == influx1 {
		return i.signIn1(ctx)
	}
	r, err := i.send(ctx, http.MethodGet, "/api/v2/buckets", url.Values{"name": {i.question.Database}, "org": {i.question.Org}}, "", "")
	if err != nil {
		return "", err
	}
	var doc struct{ Buckets []struct{ Name string } }
	switch {
	case r.status == http.StatusUnauthorized:
		return "", i.badToken(r)
	case r.status == http.StatusForbidden && i.kind == influxKymogram:
		return "", wrong("make a key that may write: kymogram key create --name influx --scope ingest", "the key may not write to %s/%s: %s", i.question.Org, i.question.Database, r.said())
	case r.status != http.StatusOK || json.Unmarshal([]byte(r.body), &doc) != nil:
		return "", wrong("check --org (INFLUXDB_ORG) and the token's rights", "the bucket %s of %s cannot be looked up: %s", i.question.Database, i.question.Org, r.said())
	case len(doc.Buckets) == 0:
		return "", wrong("create it (influx bucket create), name another (--database, INFLUXDB_DATABASE), or give the token rights to it", "there is no bucket %s in %s that the token may use", i.question.Database, i.question.Org)
	}
	return fmt.Sprintf("%s; the bucket is %s of %s", i.known(), i.question.Database, i.question.Org), nil
}

func (i *influx) signIn1(ctx context.Context) (string, error) {
	r, err := i.send(ctx, http.MethodGet, "/query", url.Values{"q": {"SHOW DATABASES"}}, "", "")
	if err != nil {
		return "", err
	}
	switch {
	case r.status == http.StatusUnauthorized:
		return "", i.badToken(r)
	case r.status != http.StatusOK:
		return "", wrong("check the user's rights", "the databases cannot be listed: %s", r.said())
	case !strings.Contains(r.body, fmt.Sprintf("[%q]", i.question.Database)):
		return "", wrong(fmt.Sprintf(`create it (CREATE DATABASE %q), name another (--database, INFLUXDB_DATABASE), or GRANT ALL ON %q to the user`, i.question.Database, i.question.Database),
			"there is no database %s that the user may use", i.question.Database)
	}
	return i.known() + "; the database is " + i.question.Database, nil
}

func (i *influx) known() string {
	if i.question.Token == "" {
		return "the server asks for no token"
	}
	return "the token is taken"
}

func (i *influx) badToken(r reply) error {
	if i.question.Token == "" {
		return wrong("set INFLUXDB_TOKEN", "the server asks for a token: %s", r.said())
	}
	hint := "set INFLUXDB_TOKEN to a token of this server"
	switch i.kind {
	case influx1:
		hint = "set INFLUXDB_TOKEN to USER:PASSWORD"
	case influxKymogram:
		hint = "make a key: kymogram key create --name influx --scope ingest,read"
	}
	return wrong(hint, "the token is not accepted: %s", r.said())
}

// runName is the run that a Kymogram puts the point in.
func (i *influx) runName() string { return "doctor-" + i.mark }

// write writes one point. A Kymogram makes a run of its own of it, so that it can be deleted.
func (i *influx) write(ctx context.Context) (string, error) {
	tags := ",check=" + i.mark
	if i.kind == influxKymogram {
		tags += ",run=" + i.runName()
	}
	line := fmt.Sprintf("%s%s value=1 %d", influxMeasurement, tags, time.Now().UnixNano())
	path, query := "/api/v2/write", url.Values{"org": {i.question.Org}, "bucket": {i.question.Database}, "precision": {"ns"}}
	if i.kind == influx1 {
		path, query = "/write", url.Values{"db": {i.question.Database}}
	}
	r, err := i.send(ctx, http.MethodPost, path, query, "text/plain; charset=utf-8", line)
	switch {
	case err != nil:
		return "", err
	case r.status == http.StatusNoContent:
		return "a point of the measurement " + influxMeasurement, nil
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		return "", wrong("give the token the right to write to "+i.question.Database, "the token may not write: %s", r.said())
	}
	return "", wrong("the answer has the reason; look at the server's log too", "the point was not taken: %s", r.said())
}

// read asks for the point until it is there.
func (i *influx) read(ctx context.Context) (string, error) {
	began := time.Now()
	for {
		r, err := i.ask(ctx)
		switch {
		case err != nil:
			return "", err
		case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusNotFound && i.kind == influx2:
			return "not done: the token may write, and not read", nil
		case r.status != http.StatusOK:
			return "", wrong("look at the server's log", "the point cannot be read: %s", r.said())
		case strings.Contains(r.body, i.mark):
			return fmt.Sprintf("the point is back after %s", duration.Text(time.Since(began).Round(time.Millisecond))), nil
		case time.Since(began) > i.question.Wait:
			return "", wrong("look at the server's log", "the point was taken and is not there after %s", i.question.Wait)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (i *influx) ask(ctx context.Context) (reply, error) {
	if i.kind == influx2 {
		flux := fmt.Sprintf(`from(bucket: %q) |> range(start: -1h) |> filter(fn: (r) => r._measurement == %q and r.check == %q)`, i.question.Database, influxMeasurement, i.mark)
		return i.send(ctx, http.MethodPost, "/api/v2/query", url.Values{"org": {i.question.Org}}, "application/vnd.flux", flux)
	}
	return i.send(ctx, http.MethodGet, "/query", i.database(fmt.Sprintf(`SELECT "value", "check" FROM %q WHERE "check" = '%s'`, influxMeasurement, i.mark)), "", "")
}

func (i *influx) database(statement string) url.Values {
	values := url.Values{"db": {i.question.Database}, "q": {statement}}
	if i.kind == influxKymogram {
		values.Set("org", i.question.Org)
	}
	return values
}

// clean deletes the point, where the token may. One that stays does no harm.
func (i *influx) clean(ctx context.Context) (string, error) {
	r, err := i.drop(ctx)
	if err != nil {
		return "", err
	}
	if r.status/100 == 2 && !strings.Contains(r.body, `"error"`) {
		if i.kind == influxKymogram {
			return "its run " + i.runName() + " is in the trash", nil
		}
		return "the point is deleted", nil
	}
	stays := fmt.Sprintf("the point stays in %s (tag check=%s): ", influxMeasurement, i.mark)
	if i.kind == influxKymogram {
		stays = fmt.Sprintf("the point stays (delete it with: kymogram runs delete %s/%s/%s): ", i.question.Org, i.question.Database, i.runName())
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
		return stays + "the token may not delete", nil
	}
	return stays + r.said(), nil
}

func (i *influx) drop(ctx context.Context) (reply, error) {
	switch i.kind {
	case influx1:
		return i.send(ctx, http.MethodPost, "/query", i.database(fmt.Sprintf(`DROP SERIES FROM %q WHERE "check" = '%s'`, influxMeasurement, i.mark)), "", "")
	case influx2:
		body, _ := json.Marshal(map[string]string{ // texts alone never fail
			"start": "1970-01-01T00:00:00Z", "stop": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			"predicate": fmt.Sprintf(`_measurement=%q AND check=%q`, influxMeasurement, i.mark),
		})
		return i.send(ctx, http.MethodPost, "/api/v2/delete", url.Values{"org": {i.question.Org}, "bucket": {i.question.Database}}, "application/json", string(body))
	}
	r, err := i.send(ctx, http.MethodGet, "/api/v1/resolve", url.Values{"run": {i.question.Org + "/" + i.question.Database + "/" + i.runName()}}, "", "")
	var doc struct{ ID string }
	if err != nil || r.status != http.StatusOK || json.Unmarshal([]byte(r.body), &doc) != nil {
		return r, err
	}
	return i.send(ctx, http.MethodDelete, "/api/v1/runs/"+url.PathEscape(doc.ID), nil, "", "")
}
