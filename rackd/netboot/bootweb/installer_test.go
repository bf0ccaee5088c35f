package bootweb

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// maker makes kickstarts.
type maker struct{ fail error }

func (k maker) Kickstart(_ context.Context, m netboot.Machine, image string) (string, error) {
	return "node " + m.UUID + " image " + image, k.fail
}

// An installer gets its kickstart and is sent to its files: at the machine's address, with the id of its boot, while it is to run.
func TestFilesOfInstallers(t *testing.T) {
	order := bootorder.Install(bootorder.Load{Instance: true, Installer: &bootorder.Installer{Ending: ".tgz", Image: bootorder.File{URL: "http://h/images/i"}, Stage2: bootorder.File{URL: "http://h/images/s"}}})
	tree := bootorder.Install(bootorder.Load{Instance: true, Installer: &bootorder.Installer{Repository: "http://mirror/os/"}})
	const at = "/boot/installer/" + id + "/s3cret/"
	known, other := []netip.Addr{netip.MustParseAddr("192.0.2.1")}, []netip.Addr{netip.MustParseAddr("192.0.2.7")} // of httptest's requests, and another
	for name, c := range map[string]struct {
		path   string
		change func(*netboot.Machine)
		fail   error
		status int
		want   string
	}{
		"kickstart":           {at + "ks.cfg", nil, nil, 200, "image http://h/boot/installer/" + id + "/s3cret/image.tgz"},
		"of a repository":     {at + "ks.cfg", func(m *netboot.Machine) { m.Order = tree }, nil, 200, "image http://mirror/os/"},
		"of the machine":      {at + "ks.cfg", func(m *netboot.Machine) { m.Addresses = known }, nil, 200, "node " + id},
		"that fails":          {at + "ks.cfg", nil, errors.New("s3cret password"), 503, "cannot be made now"},
		"stage 2":             {at + "stage2/images/install.img", nil, nil, 302, "http://h/images/s"},
		"stage 2, live":       {at + "stage2/LiveOS/squashfs.img", nil, nil, 302, "http://h/images/s"},
		"no tree":             {at + "stage2/.treeinfo", nil, nil, 404, ""},
		"image":               {at + "image.tgz", nil, nil, 302, "http://h/images/i"},
		"another ending":      {at + "image.img", nil, nil, 404, ""},
		"a repository's":      {at + "image", func(m *netboot.Machine) { m.Order = tree }, nil, 404, ""},
		"another boot":        {"/boot/installer/" + id + "/guess/ks.cfg", nil, nil, 404, ""},
		"another node":        {"/boot/installer/11111111-1111-4111-8111-111111111112/s3cret/ks.cfg", nil, nil, 404, ""},
		"no node":             {"/boot/installer/x/s3cret/ks.cfg", nil, nil, 400, ""},
		"no boot":             {at + "ks.cfg", func(m *netboot.Machine) { m.BootID = "" }, nil, 404, ""},
		"an agent's ramdisk":  {at + "ks.cfg", func(m *netboot.Machine) { m.Order = bootorder.Ramdisk(bootorder.Load{}) }, nil, 404, ""},
		"files on their way":  {at + "ks.cfg", func(m *netboot.Machine) { m.Order = bootorder.Later("soon") }, nil, 503, ""},
		"another machine":     {at + "ks.cfg", func(m *netboot.Machine) { m.Addresses = other }, nil, 403, ""},
		"an unheard machine":  {at + "ks.cfg", func(m *netboot.Machine) { m.Hears = true }, nil, 503, ""},
		"the instance's turn": {at + "ks.cfg", func(m *netboot.Machine) { m.Order = bootorder.LocalDisk() }, nil, 404, ""},
	} {
		r, h := newRack(t, func(cfg *Config) { cfg.Kickstarts = maker{c.fail} })
		if r.machine.Order, r.machine.BootID = order, "s3cret"; c.change != nil {
			c.change(&r.machine)
		}
		w := ask(h, http.MethodGet, c.path)
		if got := w.Body.String() + w.Header().Get("Location"); w.Code != c.status || !strings.Contains(got, c.want) || strings.Contains(got, "password") {
			t.Errorf("%s: %d %s, want %d %q", name, w.Code, got, c.status, c.want)
		}
	}
}

