package redfish

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// verifying is what a virtual drive says of how it verifies the servers of images (VirtualMedia.v1_4_0).
type verifying struct {
	VerifyCertificate *bool
	Certificates      struct {
		At string `json:"@odata.id"`
	}
}

// TrustMedia implements driver.MediaTruster. Certificates that a drive has already stay there.
func (d *Driver) TrustMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType string, certificates []string) error {
	return d.change(ctx, f, n, "have virtual media verify the server", func(s *System, c *gofish.APIClient) error {
		found, err := drives(c, s)
		if err != nil {
			return err
		}
		for _, drive := range found {
			if !serves(drive, mediaType) {
				continue
			}
			if err := trust(c, makerOf(c, s), drive, certificates); err != nil {
				return err
			}
		}
		return nil
	})
}

// VerifiesMedia implements driver.MediaTruster.
func (d *Driver) VerifiesMedia(ctx context.Context, n *node.Document, mediaType string) error {
	return d.change(ctx, nil, n, "look whether virtual media may verify the server", func(s *System, c *gofish.APIClient) error {
		found, err := drives(c, s)
		if err != nil {
			return err
		}
		for _, drive := range found {
			if !serves(drive, mediaType) {
				continue
			}
			if _, err := verifies(c, drive); err != nil {
				return err
			}
		}
		return nil
	})
}

// verifies reads how a drive verifies the servers of images. It refuses one that cannot.
func verifies(c *gofish.APIClient, drive *virtualDrive) (is verifying, err error) {
	if err := read(c, drive.Path, &is); err != nil {
		return is, fmt.Errorf("read virtual drive %s: %w", drive.ID, err)
	}
	if is.VerifyCertificate == nil || is.Certificates.At == "" {
		return is, fmt.Errorf("its virtual drive %s has no VerifyCertificate with Certificates, and so verifies no server of images: %w", drive.ID, driver.ErrUnsupported)
	}
	return is, nil
}

func trust(c *gofish.APIClient, m maker, drive *virtualDrive, certificates []string) error {
	is, err := verifies(c, drive)
	if err != nil {
		return err
	}
	for _, text := range certificates {
		if err := addTrusted(c, is.Certificates.At, text); err != nil {
			return fmt.Errorf("give virtual drive %s a certificate: %w", drive.ID, err)
		}
	}
	if *is.VerifyCertificate {
		return nil
	}
	if _, err := patch(c, m, drive.Path, map[string]any{"VerifyCertificate": true}); err != nil {
		return fmt.Errorf("have virtual drive %s verify: %w", drive.ID, err)
	}
	if err := read(c, drive.Path, &is); err != nil {
		return fmt.Errorf("read virtual drive %s back: %w", drive.ID, err)
	}
	if is.VerifyCertificate == nil || !*is.VerifyCertificate {
		return fmt.Errorf("virtual drive %s was told to verify the servers of images and the BMC accepted, but it does not show so", drive.ID)
	}
	return nil
}

// addTrusted adds a certificate to a collection, unless it is there.
func addTrusted(c *gofish.APIClient, at, text string) error {
	wanted, _ := pem.Decode([]byte(text))
	if wanted == nil {
		return errors.New("it is not in PEM")
	}
	has := 0
	there := func() (bool, error) {
		var all struct {
			Members []struct {
				At string `json:"@odata.id"`
			}
		}
		if err := read(c, at, &all); err != nil {
			return false, err
		}
		has = len(all.Members)
		for _, member := range all.Members {
			var is struct{ CertificateString string }
			if err := read(c, member.At, &is); err != nil {
				return false, err
			}
			if block, _ := pem.Decode([]byte(is.CertificateString)); block != nil && bytes.Equal(block.Bytes, wanted.Bytes) {
				return true, nil
			}
		}
		return false, nil
	}
	if is, err := there(); is || err != nil {
		return err
	}
	resp, err := c.Post(at, map[string]any{"CertificateString": text, "CertificateType": "PEM"})
	answered := "took it"
	refused, is := refusal(err)
	switch code := status(err); {
	case is && code == http.StatusConflict: // which may say that it has it since
		answered = fmt.Sprintf("refuses it as a conflict (%s)", bmc.Clean(message(refused)))
	case is && has > 0 && (code == http.StatusBadRequest || code == http.StatusInsufficientStorage): // BMCs have room for a few
		return fmt.Errorf("the BMC refuses it (%s). It has %d others: if it has no room, take out at %s those that are not needed", bmc.Clean(message(refused)), has, at)
	case err != nil:
		return err
	default:
		resp.Body.Close()
	}
	switch is, err := there(); {
	case err != nil:
		return fmt.Errorf("the BMC %s: read back: %w", answered, err)
	case !is:
		return fmt.Errorf("the BMC %s, and does not show it among its certificates", answered)
	}
	return nil
}
