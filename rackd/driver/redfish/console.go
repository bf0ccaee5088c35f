package redfish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stmcginnis/gofish"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
)

// Fields of driver_info of the serial console. Ironic has none: its nodes of Redfish have no serial console.
const (
	fieldSSHHostKey   = "redfish_ssh_host_key"
	fieldSSHSharedCLI = "redfish_ssh_shared_cli"
)

// ownSSH are these fields (Dialect.SSH).
func ownSSH() (hostKey, sharedCLI string) { return fieldSSHHostKey, fieldSSHSharedCLI }

// Console is the console interface redfish-serial: the serial console that a system's SerialConsole tells of, by a WebSocket or by
// SSH, with the account of the other calls.
//
// Where SSH leads to the BMC's own command line, its command that enters the console is run alone, without a shell behind it. Some
// firmware may let a person out of the console all the same, into the command line with the BMC's account. So this way is taken
// only where the node says that it may be.
type Console struct{ *Driver }

// door is the turn at a BMC's SSH server. It holds nothing: the line owns the connection.
type door struct{}

// Close implements bmc.Session.
func (door) Close(context.Context) {}

// Drop implements bmc.Session.
func (door) Drop() {}

// NamedSteps is empty.
func (Console) NamedSteps(*node.Document) []driver.Step { return nil }

// Properties names the fields that are read, in driver_info.
func (c Console) Properties() map[string]string {
	fields := maps.Clone(c.Driver.Properties())
	hostKey, sharedCLI := c.pool.opts.Dialect.SSH()
	fields[hostKey] = "Public key of the BMC's SSH server, as in a line of known_hosts, or false: it is not checked. Required where the BMC gives its serial console by SSH."
	fields[sharedCLI] = "Whether the serial console may be entered through the BMC's own command line, true or false: firmware may let a person who uses the console out into that command line, with the BMC's account. Default false."
	return fields
}

// terms are what a node says of consoles by SSH.
type terms struct {
	given   bool // hostKey is the operator's word, also if it is nil
	hostKey ssh.PublicKey
	shared  bool
}

func (c Console) termsOf(n *node.Document) (t terms, err error) {
	hostKey, sharedCLI := c.pool.opts.Dialect.SSH()
	if text := n.DriverString(hostKey); text != "" {
		t.given = true
		if t.hostKey, err = bmc.HostKey(hostKey, text); err != nil {
			return t, fmt.Errorf("node %s: %w", n.Label(), err)
		}
	}
	if text := n.DriverString(sharedCLI); text != "" {
		if t.shared, err = strconv.ParseBool(strings.ToLower(text)); err != nil {
			return t, fmt.Errorf("node %s: driver_info: %s is %q: give true or false: %w", n.Label(), sharedCLI, text, driver.ErrInvalid)
		}
	}
	return t, nil
}

// Validate checks driver_info.
func (c Console) Validate(n *node.Document) error {
	if err := c.Driver.Validate(n); err != nil {
		return err
	}
	_, err := c.termsOf(n)
	return err
}

// StartConsole opens the console and gives it back, so that who asks for it hears what is in the way.
func (c Console) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	line, err := c.OpenConsole(ctx, f, n)
	if err != nil {
		return err
	}
	line.Close(ctx)
	return nil
}

// StopConsole has nothing to do: the rackd that holds the console gives it back.
func (Console) StopConsole(context.Context, driver.Fence, *node.Document) error { return nil }

// Console finds nothing to say: rackd carries the console.
func (Console) Console(context.Context, *node.Document) (map[string]any, error) { return nil, nil }

const openingConsole = "open the serial console"

// OpenConsole implements driver.Serial.
func (c Console) OpenConsole(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	if err := c.Validate(n); err != nil {
		return nil, err
	}
	t, err := c.termsOf(n)
	if err != nil {
		return nil, err
	}
	var from account
	var stream serialline.Stream
	var taken way
	err = c.pool.with(ctx, nil, n, openingConsole, func(b *session, a account, client *gofish.APIClient) error {
		s, err := b.system(client, a)
		if err != nil {
			return err
		}
		ways, err := waysTo(client, s)
		if err != nil {
			return err
		}
		from = a
		for i, w := range ways {
			taken = w
			if w.path == "" {
				return nil // SSH is another server, with a turn of its own
			}
			stream, err = c.webSocket(ctx, f, b, a, w.path)
			if !w.guessed || status(err) != http.StatusNotFound || i == len(ways)-1 {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	what := "the serial console of " + from.endpoint + " by a WebSocket"
	if taken.path == "" {
		if stream, err = c.bySSH(ctx, f, n, from, t, taken); err != nil {
			return nil, err
		}
		what = "the serial console of " + from.endpoint + " by SSH"
	}
	return serialline.New(stream, serialline.Options{Node: n, Fence: f, What: what, Secrets: []string{from.password}}), nil
}

// bySSH opens the console at the BMC's SSH server. Credentials that it refuses rest there; Redfish goes on with them.
func (c Console) bySSH(ctx context.Context, f driver.Fence, n *node.Document, a account, t terms, w way) (serialline.Stream, error) {
	u, err := url.Parse(a.endpoint)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(u.Hostname(), strconv.Itoa(cmp.Or(w.port, 22)))
	hostKey, sharedCLI := c.pool.opts.Dialect.SSH()
	attempt := bmc.Attempt{Node: n, Doing: openingConsole, BMC: address, User: a.user, Secrets: []string{a.password}, Again: bmc.ConsoleAgain(n),
		Fields: bmc.Fields{Address: a.names.Address, User: a.names.User, Password: a.names.Password, VerifyCA: hostKey}}
	switch {
	case !t.given:
		err = fmt.Errorf("it gives its serial console by SSH: set driver_info %s to the key of that server, or to false: %w", hostKey, driver.ErrInvalid)
	case a.user == "":
		err = fmt.Errorf("it gives its serial console by SSH: set %s and %s: %w", a.names.User, a.names.Password, driver.ErrInvalid)
	case w.shared && w.command == "":
		err = fmt.Errorf("its SSH server leads to its own command line, and it does not tell the command that enters the console: %w", driver.ErrUnsupported)
	case w.shared && !t.shared:
		err = fmt.Errorf("its SSH server leads to its own command line, and its firmware may let a person who uses the console out into it: set driver_info %s to true if they may: %w", sharedCLI, driver.ErrInvalid)
	}
	if err != nil {
		return nil, attempt.Explain(err)
	}
	o := c.pool.opts
	host := bmc.SSH{Address: address, User: a.user, Password: a.password, HostKey: t.hostKey, HostKeyField: hostKey}
	sum := sha256.Sum256([]byte(strings.Join([]string{address, a.user, a.password, n.DriverString(hostKey)}, "\x00")))
	var stream serialline.Stream
	err = c.doors.Use(ctx, bmc.Account{Address: address, Sum: sum, Node: n}, func(context.Context) (door, error) { return door{}, nil }, func(door) error {
		if err := f.Check(); err != nil {
			return err
		}
		dial, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
		defer cancel()
		client, err := host.Dial(dial, o.ConnectTimeout, o.Networks)
		if err != nil {
			return err
		}
		stream, err = serialline.Shell(dial, client, w.command)
		return err
	})
	return stream, attempt.Explain(err)
}
