package influx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	influxhttp "github.com/influxdata/influxdb-client-go/v2/api/http"
)

// requestLimit is how long one write may take.
const requestLimit = 30 * time.Second

// way is how lines come to a server: the answer's status, 0 without one.
type way func(ctx context.Context, lines []string) (status int, err error)

// version2 is the official client.
func version2(address, token, org, bucket string) way {
	opts := influxdb2.DefaultOptions().SetUseGZip(true).SetHTTPRequestTimeout(uint(requestLimit / time.Second)).SetMaxRetries(0)
	api := influxdb2.NewClientWithOptions(address, token, opts).WriteAPIBlocking(org, bucket)
	return func(ctx context.Context, lines []string) (int, error) {
		err := api.WriteRecord(ctx, lines...)
		if err == nil {
			return http.StatusNoContent, nil
		}
		var answer *influxhttp.Error
		if errors.As(err, &answer) {
			return answer.StatusCode, err
		}
		return 0, err
	}
}

// version1 is the path /write of InfluxDB 1.x; a token USER:PASSWORD is what it signs in with.
func version1(address, token, _, database string) way {
	address += "/write?" + url.Values{"db": {database}, "precision": {"ns"}}.Encode()
	client := &http.Client{Timeout: requestLimit}
	return func(ctx context.Context, lines []string) (int, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(strings.Join(lines, "\n")))
		if err != nil {
			return 0, err
		}
		if user, password, both := strings.Cut(token, ":"); both {
			q.SetBasicAuth(user, password)
		} else if token != "" {
			q.Header.Set("Authorization", "Token "+token)
		}
		answer, err := client.Do(q)
		if err != nil {
			return 0, err
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if answer.StatusCode/100 != 2 {
			return answer.StatusCode, fmt.Errorf("%s: %s", answer.Status, text)
		}
		return answer.StatusCode, nil
	}
}

// isOld asks a server whether it has no API of version 2.
func isOld(ctx context.Context, address string) (bool, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/ping", nil)
	if err != nil {
		return false, err
	}
	answer, err := (&http.Client{Timeout: requestLimit}).Do(q)
	if err != nil {
		return false, err
	}
	_ = answer.Body.Close()
	version := strings.TrimPrefix(answer.Header.Get("X-Influxdb-Version"), "v")
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return false, nil
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && minor < 8, nil
}
