package ipmi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Fujitsu's own command for an iRMC, as python-scciclient sends it. Each request and answer begins with the number of the maker.
const (
	netFnFujitsu  = 0x2E
	cmdFujitsu    = 0xF1
	fujitsuDevice = 0x1A
	// outOfRange is the code of an answer about a device behind the last one.
	outOfRange = 0xC9
	// mostDevices is how many devices the command can name.
	mostDevices = 255
)

// fujitsu is 10368, the number of the maker.
var fujitsu = []byte{0x80, 0x28, 0x00}

// PCIDevices lists the PCI devices of a machine with an iRMC, as it saw them when the machine started last. Those of other makers
// refuse the command.
func (d *Driver) PCIDevices(ctx context.Context, n *node.Document) (list []driver.PCIDevice, err error) {
	err = d.with(ctx, nil, n, "list the PCI devices", func(c *conn) error {
		list = nil
		for i := 1; i <= mostDevices; i++ {
			answer, err := c.ask(netFnFujitsu, cmdFujitsu, append(bytes.Clone(fujitsu), fujitsuDevice, byte(i), 0)...)
			switch {
			case codeOf(err) == outOfRange:
				return nil
			case err != nil:
				return err
			case len(answer) < 10 || !bytes.HasPrefix(answer, fujitsu):
				return short(fmt.Sprintf("PCI device %d", i), answer)
			}
			list = append(list, driver.PCIDevice{Vendor: binary.LittleEndian.Uint16(answer[6:]), Product: binary.LittleEndian.Uint16(answer[8:])})
		}
		return nil
	})
	return list, err
}
