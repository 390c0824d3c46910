package keys

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
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

// PublicLink is the name of the keys behind public links; the page finds them by it.
const PublicLink = "public link"

// Public is the key of a public link: it reads one project and nothing else.
func Public(project, expires string) (auth.Request, error) {
	workspace, name, _ := strings.Cut(project, "/")
	if workspace == "" || name == "" || strings.Contains(name, "/") {
		return auth.Request{}, fmt.Errorf("%q is not WORKSPACE/PROJECT: a public link is for one project", project)
	}
	return Parse(PublicLink, string(auth.Read), project, expires)
}

// PublicAddress is the link of a key that was just made. The token is in the
// fragment, which browsers do not send.
func PublicAddress(server string, doc auth.Document) string {
	return server + "/network/" + url.PathEscape(doc.Workspace) + "/" + url.PathEscape(doc.Project) + "#" + doc.Key
}

// mostLife is beyond the life of any key.
const mostLife = 100_000 * duration.Day

// parseLife reads the life of a key.
func parseLife(s string) (time.Duration, error) {
	d, err := duration.Parse(s)
	switch {
	case err == nil && d < time.Second:
		err = errors.New("it is less than a second")
	case err == nil && d >= mostLife:
		err = fmt.Errorf("it is more than %s; without --expires a key is for ever", duration.Text(mostLife-duration.Day))
	}
	if err != nil {
		return 0, fmt.Errorf("--expires is %q, it must be a duration such as 12h or 30d: %w", s, err)
	}
	return d, nil
}
