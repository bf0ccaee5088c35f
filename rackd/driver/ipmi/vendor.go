package ipmi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
)

// Vendor is the vendor interface of machines whose BMC speaks IPMI: raw commands, resets of the BMC, and its event log. Ironic has the
// first two of them, under the same names.
type Vendor struct{ *Driver }

const argRawBytes, argWarm = "raw_bytes", "warm"

// NamedSteps lists send_raw, for cleaning, deploys and service, and the step that clears the event log.
func (v Vendor) NamedSteps(*node.Document) []driver.Step {
	return append([]driver.Step{{Interface: "vendor", Name: "send_raw", Kind: driver.Neither, NoRamdisk: true,
		Takes: map[string]driver.Argument{argRawBytes: {Description: "The request to the BMC as bytes: network function, command, data. For example 0x00 0x01.", Required: true}},
		Check: checkRaw,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			_, err := v.raw(ctx, t.Fence, t.Node, t.Args)
			return driver.Done(), err
		}}}, driver.EventLogSteps("vendor", v)...)
}

// DriverMethods is empty.
func (Vendor) DriverMethods() []driver.DriverMethod { return nil }

// VendorMethods lists the methods. A raw command and a reset cannot be read back, so neither is ever repeated.
func (v Vendor) VendorMethods() []driver.VendorMethod {
	method := func(name, description string) driver.Method {
		return driver.Method{Name: name, HTTPMethods: []string{http.MethodPost}, Description: description, Async: true}
	}
	return append([]driver.VendorMethod{
		{Method: method("send_raw", "Send raw bytes to the BMC. Required argument: 'raw_bytes' - a string of raw bytes (e.g. '0x00 0x01')."), Check: checkRaw, Call: v.raw, Once: true},
		{Method: method("bmc_reset", "Reset the BMC. Argument: 'warm' (Boolean) - for warm (True, the default) or cold (False) reset."), Check: checkReset, Call: v.reset, Once: true},
		v.infoMethod(),
	}, driver.EventLogMethods(v)...)
}

func invalid(n *node.Document, format string, args ...any) error {
	return fmt.Errorf("node %s: %s: %w", n.Label(), fmt.Sprintf(format, args...), driver.ErrInvalid)
}

// mostRaw is how many bytes a message of IPMI over LAN may have (section 6.12.16 tells the smallest; BMCs take less).
const mostRaw = 240

// rawBytes reads bytes as ipmitool does, in decimal or with 0x, apart by blanks: the network function, the command and its data.
func rawBytes(args map[string]any) (r lan.Request, err error) {
	text, _ := args[argRawBytes].(string)
	var all []byte
	for _, word := range strings.Fields(text) {
		b, err := strconv.ParseUint(word, 0, 8)
		if err != nil {
			return r, fmt.Errorf("%s holds %q, which is no byte", argRawBytes, word)
		}
		all = append(all, byte(b))
	}
	switch {
	case len(all) < 2:
		return r, driver.Refuse("Parameter raw_bytes (string of bytes) was not specified: give the network function and the command at least")
	case all[0] > 0x3F || all[0]&1 != 0:
		return r, fmt.Errorf("%s begins with the network function 0x%02x: those of requests are even and at most 0x3e", argRawBytes, all[0])
	case len(all) > mostRaw:
		return r, fmt.Errorf("%s has %d bytes, at most %d can be sent", argRawBytes, len(all), mostRaw)
	}
	return lan.Request{NetFn: all[0], Command: all[1], Data: all[2:]}, nil
}

func checkRaw(n *node.Document, args map[string]any) error {
	if _, err := rawBytes(args); err != nil {
		return invalid(n, "%v", err)
	}
	return onlyArgs(n, args, argRawBytes)
}

// onlyArgs refuses arguments that are not the one.
func onlyArgs(n *node.Document, args map[string]any, only ...string) error {
	for name := range args {
		if !slices.Contains(only, name) {
			return invalid(n, "unknown argument %q: there is %s", name, strings.Join(only, ", "))
		}
	}
	return nil
}

func (v Vendor) raw(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	r, err := rawBytes(args)
	if err != nil {
		return nil, invalid(n, "%v", err)
	}
	return nil, v.with(ctx, f, n, "send a raw command", func(c *conn) error {
		_, err := c.tellOf(r)
		return err
	})
}

// warm reads the argument of bmc_reset; Ironic takes words, too.
func warm(args map[string]any) (bool, error) {
	switch v := args[argWarm].(type) {
	case nil:
		return true, nil
	case bool:
		return v, nil
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true", "t", "1", "on", "yes", "y":
			return true, nil
		case "false", "f", "0", "off", "no", "n":
			return false, nil
		}
	}
	return false, fmt.Errorf("%s is %v: give true or false", argWarm, args[argWarm])
}

func checkReset(n *node.Document, args map[string]any) error {
	if _, err := warm(args); err != nil {
		return invalid(n, "%v", err)
	}
	return onlyArgs(n, args, argWarm)
}

// Times for which a BMC is left alone once it was told to reset. A warm reset keeps most of what it knows.
const restWarm, restCold = 20 * time.Second, 60 * time.Second

// reset resets the BMC, and leaves it alone for a while.
func (v Vendor) reset(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	soft, err := warm(args)
	if err != nil {
		return nil, invalid(n, "%v", err)
	}
	command, rest := uint8(cmdColdReset), restCold
	if soft {
		command, rest = cmdWarmReset, restWarm
	}
	return nil, v.with(ctx, f, n, "reset the BMC", func(c *conn) error {
		_, err := c.tell(netFnApp, command)
		if c.told && codeOf(err) == 0 && c.bridge == nil {
			v.pool.Rest(c.place(), rest)
		}
		return err
	})
}
