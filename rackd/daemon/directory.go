package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/agentclient"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/diskimage"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/imagecache"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// directory shows netboot the conductor's boot orders.
type directory struct {
	c *conductor.Conductor
	// ramdisks are the rack's.
	ramdisks *rackramdisk.Shelf
	// cached returns where the machines find a file of the rack's cache; empty when it
	// is not there.
	cached func(id string) string
	// bring says whether a file of an instance is in the cache, and has it brought there; nil: it is not.
	bring func(f bootorder.File) error
	// asked: machines that ask will do what they are told, see conductor.Asked. Else all is from memory.
	asked bool
	// hears reports whether machines speak DHCP with this rackd, by the version of IP by which they ask; nil: they do not.
	hears func() bool
}

func (d directory) ByMAC(mac string) (netboot.Machine, bool) {
	o, ok := d.c.BootByMAC(mac)
	if !ok && d.asked && d.c.Blind() {
		return unseen(""), true
	}
	return d.machine(o, ok)
}

func (d directory) ByUUID(uuid string) (netboot.Machine, bool) {
	o, ok := d.c.BootByUUID(uuid)
	if !ok && d.asked && d.c.Blind() {
		return unseen(uuid), true
	}
	return d.machine(o, ok)
}

// unseen is a machine that a rackd cannot know now. It asks again.
func unseen(uuid string) netboot.Machine {
	return netboot.Machine{UUID: uuid, State: "unknown", Order: bootorder.Later("The rackd that was asked still reads which nodes there are, or has lost its site's bus.")}
}

func (d directory) machine(o conductor.BootOrder, ok bool) (netboot.Machine, bool) {
	if !ok {
		return netboot.Machine{}, false
	}
	if d.asked {
		o = d.c.Asked(o)
	}
	if l := o.Order.Load; l != nil && !l.Instance {
		o.Order.Load = &bootorder.Load{Kernel: d.file(l.Kernel), Initramfs: d.file(l.Initramfs), Rescue: l.Rescue, Params: l.Params}
	} else {
		o.Order = d.instance(o.Order)
	}
	m := netboot.Machine{UUID: o.Node.UUID, Name: o.Node.Name, Group: o.Node.Group, State: o.State, Order: o.Order,
		BootMode: o.Node.BootMode(), BootID: o.BootID, Addresses: o.Addresses, Hears: d.hears != nil && d.hears()}
	m.Class, m.Arch = rackramdisk.Of(o.Node)
	if l := o.Order.Load; o.Order.Direct && l != nil {
		m.Program, m.ProgramARM64 = d.ramdisks.Program(m.Class, rackramdisk.X64, l.Rescue), d.ramdisks.Program(m.Class, rackramdisk.ARM64, l.Rescue)
	}
	return m, true
}

// file says where a machine loads a file from: this rackd's cache, or, when that
// does not have it (yet), where it comes from.
func (d directory) file(f bootorder.File) bootorder.File {
	if at := d.cached(f.ID); f.URL != "" && at != "" {
		f.URL = at
	}
	return f
}

// images hands an agent the URLs of an image in the cache.
type images struct {
	cache *imagecache.Cache
	bases []string // of this rackd's web server in the main network: by IPv4, by IPv6
	// further are the faces of the further networks.
	further []face
	codes   imageCodes
	// neighbours are the rackds that keep copies.
	neighbours func() []bus.Member
}

func (i images) Prepare(ctx context.Context, src driver.ImageSource) ([]string, error) {
	e, err := i.cache.Ensure(ctx, source(src))
	if err != nil {
		return nil, i.judged(ctx, err)
	}
	return i.urls(e.ID, src.Machine), nil
}

