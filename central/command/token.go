package command

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/protocol/join"
)

// authority is what token and member commands work with.
type authority struct {
	database
	keyFile
}

func (a authority) with(ctx context.Context, log *slog.Logger, f func(*enrol.Authority) error) error {
	key, err := a.key(log)
	if err != nil {
		return err
	}
	db, err := openUsed(ctx, a.Database, true)
	if err != nil {
		return err
	}
	auth, err := enrol.Open(ctx, db, key, nil)
	if err == nil {
		err = f(auth)
	}
	return errors.Join(err, db.Close())
}

type tokenCommand struct {
	Hub    hubTokens   `cmd:"" help:"Make one token for each server of the hub."`
	Bus    busTokens   `cmd:"" help:"Make one token for each NATS server of a site. A site has one server or three."`
	Rackd  rackdToken  `cmd:"" help:"Make a token for a rackd."`
	List   listTokens  `cmd:"" help:"List the tokens that can still be used, without their secrets."`
	Revoke revokeToken `cmd:"" help:"Revoke an unused token."`
}

// making is common to commands that make tokens.
type making struct {
	authority
	URL     string        `help:"URL of central's --enrol-listen, as joining machines reach it." required:"" env:"CENTRAL_ENROL_URL" placeholder:"https://HOST:6387"`
	TLSCert string        `help:"Certificate (PEM) that central shows there, if it is not the fleet's own. Joining machines trust the last certificate in the file." type:"existingfile" placeholder:"FILE" env:"CENTRAL_TLS_CERT"`
	Life    time.Duration `help:"Lifetime of a token." default:"24h"`
}

// make makes tokens and prints what to run on the joiners' machines.
func (m making) make(ctx context.Context, out io.Writer, log *slog.Logger, scopes ...join.Scope) error {
	at := join.Central{URL: m.URL}
	if m.TLSCert != "" {
		var err error
		if at.Fingerprint, err = lastFingerprint(m.TLSCert); err != nil {
			return err
		}
	}
	return m.with(ctx, log, func(a *enrol.Authority) error {
		tokens, err := a.NewTokens(ctx, at, m.Life, scopes...)
		if err != nil {
			return err
		}
		for _, t := range tokens {
			where := t.Scope.Address
			if where == "" {
				where = t.Scope.Name
			}
			if where == "" {
				where = "the rackd's machine"
			}
			if _, err := fmt.Fprintf(out, "# %s; on %s, until %s; token %s\nironyard site join --dir /etc/ironyard/%s %s\n", t.Scope, where,
				t.Expires.Local().Format(time.RFC1123), t.ID, t.Scope.Role, t); err != nil {
				return err
			}
		}
		return nil
	})
}

func lastFingerprint(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var last *x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if last, err = x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	}
	if last == nil {
		return "", fmt.Errorf("%s holds no certificate", path)
	}
	return join.Fingerprint(last), nil
}

type hubTokens struct {
	making
	Address []string `arg:"" help:"Address of each server, as others reach it: HOST or HOST:PORT. The port for clients is 4222 by default. The ports for the cluster and for leaf nodes are 2000 and 3200 above it (6222 and 7422)."`
}

// Run is called by kong.
func (c *hubTokens) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	return c.make(ctx, out, log, servers(join.Scope{Role: join.Hub}, c.Address)...)
}

type busTokens struct {
	making
	Site    string   `help:"Name of the site, which is its JetStream domain." required:""`
	Address []string `arg:"" help:"Address of each server, as others reach it: HOST or HOST:PORT. The port for clients is 4222 by default. The ports for the cluster and for leaf nodes are 2000 and 3200 above it (6222 and 7422)."`
}

// Run is called by kong.
func (c *busTokens) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	return c.make(ctx, out, log, servers(join.Scope{Role: join.Bus, Site: c.Site}, c.Address)...)
}

// servers returns the scopes of the servers of one cluster.
func servers(s join.Scope, addresses []string) []join.Scope {
	var list []join.Scope
	for _, a := range addresses {
		s.Address, s.Name, s.Peers = a, s.Site+"-"+nameOf(a), addresses
		if s.Role == join.Hub {
			s.Name = "hub-" + nameOf(a)
		}
		list = append(list, s)
	}
	return list
}

// nameOf is an address as part of a name, which has no colons.
func nameOf(address string) string {
	return strings.Trim(strings.NewReplacer(":", "-", "[", "", "]", "").Replace(address), "-")
}

type rackdToken struct {
	making
	Site       string   `help:"Site whose bus the rackd uses." required:""`
	Group      string   `help:"Conductor group of the rackd."`
	FailoverOf []string `help:"Conductor groups that this group stands in for (see 'central serve --failover')."`
	Name       string   `arg:"" optional:"" help:"Name of the rackd. A rackd of that name is replaced. Default: the joining machine chooses."`
}

// Run is called by kong.
func (c *rackdToken) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	return c.make(ctx, out, log, join.Scope{Role: join.Rackd, Site: c.Site, Group: c.Group, FailoverOf: c.FailoverOf, Name: c.Name})
}

type revokeToken struct {
	authority
	ID string `arg:"" help:"Id of the token, as 'central token list' shows it."`
}

// Run is called by kong.
func (c *revokeToken) Run(ctx context.Context, log *slog.Logger) error {
	return c.with(ctx, log, func(a *enrol.Authority) error { return a.RevokeToken(ctx, c.ID) })
}

type memberCommand struct {
	List   listMembers  `cmd:"" help:"List the members of the fleet, with the time until which each may go without renewal."`
	Revoke revokeMember `cmd:"" help:"Revoke a member. It can renew nothing, and others refuse it after their next renewal. The keys of a rackd's groups are replaced. The command prints what is left to do."`
}

type revokeMember struct {
	authority
	Role string `arg:"" enum:"hub,bus,rackd" help:"hub, bus or rackd."`
	Name string `arg:"" help:"Name of the member, as 'central member list' shows it."`
}

// Run is called by kong.
func (c *revokeMember) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	err := c.with(ctx, log, func(a *enrol.Authority) error { return a.RevokeMember(ctx, join.Role(c.Role), c.Name) })
	if err == nil {
		_, err = fmt.Fprintf(out, "revoked %s %s\n%s\n", c.Role, c.Name, leftToDo[join.Role(c.Role)])
	}
	return err
}

// leftToDo is what a revocation does not do by itself.
var leftToDo = map[join.Role]string{
	join.Rackd: "now: central replaces the keys of its groups, those too that it stood in for; 'central member list' and 'central key groups' show how far that is\n" +
		"left to do: run 'ironyard site renew' on each server of its site, or wait an hour; " +
		"it could read the BMC passwords of its groups' nodes: change them when the stage is \"publishing\" or a later one, for then they are sealed with the new key (docs/enrolment.md, Revoking)",
	join.Bus: "left to do: run 'ironyard site renew' on each other server of its site and on each of the hub, or wait an hour",
	join.Hub: "left to do: run 'ironyard site renew' on each other server of the hub and on each server of the sites, or wait an hour",
}
