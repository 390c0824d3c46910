package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// handler answers or fails; the failure is written in one place.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) handler(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			Fail(w, r, s.log, err)
		}
	})
}

// readJSON reads a request's only JSON object strictly.
func readJSON(r *http.Request, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxOpenBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge(large.Limit)
	}
	if known := model.Shown(err); known != nil {
		return known
	}
	if err == nil && dec.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		return model.Errorf(model.CodeInvalid, "the request's body is not the JSON object expected: %v", err)
	}
	return nil
}

// signIn trades a one-time token for the page's cookie.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Token string `json:"token"`
	}
	if err := readJSON(r, &body); err != nil {
		return err
	}
	session, err := s.keyring.SignIn(r.Context(), s.links, body.Token)
	if err != nil {
		return err
	}
	s.security.note(r.Context(), eventSignIn, "", "key", session.KeyID)
	if session.Secret != "" {
		http.SetCookie(w, &http.Cookie{
			Name: cookieName(r), Value: session.Secret, Path: "/", Expires: session.Expires,
			HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
		})
	}
	WriteJSON(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

// signOut ends the page's session: its cookie goes, and the key that a one-time link
// made is revoked. An API key that was traded for the cookie stays good elsewhere.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		id, err := s.keyring.SignOut(r.Context(), cookie.Value)
		if err != nil {
			return err
		}
		if id != "" {
			s.security.note(r.Context(), eventSignOut, "", "key", id)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) createKey(w http.ResponseWriter, r *http.Request) error {
	var body auth.Request
	if err := readJSON(r, &body); err != nil {
		return err
	}
	secret, key, err := s.keyring.Create(r.Context(), specOf(&body))
	if err != nil {
		return err
	}
	s.made(w, r, secret, key)
	return nil
}

func specOf(body *auth.Request) auth.KeySpec {
	const maxSeconds = int64(1<<63-1) / int64(time.Second)
	body.Expires = time.Duration(min(max(body.ExpiresSeconds, -1), maxSeconds)) * time.Second
	return body.KeySpec
}

// made answers with a key that was just made.
func (s *Server) made(w http.ResponseWriter, r *http.Request, secret string, key auth.Key) {
	s.security.note(r.Context(), eventKeyMade, "", "key", key.ID, "name", key.Name, "scopes", key.Scopes, "workspace", key.Workspace, "project", key.Project)
	doc := auth.NewDocument(key, s.options.Now())
	doc.Key = secret
	WriteJSON(w, http.StatusCreated, doc)
}

// tradeLink trades a one-time link's token for a key.
func (s *Server) tradeLink(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		auth.Request
		Token string `json:"token"`
	}
	if err := readJSON(r, &body); err != nil {
		return err
	}
	secret, key, err := s.keyring.Trade(r.Context(), s.links, body.Token, specOf(&body.Request))
	if err != nil {
		return err
	}
	s.made(w, r, secret, key)
	return nil
}

// ownKey describes the caller's key; a server that checks none has no id and no scopes.
func (s *Server) ownKey(w http.ResponseWriter, r *http.Request) error {
	key, err := s.keyring.Own(r.Context())
	if err != nil {
		return err
	}
	if key == nil {
		WriteJSON(w, http.StatusOK, auth.Document{Name: "anyone", Scopes: []auth.Scope{}, State: "valid"})
		return nil
	}
	WriteJSON(w, http.StatusOK, auth.NewDocument(*key, s.options.Now()))
	return nil
}

// endOwnKey revokes the caller's key, which a login made.
func (s *Server) endOwnKey(w http.ResponseWriter, r *http.Request) error {
	id, err := s.keyring.EndOwn(r.Context())
	if err != nil {
		return err
	}
	if id != "" {
		s.security.note(r.Context(), eventRevoked, "", "key", id)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.keyring.List(r.Context())
	if err != nil {
		return err
	}
	WriteJSON(w, http.StatusOK, map[string][]auth.Document{"keys": auth.Documents(keys, s.options.Now())})
	return nil
}

func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.keyring.Revoke(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	s.security.note(r.Context(), eventRevoked, "", "key", r.PathValue("id"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// createLink makes a one-time link for somebody who has a key but no page.
func (s *Server) createLink(w http.ResponseWriter, _ *http.Request) error {
	token, expires := s.links.Issue()
	WriteJSON(w, http.StatusCreated, map[string]any{
		"link": s.Address() + loginPath + token, "expires_ns": expires.UnixNano(),
	})
	return nil
}
