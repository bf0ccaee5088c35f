package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
)

// Parameters of the LAN channel (section 23.2) and commands of inventories (section 34).
const (
	cmdLANConfig = 0x02

	lanAddress     = 3
	lanMAC         = 5
	lanStatus6     = 55
	lanStatic6     = 56
	lanDynamic6    = 59
	mostAddresses6 = 16 // of a kind

	cmdInventoryInfo, cmdReadInventory = 0x10, 0x11
)

// getBMC is the vendor method that tells where a BMC says that it is, and what its inventory says of the machine.
const getBMC = "get_bmc_info"

// bmcInfo is what it answers, in the words of inventories. What the BMC does not tell is empty.
type bmcInfo struct {
	Address   string       `json:"bmc_address"`
	AddressV6 string       `json:"bmc_v6address"`
	MAC       string       `json:"bmc_mac"`
	Vendor    systemVendor `json:"system_vendor"`
}

type systemVendor struct {
	Manufacturer string `json:"manufacturer"`
	Product      string `json:"product_name"`
	Serial       string `json:"serial_number"`
}

// infoMethod only reads.
func (v Vendor) infoMethod() driver.VendorMethod {
	return driver.VendorMethod{Shared: true, Check: func(n *node.Document, args map[string]any) error {
		for name := range args {
			return invalid(n, "unknown argument %q: the method takes none", name)
		}
		return nil
	}, Method: driver.Method{Name: getBMC, HTTPMethods: []string{http.MethodGet}, Description: "Tell the BMC's own addresses (bmc_address, bmc_v6address, bmc_mac) " +
		"and the vendor, product and serial number that its inventory (FRU) has of the machine. What the BMC does not tell is empty."},
		Call: func(ctx context.Context, _ driver.Fence, n *node.Document, _ map[string]any) (any, error) {
			return v.info(ctx, n)
		}}
}

func (d *Driver) info(ctx context.Context, n *node.Document) (found bmcInfo, err error) {
	err = d.with(ctx, nil, n, "read what the BMC tells of itself", func(c *conn) (err error) {
		if found.Address, err = c.address(); err != nil {
			return err
		}
		if found.AddressV6, err = c.address6(); err != nil {
			return err
		}
		if found.MAC, err = c.mac(); err != nil {
			return err
		}
		found.Vendor, err = c.product()
		return err
	})
	return found, err
}

// lanParam reads a parameter of the channel that the request comes by, at least least bytes of it; nil: the BMC has none such there, or no
// LAN channel.
func (c *conn) lanParam(number, set uint8, least int) ([]byte, error) {
	// The channel is the BMC's, also where the machine's controller is behind it.
	data, err := c.askVia(lan.Request{NetFn: netFnTransport, Command: cmdLANConfig, Data: []byte{presentChannel, number, set, 0}})
	switch {
	case lacks(err):
		return nil, nil
	case err != nil:
		return nil, err
	case len(data) < 1+least:
		return nil, short(fmt.Sprintf("parameter %d of its LAN channel", number), data)
	}
	return data[1:], nil // after the revision
}

// lacks reports whether a BMC answered that it has no such thing: the parameter, the command, the field, the record.
func lacks(err error) bool {
	switch codeOf(err) {
	case 0x80, 0xC1, 0xC9, 0xCB, 0xCC, 0xCD, 0xD5, 0xD6:
		return true
	}
	return false
}

func (c *conn) address() (string, error) {
	data, err := c.lanParam(lanAddress, 0, 4)
	if err != nil || data == nil {
		return "", err
	}
	return shownAddress(data[:4]), nil
}

func (c *conn) mac() (string, error) {
	data, err := c.lanParam(lanMAC, 0, 6)
	if err != nil || data == nil || strings.Trim(string(data[:6]), "\x00") == "" {
		return "", err
	}
	return net.HardwareAddr(data[:6]).String(), nil
}

// shownAddress is empty for an address that none has been given.
func shownAddress(raw []byte) string {
	if a, ok := netip.AddrFromSlice(raw); ok && !a.IsUnspecified() {
		return a.String()
	}
	return ""
}

