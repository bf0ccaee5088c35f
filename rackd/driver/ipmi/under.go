package ipmi

import (
	"context"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Names are the fields of driver_info by which another driver reaches its BMC, whose IPMI has the same address and account.
type Names struct{ Address, User, Password, Port string }

// pairs are the fields of both drivers.
func (f Names) pairs() []string {
	return []string{fieldAddress, f.Address, fieldUser, f.User, fieldPassword, f.Password, fieldPort, f.Port}
}

// Node is the node as the driver of IPMI reads it.
func (f Names) Node(n *node.Document) *node.Document {
	with := *n
	with.DriverInfo = map[string]any{}
	for p := f.pairs(); len(p) > 0; p = p[2:] {
		if text := n.DriverString(p[1]); text != "" {
			with.DriverInfo[p[0]] = text
		}
	}
	with.DriverInfo[fieldAddress] = strings.Trim(n.DriverString(f.Address), "[]")
	return &with
}

// InTheirWords names the node's own fields in an error of the driver of IPMI.
func (f Names) InTheirWords(err error) error {
	if err == nil {
		return nil
	}
	return &renamed{err, strings.NewReplacer(f.pairs()...).Replace(err.Error())}
}

// renamed is an error with other names of fields.
type renamed struct {
	error
	text string
}

func (r *renamed) Error() string { return r.text }

// Unwrap returns the error with the names of before.
func (r *renamed) Unwrap() error { return r.error }

// Under is the console interface of machines that another driver reaches: Serial over LAN at the address, and with the account, that its
// fields name.
type Under struct {
	SOL Console
	// Other is of that driver: it checks its fields, and describes them.
	Other driver.Interface
	Names Names
}

// NamedSteps is empty.
func (Under) NamedSteps(*node.Document) []driver.Step { return nil }

// Properties names the fields that are read, in driver_info.
func (u Under) Properties() map[string]string {
	fields := map[string]string{}
	for name, what := range u.Other.Properties() {
		fields[name] = what
	}
	if _, told := fields[u.Names.Port]; told {
		return fields
	}
	fields[u.Names.Port] = "UDP port of the BMC for IPMI. Default 623. Optional."
	return fields
}

// Account implements driver.Accounted: that of the other driver.
func (u Under) Account(n *node.Document) string { return u.SOL.Account(u.Names.Node(n)) }

// Validate checks driver_info.
func (u Under) Validate(n *node.Document) error {
	if err := u.Other.Validate(n); err != nil {
		return err
	}
	return u.Names.InTheirWords(u.SOL.Validate(u.Names.Node(n)))
}

// StartConsole implements driver.Console.
func (u Under) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	return u.Names.InTheirWords(u.SOL.StartConsole(ctx, f, u.Names.Node(n)))
}

// StopConsole implements driver.Console.
func (u Under) StopConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	return u.SOL.StopConsole(ctx, f, n)
}

// Console implements driver.Console.
func (u Under) Console(ctx context.Context, n *node.Document) (map[string]any, error) {
	return u.SOL.Console(ctx, n)
}

// OpenConsole implements driver.Serial.
func (u Under) OpenConsole(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	line, err := u.SOL.OpenConsole(ctx, f, u.Names.Node(n))
	if err != nil {
		return nil, u.Names.InTheirWords(err)
	}
	return line, nil
}
