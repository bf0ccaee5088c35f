package daemon

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/bootmedium"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/mediaweb"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

// mediaServer tells the conductor where media of ramdisks and instances are.
type mediaServer struct {
	loader  *bootmedium.Loader
	base    string
	secure  string // by TLS; empty: not served so
	keys    *seal.Keyring
	members func() []bus.Member
	serves  standsIn
	// check says why no medium can be made.
	check func(m mediaweb.Medium) error
	// shown are the certificates by TLS; nil: there are none.
	shown func() ([][]byte, error)
}

// TLSCertificates implements runner.Media.
func (s mediaServer) TLSCertificates() (list []string, err error) {
	if s.shown == nil {
		return nil, nil
	}
	certificates, err := s.shown()
	if err != nil {
		return nil, fmt.Errorf("read the certificate that this rackd shows by TLS (--https-certificate): %w", err)
	}
	for _, der := range certificates {
		list = append(list, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	}
	return list, nil
}

// firmwareCertificates are those that this rackd shows to firmware and to BMCs.
func (r *rackd) firmwareCertificates() ([][]byte, error) {
	if r.firmwareTLS == nil {
		return nil, nil
	}
	c, err := r.firmwareTLS.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return nil, err
	}
	return c.Certificate, nil
}

// Problem implements runner.Media.
func (s mediaServer) Problem(mode string) error { return s.loader.Problem(mode) }

// Signed implements runner.Media.
func (s mediaServer) Signed() bool { return s.loader.Signed() }

// Base implements runner.Media.
func (s mediaServer) Base() string { return s.base }

// TLSBase implements runner.Media.
func (s mediaServer) TLSBase() string { return s.secure }

// URL implements runner.Media. Each rackd of the group makes the same one below the same base.
func (s mediaServer) URL(base, group, node, root string, boot uint64) (string, error) {
	key := s.keys.Of(group)
	if key == nil {
		return "", fmt.Errorf("this rackd has no key of conductor group %q", group)
	}
	return url.JoinPath(base, mediaweb.Path(node, conductor.MediumCode(key, node, root, boot)))
}

// ParametersURL implements runner.Media. Each rackd of the group makes the same one below the same base.
func (s mediaServer) ParametersURL(base, group, node, root string, boot uint64) (string, error) {
	key := s.keys.Of(group)
	if key == nil {
		return "", fmt.Errorf("this rackd has no key of conductor group %q", group)
	}
	return url.JoinPath(base, mediaweb.ParametersPath(node, conductor.MediumCode(key, node, root, boot)))
}

// InstanceURL implements runner.Media. Each rackd of the group makes the same one below the same base.
func (s mediaServer) InstanceURL(base, group, node, work string, part driver.InstancePart) (string, error) {
	key := s.keys.Of(group)
	if key == nil {
		return "", fmt.Errorf("this rackd has no key of conductor group %q", group)
	}
	path := mediaweb.Path
	if part == driver.InstanceDrive {
		path = mediaweb.DrivePath
	}
	return url.JoinPath(base, path(node, conductor.InstanceCode(key, node, work, part)))
}

// CheckInstance implements runner.Media. Its errors stay until the files or the parameters are others.
func (s mediaServer) CheckInstance(n *node.Document, load bootorder.Load) error {
	err := s.check(mediumOf(conductor.MediumOrder{Node: n, State: n.State, Load: load}))
	if err != nil {
		err = fmt.Errorf("%w: %w", err, driver.ErrInvalid)
	}
	return err
}

// Served implements runner.Media. A rackd that serves no node of the group knows no medium of theirs.
func (s mediaServer) Served(base, group string) bool {
	return base == s.base || base == s.secure && base != "" || slices.ContainsFunc(s.members(), func(m bus.Member) bool {
		return s.serves(m.Group, group) && (strings.TrimRight(m.BootURL, "/") == base || m.BootTLSURL != "" && strings.TrimRight(m.BootTLSURL, "/") == base)
	})
}

// mediaHandler serves media to BMCs.
func (r *rackd) mediaHandler() http.Handler { return mediaweb.Handler(r.mediaConfig()) }

func (r *rackd) mediaConfig() mediaweb.Config {
	return mediaweb.Config{Medium: r.medium, Open: r.openForMedium, Drive: r.conductor.InstanceDrive, Ramdisk: r.ramdisk, Loader: r.loader,
		Journal: r.desk, Metrics: r.netboot, Strangers: r.strangers, Log: r.cfg.Log}
}

func (r *rackd) medium(ctx context.Context, node, code string) (m mediaweb.Medium, ok bool) {
	o, ok := r.conductor.Medium(node, code)
	if !ok {
		return m, false
	}
	if o.Load.Instance {
		bringForMedium(ctx, r.instances.bring, o.Load)
	}
	return mediumOf(o), true
}

// mediumOf is a medium as it is served.
func mediumOf(o conductor.MediumOrder) mediaweb.Medium {
	class, arch := rackramdisk.Of(o.Node)
	order := bootorder.Ramdisk(o.Load)
	if o.Load.Instance {
		order = bootorder.Instance(o.Load)
	}
	return mediaweb.Medium{Node: o.Node, Load: o.Load, Parameters: o.Parameters, Read: o.Read, Machine: netboot.Machine{UUID: o.Node.UUID, Name: o.Node.Name, Group: o.Node.Group, Class: class, Arch: arch,
		State: o.State, BootMode: o.Node.BootMode(), BootID: o.BootID, Order: order}}
}

// A BMC that reads a medium whose files have left the cache waits so long for them: some ask once only.
const (
	bringForBMC  = 20 * time.Second
	bringLookFor = 200 * time.Millisecond
)

// bringForMedium has an instance's files brought back into the cache, and waits a while for them: as long as the BMC does.
func bringForMedium(ctx context.Context, bring func(bootorder.File) error, l bootorder.Load) {
	ctx, cancel := context.WithTimeout(ctx, bringForBMC)
	defer cancel()
	for ctx.Err() == nil {
		coming := false
		for _, f := range []bootorder.File{l.Kernel, l.Initramfs} {
			coming = f.ID != "" && errors.Is(bring(f), errComing) || coming
		}
		if !coming || driver.Pause(ctx, bringLookFor) != nil {
			return
		}
	}
}

// openOwn opens a file that a node brings itself, for its boot loader.
func (r *rackd) openOwn(id string) (io.ReadCloser, int64, error) {
	if id == "" {
		return nil, 0, fmt.Errorf("a file of the node's own is not in the rack's cache: %w", fs.ErrNotExist)
	}
	f, done, err := r.cache.File(id)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, 0, err
	}
	return held{f, done}, size, nil
}

// held is a file of the cache, which stays there until it is closed.
type held struct {
	io.Reader
	done func()
}

func (h held) Close() error {
	h.done()
	return nil
}

// openForMedium opens a file of the rack's cache by its id, else one of this rackd's boot files by its name.
func (r *rackd) openForMedium(id, name string) (bootmedium.File, func(), error) {
	if name != "" {
		f, err := r.files.Open(name)
		if err != nil {
			return bootmedium.File{}, nil, err
		}
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			f.Close()
			return bootmedium.File{}, nil, err
		}
		return bootmedium.File{ReaderAt: f, Size: size}, func() { f.Close() }, nil
	}
	f, done, err := r.cache.File(id)
	if err != nil {
		return bootmedium.File{}, nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		done()
		return bootmedium.File{}, nil, err
	}
	return bootmedium.File{ReaderAt: f, Size: size}, done, nil
}
