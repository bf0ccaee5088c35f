package clients

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/conductors"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// gopher drives a fleet with gophercloud.
type gopher struct {
	*testing.T
	ctx    context.Context
	client *gophercloud.ServiceClient
	node   string // UUID
}

// TestGophercloud makes each call of gophercloud's packages for bare metal;
// TestGophercloudWhole holds that none is left out.
func TestGophercloud(t *testing.T) {
	endpoint := fleet(t)
	client, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	client.Microversion = "1.95"
	g := &gopher{T: t, ctx: t.Context(), client: client}
	g.versions(endpoint)
	g.drivers()
	g.enrol()
	g.hardware()
	g.network()
	g.vendor()
	g.subscriptions()
	g.instance()
	g.end()
}

// must ends the test on an error; value does so too and returns what there is.
func (g *gopher) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func value[V any](v V, err error) func(*gopher) V {
	return func(g *gopher) V { g.Helper(); g.must(err); return v }
}

func pages[V any](g *gopher, p pagination.Pager, extract func(pagination.Page) (V, error)) V {
	g.Helper()
	all, err := p.AllPages(g.ctx)
	g.must(err)
	return value(extract(all))(g)
}

// versions asks at the root, below which all versions are.
func (g *gopher) versions(endpoint string) {
	root, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint})
	g.must(err)
	all := value(apiversions.List(g.ctx, root).Extract())(g)
	if len(all.Versions) != 1 || all.DefaultVersion != all.Versions[0] || all.DefaultVersion.MinVersion != "1.1" {
		g.Errorf("versions %+v", all)
	}
	if v := value(apiversions.Get(g.ctx, root, "v1").Extract())(g); *v != all.DefaultVersion {
		g.Errorf("version %+v, want %+v", v, all.DefaultVersion)
	}
}

func (g *gopher) drivers() {
	list := pages(g, drivers.ListDrivers(g.client, drivers.ListDriversOpts{Detail: true}), drivers.ExtractDrivers)
	if len(list) == 0 || list[0].Type != "dynamic" {
		g.Errorf("drivers %+v", list)
	}
	if d := value(drivers.GetDriverDetails(g.ctx, g.client, "fake-hardware").Extract())(g); d.DefaultDeployInterface == "" || len(d.Hosts) != 1 {
		g.Errorf("driver %+v", d)
	}
	value(drivers.GetDriverProperties(g.ctx, g.client, "fake-hardware").Extract())(g)
	if p := value(drivers.GetDriverDiskProperties(g.ctx, g.client, "fake-hardware").Extract())(g); (*p)["raid_level"] == nil {
		g.Errorf("properties of logical disks: %v", p)
	}
	conductor := pages(g, conductors.List(g.client, conductors.ListOpts{}), conductors.ExtractConductors)[0]
	if c := value(conductors.Get(g.ctx, g.client, conductor.Hostname).Extract())(g); !c.Alive {
		g.Errorf("conductor %+v", c)
	}
}

func (g *gopher) enrol() {
	n := value(nodes.Create(g.ctx, g.client, nodes.CreateOpts{Name: "gopher", Driver: "fake-hardware", ResourceClass: "gold",
		DriverInfo: map[string]any{"fake_password": "hunter2"}, Properties: map[string]any{"cpus": 4}}).Extract())(g)
	g.node = n.UUID
	if n.ProvisionState != string(nodes.Enroll) || n.DriverInfo["fake_password"] != "******" {
		g.Errorf("created %+v", n)
	}
	n = value(nodes.Update(g.ctx, g.client, g.node, nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_info/image_source", Value: "http://example.org/i.raw"},
		nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/description", Value: "a node"},
	}).Extract())(g)
	if n.Description != "a node" || n.InstanceInfo["image_source"] == nil {
		g.Errorf("updated %+v", n)
	}
	if list := pages(g, nodes.List(g.client, nodes.ListOpts{Fields: []string{"uuid", "name"}}), nodes.ExtractNodes); len(list) != 1 {
		g.Errorf("%d nodes", len(list))
	}
	if list := pages(g, nodes.ListDetail(g.client, nodes.ListOpts{ResourceClass: "gold"}), nodes.ExtractNodes); len(list) != 1 {
		g.Errorf("%d golden nodes", len(list))
	}
	g.must(nodes.SetMaintenance(g.ctx, g.client, g.node, nodes.MaintenanceOpts{Reason: "a look inside"}).ExtractErr())
	g.must(nodes.UnsetMaintenance(g.ctx, g.client, g.node).ExtractErr())
	g.provision(nodes.TargetManage, nodes.Manageable)
	if v := value(nodes.Validate(g.ctx, g.client, g.node).Extract())(g); !v.Power.Result {
		g.Errorf("validation %+v", v)
	}
	g.provision(nodes.TargetInspect, nodes.Manageable)
	value(nodes.GetInventory(g.ctx, g.client, g.node).Extract())(g)
}

