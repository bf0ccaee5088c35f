package redfish

import (
	"cmp"
	"context"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
)

// DetectVendor implements driver.VendorDetector: what the service root calls the vendor, else the system's manufacturer.
func (d *Driver) DetectVendor(ctx context.Context, n *node.Document) (vendor string, err error) {
	err = d.change(ctx, nil, n, "detect the vendor", func(s *System, c *gofish.APIClient) error {
		if root := c.GetService(); root != nil {
			vendor = strings.TrimSpace(root.Vendor)
		}
		vendor = cmp.Or(vendor, strings.TrimSpace(s.Manufacturer))
		return nil
	})
	return vendor, err
}
