package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// What Keystone's Identity API v3 says of a token.
type tokenBody struct {
	Token struct {
		Expires time.Time     `json:"expires_at"`
		Roles   []keystoneRef `json:"roles"`
		User    keystoneOwned `json:"user"`
		Project keystoneOwned `json:"project"`
		System  struct {
			All bool `json:"all"`
		} `json:"system"`
	} `json:"token"`
}

type keystoneRef struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

type keystoneOwned struct {
	keystoneRef
	Domain keystoneRef `json:"domain"`
}

// validate asks about a token: errNotGood when it is none, or no longer. Our own token is
// made anew once, when Keystone does not take it any more.
func (k *Keystone) validate(ctx context.Context, token string) (*Caller, time.Time, error) {
	for fresh := false; ; fresh = true {
		own, err := k.ownToken(ctx, fresh)
		if err != nil {
			return nil, time.Time{}, err
		}
		var body tokenBody
		status, _, err := k.do(ctx, http.MethodGet, http.Header{"X-Auth-Token": {own}, "X-Subject-Token": {token}}, nil, &body)
		switch {
		case err != nil:
			return nil, time.Time{}, err
		case status == http.StatusOK:
			return body.caller(), body.Token.Expires, nil
		case status == http.StatusNotFound:
			return nil, time.Time{}, errNotGood
		case status != http.StatusUnauthorized || fresh:
			return nil, time.Time{}, fmt.Errorf("it answered %d to account %s, which must be allowed to validate tokens", status, k.cfg.Username)
		}
	}
}

func (b *tokenBody) caller() *Caller {
	t := &b.Token
	c := &Caller{User: t.User.Name, UserID: t.User.ID, Domain: t.User.Domain.ID, System: t.System.All}
	if !c.System {
		c.Project, c.ProjectName, c.ProjectDomain = t.Project.ID, t.Project.Name, t.Project.Domain.ID
	}
	var roles []string
	for _, r := range t.Roles {
		roles = append(roles, r.Name)
	}
	c.Roles = lower(roles)
	return c
}

// ownToken is the token of our account; fresh: a new one.
func (k *Keystone) ownToken(ctx context.Context, fresh bool) (string, error) {
	k.mu.Lock()
	own := k.service
	k.mu.Unlock()
	if own != "" && !fresh {
		return own, nil
	}
	scope := map[string]any{"system": map[string]any{"all": true}}
	if k.cfg.Project != "" {
		scope = map[string]any{"project": map[string]any{"name": k.cfg.Project, "domain": keystoneRef{Name: k.cfg.ProjectDomain}}}
	}
	request := map[string]any{"auth": map[string]any{"scope": scope, "identity": map[string]any{"methods": []string{"password"},
		"password": map[string]any{"user": map[string]any{"name": k.cfg.Username, "password": k.cfg.Password, "domain": keystoneRef{Name: k.cfg.UserDomain}}}}}}
	status, header, err := k.do(ctx, http.MethodPost, http.Header{"Content-Type": {"application/json"}}, request, nil)
	if err != nil {
		return "", err
	}
	if own = header.Get("X-Subject-Token"); status != http.StatusCreated || own == "" {
		return "", fmt.Errorf("it answered %d when account %s asked for a token; check the account's name, password, domain and scope", status, k.cfg.Username)
	}
	k.mu.Lock()
	k.service = own
	k.mu.Unlock()
	return own, nil
}

// maxAnswer bounds what is read of an answer: catalogues are left out, roles are few.
const maxAnswer = 1 << 20

// do sends a request about tokens and decodes the answer to a 200 into out.
func (k *Keystone) do(ctx context.Context, method string, header http.Header, in, out any) (status int, got http.Header, err error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, k.cfg.URL+"/v3/auth/tokens?nocatalog", body)
	if err != nil {
		return 0, nil, err
	}
	req.Header = header
	res, err := k.cfg.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, err
	}
	if out != nil && res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, out); err != nil {
			return 0, nil, fmt.Errorf("its answer does not follow the Identity API v3: %w", err)
		}
	}
	return res.StatusCode, res.Header, nil
}