// urls are where machines find an image: here, and at the neighbours. Which version of IP a machine speaks is not known
// here: those that it cannot reach fail at once. A machine in a further network is told those in it: others may not be reached from
// there, and a try would wait.
func (i images) urls(id, machine string) []string {
	var urls, urls6 []string
	for _, f := range i.further {
		if !within(f.network, machine) {
			continue
		}
		urls = append(urls, i.codes.url(f.http(), i.codes.group, id))
		for _, n := range i.neighbours() {
			if at, _ := f.urlsOf(n); at != "" {
				urls = append(urls, i.codes.url(at, n.Group, id))
			}
		}
		return urls
	}
	for _, b := range i.bases {
		urls = append(urls, i.codes.url(b, i.codes.group, id))
	}
	for _, n := range i.neighbours() {
		urls = append(urls, i.codes.url(n.BootURL, n.Group, id))
		if n.BootURL6 != "" && n.BootURL6 != n.BootURL {
			urls6 = append(urls6, i.codes.url(n.BootURL6, n.Group, id))
		}
	}
	return append(urls, urls6...)
}

// judged marks an error of the cache that may pass by itself: the step tries again.
func (i images) judged(ctx context.Context, err error) error {
	if imagecache.Permanent(err) || errors.Is(err, diskimage.ErrRefused) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}

func (i images) Verify(ctx context.Context, src driver.ImageSource) (bool, error) {
	return i.cache.Verify(ctx, src.ID())
}

// File implements driver.ImageFiles.
func (i images) File(id string) (*os.File, func(), error) { return i.cache.File(id) }

func (i images) Latest(ctx context.Context, url string) (string, error) {
	e, err := i.cache.Latest(ctx, url)
	if err != nil {
		err = i.judged(ctx, err)
	}
	return e.ID, err
}

// cached returns the URL of an image that is here, for machines that load from base.
func (i images) cached(base string) func(id string) string {
	return func(id string) string {
		if !i.cache.Holds(id) {
			return ""
		}
		return i.codes.url(base, i.codes.group, id)
	}
}

// Copy gets an image from another rackd's cache, for the mirror.
func (i images) Copy(ctx context.Context, id string, from bus.Member) error {
	algo, value, _ := strings.Cut(id, "-")
	_, err := i.cache.Copy(ctx, imagecache.Source{URL: i.codes.url(from.BootURL, from.Group, id), HashAlgo: algo, HashValue: value})
	return err
}

// noImages is for a rackd that serves no machines.
type noImages struct{}

func (noImages) Prepare(context.Context, driver.ImageSource) ([]string, error) {
	return nil, fmt.Errorf("this rackd serves no machines, so it has no image cache: %w", driver.ErrUnsupported)
}

func (noImages) PrepareDisk(context.Context, driver.ImageSource) (driver.DiskImage, error) {
	return driver.DiskImage{}, fmt.Errorf("this rackd serves no machines, so it has no image cache: %w", driver.ErrUnsupported)
}

func (noImages) Verify(context.Context, driver.ImageSource) (bool, error) {
	return false, fmt.Errorf("this rackd serves no machines, so it has no image cache: %w", driver.ErrUnsupported)
}

func (noImages) Latest(context.Context, string) (string, error) {
	return "", fmt.Errorf("this rackd serves no machines, so it has no image cache: %w", driver.ErrUnsupported)
}

// newAgent returns the client of a node's agent.
func newAgent(_ string, tokens func() []string, state func() *work.Agent) driver.Agent {
	return agentclient.New(agentclient.Config{State: state, Tokens: tokens})
}

// agentStatus maps the conductor's answers to agents to HTTP statuses.
func agentStatus(err error) int {
	if owner, ok := errors.AsType[*ask.Error](err); ok {
		return owner.Status
	}
	return cmp.Or(refusal.Status(err), http.StatusBadRequest)
}

// drives builds config drives, with what client fetches.
func drives(client *http.Client) func(ctx context.Context, input, uuid, name string) (string, error) {
	return func(ctx context.Context, input, uuid, name string) (string, error) {
		drive, err := configdrive.Build(ctx, client, input, configdrive.Defaults{UUID: uuid, Name: name})
		if errors.Is(err, configdrive.ErrUnavailable) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err) // the step tries again
		}
		return drive, err
	}
}