// address6 is the first address that is in use, one of the whole network before one of the link. BMCs before IPMI 2.0's errata 4 have none.
func (c *conn) address6() (link string, err error) {
	status, err := c.lanParam(lanStatus6, 0, 2)
	if err != nil || status == nil {
		return "", err
	}
	for _, kind := range []struct{ parameter, count uint8 }{{lanStatic6, status[0]}, {lanDynamic6, status[1]}} {
		for set := range min(kind.count, mostAddresses6) {
			// The selector, the source with the bit that says whether it is enabled, the address, the prefix, the status.
			data, err := c.lanParam(kind.parameter, set, 20)
			if err != nil {
				return "", err
			}
			if data == nil {
				break
			}
			if enabled := kind.parameter == lanDynamic6 || data[1]&0x80 != 0; !enabled || data[19] != 0 {
				continue
			}
			a, _ := netip.AddrFromSlice(data[2:18])
			switch {
			case a.IsUnspecified():
			case !a.IsLinkLocalUnicast():
				return a.String(), nil
			case link == "":
				link = a.String()
			}
		}
	}
	return link, nil
}

// inventoryHeader is the length of an inventory's header, and the unit of its areas.
const inventoryHeader = 8

// product reads the product area of the machine's inventory, or, where it has none, the board's. A garbled one is left out.
func (c *conn) product() (v systemVendor, err error) {
	info, err := c.ask(netFnStorage, cmdInventoryInfo, 0)
	switch {
	case lacks(err):
		return v, nil
	case err != nil:
		return v, err
	case len(info) < 3:
		return v, short("the size of its inventory", info)
	}
	r := inventory{c: c, size: int(info[0]) | int(info[1])<<8, words: info[2]&1 != 0}
	header, err := r.read(0, inventoryHeader)
	if err != nil || sum(header) != 0 {
		return v, err
	}
	if raw, err := r.area(header[4]); err != nil || raw != nil {
		return parseProduct(raw), err
	}
	raw, err := r.area(header[3])
	return parseBoard(raw), err
}

// inventory is one that is read in pieces.
type inventory struct {
	c     *conn
	size  int
	words bool // it is addressed by words
}

// area reads the area that begins at a place in units; nil: there is none, or it is garbled.
func (r inventory) area(at uint8) ([]byte, error) {
	if at == 0 {
		return nil, nil
	}
	head, err := r.read(int(at)*inventoryHeader, inventoryHeader)
	if err != nil || head == nil {
		return nil, err
	}
	raw, err := r.read(int(at)*inventoryHeader, int(head[1])*inventoryHeader)
	if err != nil || len(raw) < inventoryHeader || sum(raw) != 0 {
		return nil, err
	}
	return raw, nil
}

// read reads length bytes; nil: the inventory ends before.
func (r inventory) read(at, length int) (raw []byte, err error) {
	if at+length > r.size {
		return nil, nil
	}
	for len(raw) < length {
		from, n := at+len(raw), min(piece, length-len(raw))
		if r.words {
			from, n = from/2, (n+1)/2
		}
		data, err := r.c.ask(netFnStorage, cmdReadInventory, 0, byte(from), byte(from>>8), byte(n))
		switch {
		case lacks(err):
			return nil, nil
		case err != nil:
			return nil, err
		case len(data) < 2 || data[0] == 0 || r.words && len(data)%2 == 0:
			return nil, short("a piece of its inventory", data)
		}
		raw = append(raw, data[1:]...)
	}
	return raw[:length], nil
}

func sum(raw []byte) (s uint8) {
	for _, b := range raw {
		s += b
	}
	if raw == nil {
		return 1 // nothing is in no order
	}
	return s
}

// tidy is a field as text. Fields are filled up with blanks or zeros.
func tidy(kind types.TypeLength, raw []byte) string {
	text, err := kind.Chars(raw)
	if err != nil || strings.Trim(string(text), "\x00 ") == "" {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, strings.Trim(string(text), "\x00 "))
}

// parsed calls the library's parser, which may panic on what firmware has garbled.
func parsed(parse func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the area is garbled")
		}
	}()
	return parse()
}

func parseProduct(raw []byte) (v systemVendor) {
	var a types.FRUProductInfoArea
	if raw == nil || parsed(func() error { return a.Unpack(raw) }) != nil {
		return systemVendor{}
	}
	return systemVendor{tidy(a.ManufacturerTypeLength, a.Manufacturer), tidy(a.NameTypeLength, a.Name), tidy(a.SerialNumberTypeLength, a.SerialNumber)}
}

func parseBoard(raw []byte) (v systemVendor) {
	var a types.FRUBoardInfoArea
	if raw == nil || parsed(func() error { return a.Unpack(raw) }) != nil {
		return systemVendor{}
	}
	return systemVendor{tidy(a.ManufacturerTypeLength, a.Manufacturer), tidy(a.ProductNameTypeLength, a.ProductName), tidy(a.SerialNumberTypeLength, a.SerialNumber)}
}