func (g *gopher) hardware() {
	g.must(nodes.ChangePowerState(g.ctx, g.client, g.node, nodes.PowerStateOpts{Target: nodes.PowerOn}).ExtractErr())
	g.await("power on", func(n *nodes.Node) bool { return n.PowerState == "power on" && n.TargetPowerState == "" })
	g.must(nodes.ChangePowerState(g.ctx, g.client, g.node, nodes.PowerStateOpts{Target: nodes.PowerOff}).ExtractErr())
	g.await("power off", func(n *nodes.Node) bool { return n.PowerState == "power off" && n.TargetPowerState == "" })
	g.must(nodes.InjectNMI(g.ctx, g.client, g.node).ExtractErr())
	g.must(nodes.SetBootDevice(g.ctx, g.client, g.node, nodes.BootDeviceOpts{BootDevice: "disk", Persistent: true}).ExtractErr())
	if d := value(nodes.GetBootDevice(g.ctx, g.client, g.node).Extract())(g); d.BootDevice != "disk" || !d.Persistent {
		g.Errorf("boot device %+v", d)
	}
	if l := value(nodes.GetSupportedBootDevices(g.ctx, g.client, g.node).Extract())(g); len(l) == 0 {
		g.Error("no boot device is supported")
	}
	size := 100
	g.must(nodes.SetRAIDConfig(g.ctx, g.client, g.node, nodes.RAIDConfigOpts{LogicalDisks: []nodes.LogicalDisk{{SizeGB: &size, RAIDLevel: nodes.RAID1}}}).ExtractErr())
	settings := value(nodes.ListBIOSSettings(g.ctx, g.client, g.node, nodes.ListBIOSSettingsOpts{Detail: true}).Extract())(g)
	if len(settings) == 0 {
		g.Fatal("no BIOS settings")
	}
	// The client's own type expects a setting with the name "Setting".
	one := nodes.GetBIOSSetting(g.ctx, g.client, g.node, settings[0].Name)
	g.must(one.Err)
	if body, _ := one.Body.(map[string]any); body[settings[0].Name] == nil {
		g.Errorf("BIOS setting %v", one.Body)
	}
	if l := value(nodes.ListFirmware(g.ctx, g.client, g.node).Extract())(g); len(l) == 0 {
		g.Error("no firmware components")
	}
	g.must(nodes.AttachVirtualMedia(g.ctx, g.client, g.node, nodes.AttachVirtualMediaOpts{DeviceType: nodes.VirtualMediaCD,
		ImageURL: "http://example.org/tools.iso"}).ExtractErr())
	g.must(nodes.GetVirtualMedia(g.ctx, g.client, g.node).Err)
	g.must(nodes.DetachVirtualMedia(g.ctx, g.client, g.node, nodes.DetachVirtualMediaOpts{DeviceTypes: []nodes.VirtualMediaDeviceType{nodes.VirtualMediaCD}}).ExtractErr())
}

