package ribcl

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// describe reads what an iLO tells of itself without credentials.
func (t *turn) describe() (e element, err error) {
	t.wire.Begin(t.ctx, nil)
	req, err := http.NewRequestWithContext(t.ctx, http.MethodGet, t.a.Address+"/xmldata?item=All", nil)
	if err != nil {
		return e, errors.New("its address is no URL")
	}
	resp, err := (&http.Client{Transport: t.wire, CheckRedirect: bmc.SameHost}).Do(req)
	if err != nil {
		return e, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return e, err
	}
	if resp.StatusCode != http.StatusOK {
		return e, bmc.StatusFailure(resp.StatusCode, false, http.StatusText(resp.StatusCode), nil)
	}
	if err := bmc.CheckXML(raw); err != nil {
		return e, err
	}
	if err := xml.Unmarshal(raw, &e); err != nil || e.XMLName.Local != "RIMP" {
		return e, errors.New("what it tells of itself cannot be read")
	}
	return e, nil
}

// text is the text of an element below another.
func (e element) text(parent, name string) string {
	p, _ := e.find(parent)
	for _, c := range p.Children {
		if c.XMLName.Local == name {
			return strings.TrimSpace(c.Text)
		}
	}
	return ""
}

// Identity implements driver.Management.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.with(ctx, nil, n, "read the identity", func(t *turn) error {
		e, err := t.describe()
		if err != nil {
			return err
		}
		id = driver.Identity{UUID: e.text("HSI", "cUUID"), Manufacturer: "HP", Model: e.text("HSI", "SPN"), Serial: e.text("HSI", "SBSN")}
		if t.a.Values.Identity == "ignore" {
			id.UUID, id.Serial = "", ""
		}
		return nil
	})
	return id, err
}

// Components reads the versions of the firmware that the machine's health tells.
func (d *Driver) Components(ctx context.Context, n *node.Document) (list []hardware.Component, err error) {
	err = d.with(ctx, nil, n, "read the firmware's versions", func(t *turn) error {
		e, err := t.read(server, "GET_EMBEDDED_HEALTH", nil, "GET_EMBEDDED_HEALTH_DATA")
		if err != nil {
			return err
		}
		of, _ := e.find("FIRMWARE_INFORMATION")
		for _, c := range of.Children {
			name, version := c.value("FIRMWARE_NAME"), c.value("FIRMWARE_VERSION")
			switch {
			case name == "iLO":
				name = "bmc"
			case strings.HasSuffix(name, "System ROM"):
				name = "bios"
			}
			if name != "" && version != "" {
				list = append(list, hardware.Component{Name: name, Current: version, Vendor: "HP"})
			}
		}
		if len(list) == 0 {
			return fmt.Errorf("it reports no versions of its firmware: %w", driver.ErrUnsupported)
		}
		return nil
	})
	return list, err
}
