package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/agentdoor"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/kickstart"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// kickstarts makes the kickstart of an installer's boot when its machine asks for it. Nothing of it is kept. Safe for concurrent use.
type kickstarts struct {
	installation func(ctx context.Context, node, bootID string) (conductor.Installation, error)
	open         func(id string) (io.ReadCloser, error) // a file of the rack's cache
	identity     func(group string) agentdoor.Identity
	ramdisk      func(m netboot.Machine) ipxescript.Ramdisk
}

// Kickstart returns the text for a machine that boots an installer; image is where that finds the content of the disk.
func (k kickstarts) Kickstart(ctx context.Context, m netboot.Machine, image string) (string, error) {
	i := m.Order.Load.Installer
	template, err := k.template(i.Template)
	if err != nil {
		return "", err
	}
	secret, err := k.installation(ctx, m.UUID, m.BootID)
	if err != nil {
		return "", err
	}
	values := kickstart.Values{kickstart.ImageURL: image, kickstart.Token: secret.Token, kickstart.ConfigDrive: "", kickstart.TLS: ""}
	if i.Repository != "" {
		values[kickstart.IsPath] = "true"
	} else if i.Checksum != "" {
		values[kickstart.Checksum] = i.Checksum
	}
	racks := k.ramdisk(m)
	var doors []string
	for _, d := range racks.Doors {
		doors = append(doors, strings.TrimRight(d, "/")+agentapi.HeartbeatPath+m.UUID)
	}
	if len(doors) == 0 {
		return "", errors.New("this rackd serves no agents")
	}
	values[kickstart.Heartbeat] = doors[0]
	if !racks.Inspection { // else they are the operator's own, such as central's
		id := k.identity(m.Group)
		pin, err := publicKey(id)
		if err != nil {
			return "", err
		}
		named, to, err := byName(doors, agentapi.DoorName(id.Fingerprint))
		if err != nil {
			return "", err
		}
		doors = named
		values[kickstart.Insecure], values[kickstart.TLS] = "true", "--insecure --pinnedpubkey sha256//"+pin+to
	}
	values[kickstart.Heartbeats] = strings.Join(doors, " ")
	if secret.Drive != "" {
		if values[kickstart.ConfigDrive], err = driveSections(secret.Drive); err != nil {
			return "", err
		}
	}
	text, err := template.Render(values)
	if err != nil {
		return "", fmt.Errorf("fill the kickstart's template: %w", err)
	}
	return text, nil
}

// byName are URLs by names below that of a certificate, and curl's options to connect to where they are. A rackd that stands in for the
// machine's group shows the group's certificate only where it is asked for by name. Curl asks by the name in the URL.
func byName(urls []string, name string) (named []string, options string, err error) {
	for i, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, "", fmt.Errorf("read the address of agents: %w", err)
		}
		port := cmp.Or(u.Port(), "443")
		to := net.JoinHostPort(u.Hostname(), port)
		u.Host = fmt.Sprintf("r%d.%s:%s", i+1, name, port)
		named, options = append(named, u.String()), options+" --connect-to "+u.Host+":"+to
	}
	return named, options, nil
}

func (k kickstarts) template(f bootorder.File) (*kickstart.Template, error) {
	if f.URL == "" {
		return kickstart.Default(), nil
	}
	file, err := k.open(f.ID)
	if err != nil {
		return nil, fmt.Errorf("open the kickstart's template: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 2<<20)) // a deploy has judged it
	if err != nil {
		return nil, fmt.Errorf("read the kickstart's template: %w", err)
	}
	return kickstart.Parse(string(text))
}

func driveSections(drive string) (string, error) {
	files, err := configdrive.Files(drive)
	if err != nil {
		return "", err
	}
	list := make([]kickstart.File, len(files))
	for i, f := range files {
		list[i] = kickstart.File(f)
	}
	return kickstart.Drive(list)
}

// publicKey is the base64 of the SHA-256 of an identity's public key, as curl takes it.
func publicKey(id agentdoor.Identity) (string, error) {
	c, err := x509.ParseCertificate(id.Certificate.Certificate[0])
	if err != nil {
		return "", fmt.Errorf("read the certificate that agents are shown: %w", err)
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// kickstarts are those of installers that ask at a face: their reports come by the same version of IP.
func (r *rackd) kickstarts(f face) kickstarts {
	return kickstarts{installation: r.conductor.Installation, identity: r.identities.Of, ramdisk: func(m netboot.Machine) ipxescript.Ramdisk { return r.ramdiskAt(f, m) },
		open: func(id string) (io.ReadCloser, error) {
			f, done, err := r.cache.File(id)
			return released{f, done}, err
		}}
}

// released is a file of the cache that its reader gives back.
type released struct {
	io.Reader
	done func()
}

// Close implements io.Closer.
func (r released) Close() error { r.done(); return nil }
