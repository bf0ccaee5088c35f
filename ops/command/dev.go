package command

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/stack"
)

type devCommand struct {
	Listen   string        `help:"Address of the API." default:"127.0.0.1:6385"`
	Data     string        `help:"Folder for database, bus and key. A restart continues from it." default:"ironyard-dev" type:"path"`
	Database string        `help:"Use this database instead of SQLite: postgres://…"`
	Observe  string        `help:"Address of the rackd's /metrics. Empty: none. Central's metrics are at the address of the API." placeholder:"HOST:PORT"`
	NoVNC    string        `help:"Folder with noVNC, such as /usr/share/novnc of Debian's package novnc: a page shows the pictures of machines with console interface fake-graphical." name:"novnc" type:"existingdir" placeholder:"FOLDER"`
	Drivers  []string      `help:"Hardware types beside fake-hardware, such as redfish,ipmi. Their machines and BMCs are real ones, or emulated." placeholder:"TYPE,..."`
	Delay    time.Duration `help:"Duration of each step of a fake machine."`
}

func (c devCommand) Run(ctx context.Context, log *slog.Logger) error {
	began := time.Now()
	return dev.Run(ctx, c.options(log), func(s *stack.Stack) {
		fmt.Printf("ready in %d ms: API on %s, no authentication, fake machines\n\n", time.Since(began).Milliseconds(), s.Endpoint)
		fmt.Printf("Try, in another terminal:\n  export OS_AUTH_TYPE=none OS_ENDPOINT=%s\n"+
			"  baremetal node create --driver fake-hardware --name one\n  baremetal node manage one --wait\n  baremetal node provide one --wait\n"+
			"  baremetal node set one --instance-info image_source=http://example.org/i.raw --instance-info image_checksum=%064d\n"+
			"  baremetal node deploy one --wait\n  baremetal node list\n\nCtrl-C stops it; --data %s keeps everything.\n", s.Endpoint, 0, c.Data)
	})
}

func (c devCommand) options(log *slog.Logger) dev.Options {
	return dev.Options{Listen: c.Listen, Data: c.Data, Database: c.Database, Observe: c.Observe, Delay: c.Delay, NoVNC: c.NoVNC, Log: log,
		Drivers: c.Drivers}
}
