package ipmi

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
)

// Intel is the management interface of machines with Intel's Speed Select, Ironic's intel-ipmitool.
type Intel struct{ *Driver }

const argProfile, argSockets = "intel_speedselect_config", "socket_count"

// mostSockets is how many sockets the command can name.
const mostSockets = 16

// NamedSteps lists the step that chooses a performance profile. It runs where a request or a template names it.
func (i Intel) NamedSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "management", Name: "configure_intel_speedselect", Kind: driver.Repeatable, Retries: 2, In: driver.InDeploy, NoRamdisk: true,
		Takes: map[string]driver.Argument{
			argProfile: {Description: "Hexadecimal code of the Intel SST-PP configuration: 0x00, 0x01 or 0x02.", Required: true},
			argSockets: {Description: "Number of sockets, a positive integer. Default 1."},
		},
		Check: func(n *node.Document, args map[string]any) error {
			if _, _, err := profile(args); err != nil {
				return invalid(n, "%v", err)
			}
			return nil
		},
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			return driver.Done(), i.configure(ctx, t.Fence, t.Node, t.Args)
		}}}
}

func profile(args map[string]any) (code uint8, sockets int, err error) {
	text, _ := args[argProfile].(string)
	switch text {
	case "0x00", "0x01", "0x02":
		code = text[3] - '0'
	default:
		return 0, 0, driver.Refuse("Invalid Intel SST-PP configuration value %q specified: valid values are 0x00, 0x01, 0x02", text)
	}
	sockets = 1
	if v := args[argSockets]; v != nil {
		if sockets, err = strconv.Atoi(fmt.Sprint(v)); err != nil || sockets < 1 || sockets > mostSockets {
			return 0, 0, driver.Refuse("Invalid number of socket %v value specified: expected a positive integer, at most %d", v, mostSockets)
		}
	}
	return code, sockets, nil
}

// configure tells each socket its profile. It takes effect at the machine's next start.
func (i Intel) configure(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) error {
	code, sockets, err := profile(args)
	if err != nil {
		return invalid(n, "%v", err)
	}
	return i.with(ctx, f, n, "configure Intel Speed Select", func(c *conn) error {
		for socket := range sockets {
			// Network function, command and data as Ironic sends them.
			if _, err := c.tellOf(lan.Request{NetFn: 0x2C, Command: 0x41, Data: []byte{0x04, 0x00, uint8(socket), code}}); err != nil {
				return fmt.Errorf("socket %d: %w", socket, err)
			}
		}
		return nil
	})
}
