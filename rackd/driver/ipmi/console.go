package ipmi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Console is the console interface ipmitool-socat: Serial over LAN, in a session beside that of the other calls. No program and
// no port is opened for it; rackd carries what is written and typed.
type Console struct{ *Driver }

// NamedSteps is empty.
func (Console) NamedSteps(*node.Document) []driver.Step { return nil }

// Properties names the fields that are read, in driver_info.
func (c Console) Properties() map[string]string {
	fields := c.Driver.Properties()
	fields[fieldTerminal] = "Port of Ironic's console. It is checked and opens nothing: consoles have no ports here."
	return fields
}

// Validate checks driver_info. Serial over LAN is of IPMI 2.0, and of the BMC itself.
func (c Console) Validate(n *node.Document) error {
	if err := c.Driver.Validate(n); err != nil {
		return err
	}
	a, err := parse(n)
	switch {
	case err != nil:
		return err
	case a.old:
		return fmt.Errorf("node %s: Serial over LAN only works with IPMI protocol version 2.0. Check the '%s' parameter in node's driver_info: %w", n.Label(), fieldVersion, driver.ErrInvalid)
	case a.bridge != nil:
		return fmt.Errorf("node %s: Serial over LAN is of the BMC itself, and %s names a controller behind it: choose console_interface no-console: %w", n.Label(), fieldBridging, driver.ErrInvalid)
	}
	return nil
}

// The question whether Serial over LAN is enabled (section 26.3).
const (
	netFnTransport = 0x0C
	cmdSOLConfig   = 0x22
	solEnable      = 1
	presentChannel = 0x0E
)

// enabled asks the BMC whether Serial over LAN is enabled, in the session of the other calls: there, refused credentials rest.
func (c Console) enabled(ctx context.Context, n *node.Document) error {
	return c.with(ctx, nil, n, "asking whether Serial over LAN is enabled", func(k *conn) error {
		data, err := k.ask(netFnTransport, cmdSOLConfig, presentChannel, solEnable, 0, 0)
		switch {
		case codeOf(err) != 0:
			return nil // it does not tell: whether it is, the attempt shows
		case err != nil:
			return err
		case len(data) >= 2 && data[1]&1 == 0:
			return &bmc.Failure{Class: bmc.Invalid, Said: "that Serial over LAN is switched off: `ipmitool sol set enabled true` switches it on"}
		}
		return nil
	})
}

// StartConsole takes the console once and gives it back, so that who asks for it hears what is in the way. Another session of
// the console ends.
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
func (c Console) Console(_ context.Context, n *node.Document) (map[string]any, error) {
	return nil, nil
}

// OpenConsole implements driver.Serial.
func (c Console) OpenConsole(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	if err := c.Validate(n); err != nil {
		return nil, err
	}
	a, err := parse(n)
	if err != nil {
		return nil, err
	}
	if err := c.enabled(ctx, n); err != nil {
		return nil, err
	}
	t := lan.Target{Address: a.place(), Username: a.user, Password: a.password, Privilege: a.privilege, Key: a.key, Suites: c.suites.tried(a)}
	var k *lan.Console
	err = c.pool.Beside(ctx, bmc.Account{Address: a.place(), Sum: a.consoleSum(), Node: n}, func() (err error) {
		k, err = lan.OpenConsole(ctx, t, lan.Options{Tries: c.tries, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return outbound.Dialer(c.opts.Timeout, c.opts.Networks.Check).DialContext(ctx, "udp", address)
		}}, lan.ConsoleOptions{Before: f.Check, KeepAlive: c.opts.KeepAlive})
		return consoleFailure(err, a)
	})
	if err != nil {
		attempt := a.attempt(n, "opening Serial over LAN", err)
		attempt.Again = bmc.ConsoleAgain(n)
		return nil, attempt.Explain(err)
	}
	return &line{Console: k, account: a, node: n}, nil
}

// consoleSum is that of the console's logins. A session of before may go on with credentials that the console is refused with.
func (a account) consoleSum() [32]byte {
	sum := a.sum()
	return sha256.Sum256(append([]byte("console"), sum[:]...))
}

// consoleFailure sorts an error of a console that was not opened.
func consoleFailure(err error, a account) error {
	if err == nil || errors.Is(err, driver.ErrFenced) {
		return err
	}
	if refused, is := errors.AsType[*lan.PayloadError](err); is {
		return &bmc.Failure{Class: bmc.Refused, Said: refused.Said, Cause: err}
	}
	return refusal(err, a)
}

// line is an open console.
type line struct {
	*lan.Console
	account
	node *node.Document
}

// Read implements driver.Line.
func (l *line) Read(p []byte) (int, error) {
	n, err := l.Console.Read(p)
	if err != nil {
		err = fmt.Errorf("node %s: Serial over LAN of %s: %w: %w", l.node.Label(), strings.TrimSuffix(l.place(), ":623"), err, driver.ErrUnreachable)
	}
	return n, err
}

// Write implements driver.Line.
func (l *line) Write(ctx context.Context, p []byte) error {
	return l.typed(l.Console.Write(ctx, p))
}

// Break implements driver.Line.
func (l *line) Break(ctx context.Context) error {
	return l.typed(l.Console.Break(ctx))
}

// typed sorts an error of what was sent. left: some of it may have reached the machine.
func (l *line) typed(left bool, err error) error {
	switch {
	case err == nil || errors.Is(err, driver.ErrFenced):
		return err
	case left:
		return fmt.Errorf("node %s: the BMC did not say whether it took what was typed: %w: %w", l.node.Label(), err, driver.ErrUnknown)
	}
	return fmt.Errorf("node %s: the BMC did not take what was typed: %w: %w", l.node.Label(), err, driver.ErrUnreachable)
}
