package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// maxPage is the most that lists give at once.
const maxPage = 1_000

// List is a list over as many pages as it took.
type List struct {
	Items []json.RawMessage
	Next  string // the cursor after the last item, when a limit ended the list
	field string
}

// List reads the pages of a list up to limit items, 0 for all. It sets limit and
// cursor in query; a cursor there already is where it begins. All pages together are one
// answer for [Client.Most] and [Client.Time].
func (c *Client) List(ctx context.Context, path, field string, query url.Values, limit int) (*List, error) {
	if c.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Time)
		defer cancel()
	}
	out := &List{field: field, Items: []json.RawMessage{}, Next: query.Get("cursor")}
	for taken := int64(0); ; {
		size := maxPage
		if limit > 0 {
			size = min(size, limit-len(out.Items))
		}
		query.Set("limit", strconv.Itoa(size))
		if out.Next != "" {
			query.Set("cursor", out.Next)
		}
		body, err := c.Document(ctx, http.MethodGet, path, query)
		if err != nil {
			return nil, err
		}
		taken += int64(len(body))
		if err := out.add(body); err != nil {
			return nil, err
		}
		if out.Next != "" && (out.Next == query.Get("cursor") || c.Most > 0 && taken > c.Most) {
			return nil, model.Errorf(model.CodeTooLarge, "the server's list of %s has no end: %d entries, %d KiB, and more", field, len(out.Items), taken>>10).
				WithHint("Is the address that of a Kymogram server that you trust?")
		}
		if out.Next == "" || (limit > 0 && len(out.Items) >= limit) {
			return out, nil
		}
	}
}

func (l *List) add(body json.RawMessage) error {
	var page map[string]json.RawMessage
	if err := json.Unmarshal(body, &page); err != nil {
		return fmt.Errorf("read the server's list: %w", err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(page[l.field], &items); err != nil {
		return fmt.Errorf("read the server's list of %s: %w", l.field, err)
	}
	l.Items, l.Next = append(l.Items, items...), ""
	if next, ok := page["next"]; ok {
		return json.Unmarshal(next, &l.Next)
	}
	return nil
}

// MarshalJSON is the API's document: the items and where the list goes on.
func (l *List) MarshalJSON() ([]byte, error) {
	var next *string
	if l.Next != "" {
		next = &l.Next
	}
	return json.Marshal(map[string]any{l.field: l.Items, "next": next})
}
