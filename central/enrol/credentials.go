package enrol

import (
	"context"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/permit"
)

// user signs the credentials of a user.
func user(account nkeys.KeyPair, public, name string, rules *permit.Rules, connection string, expires time.Time) (string, error) {
	u := jwt.NewUserClaims(public)
	u.Name = name
	u.Expires = expires.Unix()
	u.AllowedConnectionTypes = jwt.StringList{connection}
	if rules != nil {
		u.Pub.Allow = permit.Subjects(rules.Publish)
		u.Sub.Allow = permit.Subjects(rules.Subscribe)
		if rules.Answers {
			u.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 2 * ask.Timeout}
		}
	}
	return u.Encode(account)
}

// memberUser signs what a member shows on the bus; empty for a hub's server, which
// connects to nothing.
func (a *Authority) memberUser(ctx context.Context, public string, scope join.Scope, expires time.Time) (string, error) {
	if scope.Role == join.Hub {
		return "", nil
	}
	k, err := a.site(ctx, scope.Site)
	if err != nil {
		return "", err
	}
	if scope.Role == join.Bus {
		// The link carries the site's account and no other: inside it the site is at home.
		return user(k.site, public, scope.Name, nil, jwt.ConnectionTypeLeafnode, expires)
	}
	rules, err := permit.Rackd(scope.Group, scope.Name, scope.FailoverOf...)
	if err != nil {
		return "", err
	}
	return user(k.racks, public, scope.Name, &rules, jwt.ConnectionTypeStandard, expires)
}
