package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/bootweb"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/view"
)

// localBoot is a boot interface by the network that nothing but this test knows.
type localBoot struct {
	// changed makes its orders others than a ramdisk by a script.
	changed func(bootorder.Order) bootorder.Order
}

func (localBoot) Properties() map[string]string   { return nil }
func (localBoot) Validate(n *node.Document) error { return nil }
func (l localBoot) RamdiskOrder(n *node.Document, facts map[string]string) bootorder.Order {
	return l.changed(bootorder.Ramdisk(bootorder.Load{Params: []string{"local.node=" + n.Name, "local.fact=" + facts["local"]}}))
}
func (l localBoot) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	return l.changed(bootorder.Image(bootorder.File{URL: "http://192.0.2.9/local.iso"}))
}
func (localBoot) PrepareRamdisk(context.Context, *driver.Task) error  { return nil }
func (localBoot) CleanUpRamdisk(context.Context, *driver.Task) error  { return nil }
func (localBoot) PrepareInstance(context.Context, *driver.Task) error { return nil }
func (localBoot) CleanUpInstance(context.Context, *driver.Task) error { return nil }

// oneNode are the documents of a rackd that has one node with that work, nil for none.
type oneNode struct {
	conductor.Documents
	n *node.Document
	w *view.Work
}

func (o oneNode) Node(id string) *node.Document {
	if id != o.n.UUID {
		return nil
	}
	return o.n
}

func (o oneNode) NodeByMAC(mac string) *node.Document {
	if mac != o.n.Ports[0].Address {
		return nil
	}
	return o.n
}

func (o oneNode) Work(string) *view.Work { return o.w }

func (o oneNode) RefreshWork(context.Context, string, string) error {
	if o.w == nil {
		return view.ErrNoWork
	}
	return nil
}

// A new boot interface by the network is its own type and one line of a hardware type. The rack's lookup of a machine, its scripts and its
// web server hand its orders on as they are: nothing of them knows boot interfaces.
func TestABootInterfaceByTheNetworkIsOneLine(t *testing.T) {
	const mac, id = "52:54:00:00:00:01", "0f5ab8c4-4ca5-4a53-8d02-e1e2b7a5b1f1"
	r := rackOfTwo(t)
	plain := func(o bootorder.Order) bootorder.Order { return o }
	ramdisk := &view.Work{Doc: work.Document{ID: "w", Node: id, Generation: 1, Verb: work.Deploy, State: provision.DeployWait, Entry: provision.Deploying,
		Checkpoint: work.Checkpoint{Facts: map[string]string{driver.FactBoot: driver.BootRamdisk, "local": "yes"}}}}
	for name, c := range map[string]struct {
		changed func(bootorder.Order) bootorder.Order
		w       *view.Work
		state   provision.State
		path    string
		status  int
		want    []string
	}{
		"the ramdisk": {plain, ramdisk, provision.DeployWait, netboot.ScriptPath + "?mac=" + mac, http.StatusOK,
			[]string{"#!ipxe", "http://192.0.2.1:8080/files/kernel", "local.node=m1", "local.fact=yes", "ipa-api-url="}},
		"the ramdisk, by UUID": {plain, ramdisk, provision.DeployWait, netboot.ScriptPath + "?uuid=" + id, http.StatusOK, []string{"local.node=m1"}},
		"the ramdisk, by TFTP": {func(o bootorder.Order) bootorder.Order { o.OverTFTP = true; return o }, ramdisk, provision.DeployWait, netboot.ScriptPath + "?mac=" + mac, http.StatusOK,
			[]string{"tftp://192.0.2.1/kernel", "local.node=m1"}},
		"the ramdisk, as a program": {func(o bootorder.Order) bootorder.Order { o.Direct = true; return o }, ramdisk, provision.DeployWait, netboot.ProgramPath + netboot.Dashed(mac) + "/" + netboot.ProgramName(false),
			http.StatusOK, []string{"<own-uki>"}},
		"its instance":     {plain, nil, provision.Active, netboot.ScriptPath + "?mac=" + mac, http.StatusOK, []string{"sanboot", "http://192.0.2.9/local.iso"}},
		"nothing, and why": {plain, nil, provision.Available, netboot.ScriptPath + "?mac=" + mac, http.StatusOK, []string{"Reason: Node m1", "nothing to boot"}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := fake.New(fake.Options{}).Type()
			kind.Interfaces["boot"] = append(kind.Interfaces["boot"], driver.Named{Name: "local", Impl: localBoot{c.changed}}) // the line
			hardware, err := driver.NewRegistry(kind)
			if err != nil {
				t.Fatal(err)
			}
			n := &node.Document{UUID: id, Name: "m1", Driver: kind.Name, Generation: 1, State: c.state, Interfaces: map[string]string{"boot": "local"},
				Properties: map[string]any{"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"}, Ports: []node.Port{{Address: mac, PXEEnabled: true}}}
			log := slog.New(slog.DiscardHandler)
			d := directory{c: conductor.New(conductor.Config{Documents: oneNode{n: n, w: c.w}, Members: lost{held: true}, Hardware: hardware, Keys: seal.NewKeyring("", nil), Log: log}),
				ramdisks: r.ramdisks, cached: func(string) string { return "" }, asked: true}
			s := &bootscript.Scripts{Directory: d, Journal: noJournal{}, Log: log, Ramdisk: func(m netboot.Machine) ipxescript.Ramdisk {
				found := ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://192.0.2.1:8080", TFTP: "tftp://192.0.2.1"}, Params: []string{"ipa-api-url=https://192.0.2.1:9999"}}
				r.nameFiles(&found, m)
				return found
			}}
			w := httptest.NewRecorder()
			bootweb.Handler(bootweb.Config{Journal: noJournal{}, Files: r.files, Scripts: s, Log: log}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil))
			if w.Code != c.status {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			for _, want := range c.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("no %q in:\n%s", want, w.Body)
				}
			}
		})
	}
}