func (g *gopher) network() {
	p := value(ports.Create(g.ctx, g.client, ports.CreateOpts{NodeUUID: g.node, Address: "52:54:00:00:00:51"}).Extract())(g)
	p = value(ports.Update(g.ctx, g.client, p.UUID, ports.UpdateOpts{ports.UpdateOperation{Op: ports.AddOp, Path: "/extra/a", Value: "b"}}).Extract())(g)
	if got := value(ports.Get(g.ctx, g.client, p.UUID).Extract())(g); got.Extra["a"] != "b" {
		g.Errorf("port %+v", got)
	}
	if l := pages(g, ports.List(g.client, ports.ListOpts{Address: p.Address}), ports.ExtractPorts); len(l) != 1 {
		g.Errorf("%d ports", len(l))
	}
	if l := pages(g, ports.ListDetail(g.client, ports.ListOpts{NodeUUID: g.node}), ports.ExtractPorts); len(l) != 1 || l[0].NodeUUID != g.node {
		g.Errorf("ports of the node: %+v", l)
	}
	const vif = "9f2b1f5c-7c4e-4f0e-9a0d-3c1d4b5e6f70"
	g.must(nodes.AttachVirtualInterface(g.ctx, g.client, g.node, nodes.VirtualInterfaceOpts{ID: vif, PortUUID: p.UUID}).ExtractErr())
	if l := value(nodes.ListVirtualInterfaces(g.ctx, g.client, g.node).Extract())(g); len(l) != 1 || l[0].ID != vif {
		g.Errorf("VIFs %+v", l)
	}
	g.must(nodes.DetachVirtualInterface(g.ctx, g.client, g.node, vif).ExtractErr())
	g.must(ports.Delete(g.ctx, g.client, p.UUID).ExtractErr())
}

// vendor calls vendor methods.
func (g *gopher) vendor() {
	if m := value(nodes.ListVendorPassthruMethods(g.ctx, g.client, g.node).Extract())(g); len(m) == 0 {
		g.Error("the node has no vendor methods")
	}
	g.must(nodes.CallVendorPassthru(g.ctx, g.client, g.node, "POST", nodes.VendorPassthruCallOpts{Method: "second_method", Body: map[string]any{"bar": "meow"}}).Err)
	value(drivers.ListVendorPassthruMethods(g.ctx, g.client, "fake-hardware").Extract())(g)
	if r := drivers.CallVendorPassthru(g.ctx, g.client, "fake-hardware", "GET", drivers.VendorPassthruCallOpts{Method: "no_such_method"}); r.Err == nil {
		g.Error("a driver's method that does not exist was called")
	}
}

// subscriptions calls the methods that gophercloud knows by name, on a machine whose BMC
// speaks Redfish.
func (g *gopher) subscriptions() {
	node := value(nodes.Create(g.ctx, g.client, nodes.CreateOpts{Name: "redfish", Driver: "redfish", DriverInfo: map[string]any{
		"redfish_address": bmc(g.T), "redfish_username": "admin", "redfish_password": "secret", "redfish_verify_ca": false}}).Extract())(g).UUID
	if m := value(nodes.GetVendorPassthruMethods(g.ctx, g.client, node).Extract())(g); len(m.CreateSubscription.HTTPMethods) == 0 {
		g.Errorf("vendor methods: %+v", m)
	}
	method := func(name string) nodes.CallVendorPassthruOpts { return nodes.CallVendorPassthruOpts{Method: name} }
	made := value(nodes.CreateSubscription(g.ctx, g.client, node, method("create_subscription"),
		nodes.CreateSubscriptionOpts{Destination: "https://example.org/events", EventTypes: []string{"Alert"}, Context: "c", Protocol: "Redfish"}).Extract())(g)
	all := value(nodes.GetAllSubscriptions(g.ctx, g.client, node, method("get_all_subscriptions")).Extract())(g)
	if len(all.Members) != 1 {
		g.Errorf("subscriptions %+v", all)
	}
	got := value(nodes.GetSubscription(g.ctx, g.client, node, method("get_subscription"), nodes.GetSubscriptionOpts{Id: made.Id}).Extract())(g)
	if got.Destination != "https://example.org/events" {
		g.Errorf("subscription %+v", got)
	}
	g.must(nodes.DeleteSubscription(g.ctx, g.client, node, method("delete_subscription"), nodes.DeleteSubscriptionOpts{Id: made.Id}).ExtractErr())
	g.must(nodes.Delete(g.ctx, g.client, node).ExtractErr())
}

