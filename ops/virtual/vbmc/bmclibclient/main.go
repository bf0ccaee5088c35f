// Command bmclibclient has bmclib's client boot a machine from the network, once, by the Redfish of its BMC. It prints what the client
// reported. It judges the virtual rack's BMC, and is a module of its own: bmclib compiles beside an older gofish alone.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bmc-toolbox/bmclib/v2"
)

// limit is how long all of it may take.
const limit = time.Minute

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: bmclibclient HOST PORT USER PASSWORD")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := boot(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func boot(ctx context.Context, host, port, user, password string) (err error) {
	c := bmclib.NewClient(host, user, password, bmclib.WithRedfishPort(port))
	c.Registry.Drivers = c.Registry.Using("redfish")
	if err := c.Open(ctx); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() {
		if closing := c.Close(ctx); err == nil && closing != nil {
			err = fmt.Errorf("close: %w", closing)
		}
	}()
	if ok, err := c.SetBootDevice(ctx, "pxe", false, true); !ok || err != nil {
		return fmt.Errorf("set the boot device: %t, %w", ok, err)
	}
	fmt.Println("boot device set")
	if ok, err := c.SetPowerState(ctx, "on"); !ok || err != nil {
		return fmt.Errorf("set the power: %t, %w", ok, err)
	}
	fmt.Println("power set")
	state, err := c.GetPowerState(ctx)
	if err != nil {
		return fmt.Errorf("read the power: %w", err)
	}
	fmt.Println("power state", strings.ToLower(state))
	return nil
}
