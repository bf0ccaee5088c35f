package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/ironyard/ironyard/ops/site"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

type siteCommand struct {
	Join  siteJoin  `cmd:"" help:"Join the fleet as a hub server, site server or rackd, with a token of 'central token'."`
	Serve siteServe `cmd:"" help:"Run the NATS server of a folder made by 'join'."`
	Renew siteRenew `cmd:"" help:"Renew a folder now. Running servers and rackds renew theirs by themselves."`
}

type siteJoin struct {
	Token string `arg:"" help:"Token. '-' reads it from standard input."`
	Dir   string `help:"Folder for keys and certificates." required:"" type:"path"`
	Name  string `help:"Name of the rackd, if the token does not fix it. Default: the host name."`
}

func (c siteJoin) Run(ctx context.Context) error {
	text := c.Token
	if text == "-" {
		raw := make([]byte, 16<<10)
		n, err := os.Stdin.Read(raw)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		text = string(raw[:n])
	}
	t, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		host, _ := os.Hostname()
		name = strings.ToLower(host)
	}
	m, err := membership.Join(ctx, t, c.Dir, name)
	if err != nil {
		return err
	}
	fmt.Printf("joined as %s\ncertificates until %s, renewed by what runs from %s\n", m.Scope, m.Expires.Local().Format(time.RFC1123), c.Dir)
	if m.Scope.Role == join.Rackd {
		fmt.Printf("next: rackd --member %s\n", c.Dir)
		return nil
	}
	path, err := site.WriteConfig(m, "")
	if err != nil {
		return err
	}
	fmt.Printf("next: ironyard site serve --dir %s    (or: nats-server -c %s)\n", c.Dir, path)
	return nil
}

type siteServe struct {
	Dir    string `help:"Folder made by 'join'." required:"" type:"existingdir"`
	Listen string `help:"Address to listen on. Default: all. The port is that of the address in the token, usually 4222. The ports for the cluster and for leaf nodes are 2000 and 3200 above it."`
}

func (c siteServe) Run(ctx context.Context, log *slog.Logger) error {
	return site.Serve(ctx, site.Options{Dir: c.Dir, Listen: c.Listen, Log: log}, func(m *membership.Member) { fmt.Printf("%s is ready\n", m.Scope) })
}

type siteRenew struct {
	Dir    string `help:"Folder made by 'join'." required:"" type:"existingdir"`
	Listen string `help:"Address on which a server listens, as in 'serve'."`
}

func (c siteRenew) Run(ctx context.Context) error {
	m, err := membership.Open(c.Dir)
	if err != nil {
		return err
	}
	changed, err := m.Renew(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("renewed %s until %s\n", m.Scope, m.Expires.Local().Format(time.RFC1123))
	if changed {
		fmt.Println("keys, accounts or servers have changed: what runs from this folder takes them up within seconds; a nats-server of its own is told with 'nats-server --signal reload'")
	}
	if m.Scope.Role == join.Rackd {
		return nil
	}
	_, err = site.WriteConfig(m, c.Listen)
	return err
}
