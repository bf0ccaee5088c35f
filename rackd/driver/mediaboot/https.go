package mediaboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// fieldHTTPS of driver_info says whether the BMC loads what rackd makes by https.
const fieldHTTPS = "ironyard_media_https"

// What fieldHTTPS may say: the BMC verifies rackd's certificate as it is set up to, or is told to and given the certificate.
const (
	httpsAsIs   = "true"
	httpsVerify = "verify"
)

// byHTTPS is what the node says of that; empty: http.
func byHTTPS(n *node.Document) string {
	switch text := n.DriverString(fieldHTTPS); text {
	case "", "false", "False":
		return ""
	case "True":
		return httpsAsIs
	default:
		return text
	}
}

// checkHTTPS refuses what no BMC could be told.
func (i Interface) checkHTTPS(n *node.Document) error {
	text := byHTTPS(n)
	switch {
	case text == "":
		return nil
	case text != httpsAsIs && text != httpsVerify:
		return fmt.Errorf("node %s: driver_info %s is %.20q: give true, false or %s: %w", n.Label(), fieldHTTPS, text, httpsVerify, driver.ErrInvalid)
	case i.by == byHTTP:
		return fmt.Errorf("node %s: driver_info %s is for virtual media: firmware loads by https wherever rackd has --https-certificate, and is given its authority by other means: remove the field: %w",
			n.Label(), fieldHTTPS, driver.ErrInvalid)
	case n.DriverString(fieldExternal) != "" || n.DriverString(ownramdisk.ImageField) != "":
		return fmt.Errorf("node %s: driver_info %s is for images that the BMC loads from rackd itself, and there is %s or %s: give those as https URLs, and remove the field: %w",
			n.Label(), fieldHTTPS, fieldExternal, ownramdisk.ImageField, driver.ErrInvalid)
	}
	return nil
}

// ownBase is where the machine or its BMC finds what this rackd serves.
func (i Interface) ownBase(t *driver.Task) (string, error) {
	if own := t.Node.DriverString(fieldExternal); own != "" {
		return own, nil
	}
	secure := t.Media.TLSBase()
	switch {
	case i.by == byHTTP && secure != "", i.by == byDrive && byHTTPS(t.Node) != "" && secure != "":
		return secure, nil
	case i.secure:
		return "", noCertificate(t.Node)
	case i.by == byDrive && byHTTPS(t.Node) != "":
		return "", fmt.Errorf("node %s: driver_info %s asks for https, and this rackd has no --https-certificate: give it one, or remove the field: %w", t.Node.Label(), fieldHTTPS, driver.ErrInvalid)
	}
	return t.Media.Base(), nil
}

// noCertificate refuses an image of this rackd for firmware that loads by https alone.
func noCertificate(n *node.Document) error {
	return fmt.Errorf("node %s: its firmware loads by https alone, and this rackd has no --https-certificate: give it one, or give the node driver_info %s as an https URL: %w",
		n.Label(), ready(n), driver.ErrInvalid)
}

// verifies reports whether the BMC is to verify rackd's certificate.
func (i Interface) verifies(n *node.Document) bool {
	return i.by == byDrive && byHTTPS(n) == httpsVerify
}

// truster tells the BMC of certificates. A management interface that has no way to is refused.
func truster(t *driver.Task) (driver.MediaTruster, error) {
	m, can := t.Hardware.Management().(driver.MediaTruster)
	if !can {
		return nil, fmt.Errorf("node %s: driver_info %s is %s, and its management interface has no way to tell a BMC of certificates: give true, and have the BMC trust rackd's certificate by its own means: %w",
			t.Node.Label(), fieldHTTPS, httpsVerify, driver.ErrInvalid)
	}
	return m, nil
}

// shown are the certificates of this rackd. A drive that is to verify and is given none would load nothing.
func shown(t *driver.Task) ([]string, error) {
	certificates, err := t.Media.TLSCertificates()
	if err == nil && len(certificates) == 0 {
		err = errors.New("this rackd shows none")
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: the certificates that its BMC is to trust, for driver_info %s is %s: %w", t.Node.Label(), fieldHTTPS, httpsVerify, err)
	}
	return certificates, nil
}

// readyTrust says why drives of some types cannot be told to verify rackd, before the machine is touched, which may run an instance.
func (i Interface) readyTrust(ctx context.Context, t *driver.Task, kinds []string) error {
	if !i.verifies(t.Node) || len(kinds) == 0 {
		return nil
	}
	m, err := truster(t)
	if err == nil {
		_, err = shown(t)
	}
	for _, kind := range kinds {
		if err == nil {
			err = m.VerifiesMedia(ctx, t.Node, kind)
		}
	}
	return err
}

// trust has the BMC verify this rackd's certificate, where the node says so.
func (i Interface) trust(ctx context.Context, t *driver.Task, kind string) error {
	if !i.verifies(t.Node) {
		return nil
	}
	m, err := truster(t)
	if err != nil {
		return err
	}
	certificates, err := shown(t)
	if err != nil {
		return err
	}
	return driver.Settle(func() error { return m.TrustMedia(ctx, t.Fence, t.Node, kind, certificates) })
}
