package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/server/internal/auth"
)

// Parse reads what a person asks of a new key: scopes are comma-separated, project is
// WORKSPACE or WORKSPACE/PROJECT, expires a time such as 12h or 30d.
func Parse(name, scopes, project, expires string) (r auth.Request, err error) {
	if name == "" || scopes == "" {
		return r, errors.New("a key needs --name and --scope")
	}
	r.Name = name
	for scope := range strings.SplitSeq(scopes, ",") {
		r.Scopes = append(r.Scopes, auth.Scope(strings.TrimSpace(scope)))
	}
	r.Workspace, r.Project, _ = strings.Cut(project, "/")
	if expires != "" {
		life, err := parseLife(expires)
		if err != nil {
			return r, err
		}
		r.ExpiresSeconds = int64(life / time.Second)
	}
	return r, nil
}

// parseLife reads a duration; days, which time.ParseDuration lacks, too.
func parseLife(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("--expires is %q: give a time such as 12h or 30d", s)
	}
	return d, nil
}
