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
	Hub    hubTokens   `cmd:"" help:"Make tokens for the hub's servers, one each."`
	Bus    busTokens   `cmd:"" help:"Make tokens for a site's NATS servers, one each: one server, or three."`
	Rackd  rackdToken  `cmd:"" help:"Make a token for a rackd."`
	List   listTokens  `cmd:"" help:"Show the tokens that can still be used; the secrets are in no list."`
	Revoke revokeToken `cmd:"" help:"Make a token worthless that nobody has used."`
}

// making is common to commands that make tokens.
type making struct {
	authority
	URL     string        `help:"Where joiners find central's --enrol-listen." required:"" env:"CENTRAL_ENROL_URL" placeholder:"https://HOST:6387"`
	TLSCert string        `help:"The certificate that central shows there, if it is not the fleet's own; PEM. Joiners trust the last in the file." type:"existingfile" placeholder:"FILE" env:"CENTRAL_TLS_CERT"`
	Life    time.Duration `help:"How long a token works." default:"24h"`
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
	Address []string `arg:"" help:"Address of each server, as others reach it: HOST, or HOST:PORT where clients are to connect elsewhere than at 4222; its ports for the cluster and for leafs move along (usually 6222 and 7422)."`
}

// Run is called by kong.
func (c *hubTokens) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	return c.make(ctx, out, log, servers(join.Scope{Role: join.Hub}, c.Address)...)
}

type busTokens struct {
	making
	Site    string   `help:"The site, a JetStream domain." required:""`
	Address []string `arg:"" help:"Address of each server, as others reach it: HOST, or HOST:PORT where clients are to connect elsewhere than at 4222; its ports for the cluster and for leafs move along (usually 6222 and 7422)."`
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
	Site       string   `help:"The site whose bus it uses." required:""`
	Group      string   `help:"Its conductor group."`
	FailoverOf []string `help:"Conductor groups that its group stands in for (see 'central serve --failover')."`
	Name       string   `arg:"" optional:"" help:"Its name; one that is taken is replaced. Default: the joiner's choice."`
}

// Run is called by kong.
func (c *rackdToken) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	return c.make(ctx, out, log, join.Scope{Role: join.Rackd, Site: c.Site, Group: c.Group, FailoverOf: c.FailoverOf, Name: c.Name})
}

type revokeToken struct {
	authority
	ID string `arg:"" help:"The token's id, as it was printed and 'central token list' shows it."`
}

// Run is called by kong.
func (c *revokeToken) Run(ctx context.Context, log *slog.Logger) error {
	return c.with(ctx, log, func(a *enrol.Authority) error { return a.RevokeToken(ctx, c.ID) })
}

type memberCommand struct {
	List   listMembers  `cmd:"" help:"Show who belongs to the fleet, and until when if it does not renew."`
	Revoke revokeMember `cmd:"" help:"Put a member out: it renews nothing, others refuse it from their next renewal on, and the keys of a rackd's groups are replaced. What is left to do is printed."`
}

type revokeMember struct {
	authority
	Role string `arg:"" enum:"hub,bus,rackd" help:"hub, bus or rackd."`
	Name string `arg:"" help:"Its name, as 'central member list' shows it."`
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