// greedy counts the kickstarts that are being made; each waits until it is let go.
type greedy struct {
	now, most atomic.Int32
	per       func(node string) *atomic.Int32
	letGo     chan struct{}
}

func (k *greedy) Kickstart(ctx context.Context, m netboot.Machine, _ string) (string, error) {
	of := k.per(m.UUID)
	if of.Add(1) > 1 {
		return "", errors.New("two of one node are made at once")
	}
	defer of.Add(-1)
	k.most.Store(max(k.most.Load(), k.now.Add(1)))
	defer k.now.Add(-1)
	<-k.letGo
	return "made", nil
}

// Who runs an installer may ask for its kickstart any number of times at once. Each takes a hundred megabytes where there is a large
// config drive, so they are made one after the other. Another node has its turn meanwhile.
func TestKickstartsAreMadeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of atomic.Int32
		k := &greedy{per: func(string) *atomic.Int32 { return &of }, letGo: make(chan struct{})}
		r, h := newRack(t, func(cfg *Config) { cfg.Kickstarts = k })
		r.machine.Order, r.machine.BootID = bootorder.Install(bootorder.Load{Instance: true, Installer: &bootorder.Installer{}}), "s3cret"
		const asked = 50
		codes := make(chan int, asked)
		for range asked {
			go func() { codes <- ask(h, http.MethodGet, "/boot/installer/"+id+"/s3cret/ks.cfg").Code }()
		}
		synctest.Wait()
		if k.now.Load() != 1 {
			t.Errorf("%d kickstarts of one node are made at once", k.now.Load())
		}
		close(k.letGo)
		for range asked {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("one is answered %d", code)
			}
		}
		if k.most.Load() != 1 {
			t.Errorf("%d were made at once", k.most.Load())
		}
	})
}

// A kickstart that is sent slowly keeps no other node's from being made, and those of many nodes are made some at a time.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		first, second, third := take(t, all, "a"), take(t, all, "b"), take(t, all, "d")
		waits := make(chan error, 2)
		for _, node := range []string{"a", "c"} {
			go func() {
				_, done, err := all.take(t.Context(), node)
				if err == nil {
					done()
				}
				waits <- err
			}()
		}
		synctest.Wait()
		if len(waits) != 0 {
			t.Errorf("%d more have a place", len(waits))
		}
		first.made() // and is being sent
		synctest.Wait()
		if len(waits) != 1 {
			t.Error("the place of one that is made was not given back, or the node has two turns")
		}
		second.done()
		third.done()
		if err := errors.Join(<-waits, <-waits); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the node whose kickstart is being sent: %v", err)
		}
		first.done()
		if len(all.nodes) != 0 || len(all.slots) != 0 {
			t.Errorf("%d nodes and %d places are left", len(all.nodes), len(all.slots))
		}
	})
}

// A config drive may be fetched from a server of the instance's user. One that never answers keeps others waiting for a while only.
func TestAMakingThatHangsGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newRack(t, func(cfg *Config) { cfg.Kickstarts = hanging{} })
		r.machine.Order, r.machine.BootID = bootorder.Install(bootorder.Load{Instance: true, Installer: &bootorder.Installer{}}), "s3cret"
		began := time.Now()
		if w := ask(h, http.MethodGet, "/boot/installer/"+id+"/s3cret/ks.cfg"); w.Code != http.StatusServiceUnavailable || time.Since(began) != makeWithin {
			t.Errorf("answered %d after %s", w.Code, time.Since(began))
		}
	})
}

type hanging struct{}

func (hanging) Kickstart(ctx context.Context, _ netboot.Machine, _ string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

type taken struct{ made, done func() }

func take(t *testing.T, all *turns, node string) taken {
	t.Helper()
	made, done, err := all.take(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return taken{made, done}
}