func (g *gopher) instance() {
	g.provision(nodes.TargetProvide, nodes.Available)
	a := value(allocations.Create(g.ctx, g.client, allocations.CreateOpts{Name: "a1", ResourceClass: "gold"}).Extract())(g)
	for end := time.Now().Add(20 * time.Second); a.State != string(allocations.Active); a = value(allocations.Get(g.ctx, g.client, a.UUID).Extract())(g) {
		if time.Now().After(end) {
			g.Fatalf("allocation %+v", a)
		}
	}
	if l := pages(g, allocations.List(g.client, allocations.ListOpts{Node: g.node}), allocations.ExtractAllocations); len(l) != 1 {
		g.Errorf("%d allocations", len(l))
	}
	g.provision(nodes.TargetActive, nodes.Active)
	g.provision(nodes.TargetDeleted, nodes.Available)
	a = value(allocations.Create(g.ctx, g.client, allocations.CreateOpts{Name: "a2", ResourceClass: "none such"}).Extract())(g)
	g.must(allocations.Delete(g.ctx, g.client, a.UUID).ExtractErr())
}

func (g *gopher) end() {
	g.must(nodes.Delete(g.ctx, g.client, g.node).ExtractErr())
	if _, err := nodes.Get(g.ctx, g.client, g.node).Extract(); !gophercloud.ResponseCodeIs(err, 404) {
		g.Errorf("after its deletion the node gives %v", err)
	}
}

// TestGophercloudWithPasswords has the users' file decide who gets an answer.
func TestGophercloudWithPasswords(t *testing.T) {
	endpoint := passwordFleet(t)
	for password, right := range map[string]bool{"secret": true, "wrong": false} {
		client, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{IronicEndpoint: endpoint + "/v1/", IronicUser: "ann", IronicUserPassword: password})
		if err != nil {
			t.Fatal(err)
		}
		_, err = nodes.List(client, nodes.ListOpts{}).AllPages(t.Context())
		if right && err != nil || !right && !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			t.Errorf("with the password %q: %v", password, err)
		}
	}
}

// provision asks for a state, again while the node is locked, and waits until the node
// rests in after.
func (g *gopher) provision(target nodes.TargetProvisionState, after nodes.ProvisionState) {
	g.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := nodes.ChangeProvisionState(g.ctx, g.client, g.node, nodes.ProvisionStateOpts{Target: target}).ExtractErr()
		if err == nil {
			break
		}
		if !gophercloud.ResponseCodeIs(err, http.StatusConflict) || time.Now().After(end) {
			g.Fatal(err)
		}
	}
	g.await(string(after), func(n *nodes.Node) bool { return n.ProvisionState == string(after) })
}

func (g *gopher) await(what string, ok func(*nodes.Node) bool) {
	g.Helper()
	var n *nodes.Node
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if n = value(nodes.Get(g.ctx, g.client, g.node).Extract())(g); ok(n) {
			return
		}
	}
	g.Fatalf("waited for %s: %+v", what, n)
}

// TestGophercloudWhole compares the functions that send requests with those that this
// file names.
func TestGophercloudWhole(t *testing.T) {
	named := callsIn(t, "gophercloud_test.go")
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gophercloud/gophercloud/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"v1/*/requests.go", "apiversions/requests.go", "noauth/requests.go", "httpbasic/requests.go"} {
		found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "openstack/baremetal", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: found %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	if len(files) < 8 {
		t.Fatalf("found %d files only: %v", len(files), files)
	}
	for _, file := range files {
		pkg := filepath.Base(filepath.Dir(file))
		for _, f := range exportedRequests(t, file) {
			if !named[pkg+"."+f] {
				t.Errorf("no test calls %s.%s", pkg, f)
			}
		}
	}
}

func parseFile(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// callsIn returns the "package.Name" that a file calls.
func callsIn(t *testing.T, path string) map[string]bool {
	called := map[string]bool{}
	ast.Inspect(parseFile(t, path), func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok {
					called[pkg.Name+"."+s.Sel.Name] = true
				}
			}
		}
		return true
	})
	return called
}

// exportedRequests returns the functions that take a client or make one.
func exportedRequests(t *testing.T, path string) (names []string) {
	for _, d := range parseFile(t, path).Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !f.Name.IsExported() {
			continue
		}
		params := f.Type.Params.List
		if f.Type.Results != nil {
			params = append(slices.Clone(params), f.Type.Results.List...)
		}
		for _, p := range params {
			if star, ok := p.Type.(*ast.StarExpr); ok {
				if s, ok := star.X.(*ast.SelectorExpr); ok && s.Sel.Name == "ServiceClient" {
					names = append(names, f.Name.Name)
				}
			}
		}
	}
	return names
}
