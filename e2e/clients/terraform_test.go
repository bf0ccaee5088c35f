package clients

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/conductors"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// TestTerraform makes the requests of Terraform's providers for Ironic, whose resources
// are nodes, ports, allocations and deployments: at the oldest version that one has for a
// default, whose config drives are images, at one that takes them as JSON, and at the newer
// provider's, which reads what inspection found, too.
func TestTerraform(t *testing.T) {
	endpoint := fleet(t)
	asJSON := nodes.ConfigDrive{UserData: "{}", NetworkData: map[string]any{}, MetaData: map[string]any{"name": "master-0"}}
	for version, drive := range map[string]any{
		"1.52": base64.StdEncoding.EncodeToString([]byte("a compressed image")),
		"1.60": asJSON,
		"1.99": asJSON,
	} {
		client, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint + "/v1"})
		if err != nil {
			t.Fatal(err)
		}
		client.Microversion = version
		g := &gopher{T: t, ctx: t.Context(), client: client}
		g.terraformNode()
		if version == "1.99" {
			g.introspection()
		}
		g.noAllocation()
		g.deployment(drive)
		g.destroy()
	}
}

// terraformNode is the resource ironic_node_v1 with manage, inspect, clean and available.
func (g *gopher) terraformNode() {
	made := value(nodes.Create(g.ctx, g.client, nodes.CreateOpts{Name: "openshift-master-0", Driver: "fake-hardware",
		BootInterface: "fake", ConsoleInterface: "no-console", DeployInterface: "fake", InspectInterface: "no-inspect", ManagementInterface: "fake",
		NetworkInterface: "noop", PowerInterface: "fake", RAIDInterface: "no-raid", RescueInterface: "no-rescue", StorageInterface: "noop", VendorInterface: "no-vendor",
		ResourceClass: "baremetal", Owner: "terraform", DriverInfo: map[string]any{"fake_password": "x"}, Extra: map[string]any{"a": "b"},
		Properties: map[string]any{"cpus": "4", "local_gb": "50"}}).Extract())(g)
	g.node = made.UUID
	on := true
	value(ports.Create(g.ctx, g.client, ports.CreateOpts{NodeUUID: g.node, Address: "52:54:00:00:0f:01", PXEEnabled: &on}).Extract())(g)
	g.provision(nodes.TargetManage, nodes.Manageable)
	n := value(nodes.Update(g.ctx, g.client, g.node, nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/inspect_interface", Value: "fake"},
		nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/properties", Value: map[string]any{"cpus": "8"}},
		nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/extra", Value: map[string]any{"c": "d"}},
	}).Extract())(g)
	if n.InspectInterface != "fake" || n.Properties["cpus"] != "8" || n.Extra["c"] != "d" || n.RescueInterface != "no-rescue" || n.Owner != "terraform" || n.DriverInfo["fake_password"] != "******" {
		g.Errorf("the node reads as %+v", n)
	}
	g.provision(nodes.TargetInspect, nodes.Manageable)
	// A clean is asked for without steps; it is refused and the node stays as it is.
	err := nodes.ChangeProvisionState(g.ctx, g.client, g.node, nodes.ProvisionStateOpts{Target: nodes.TargetClean}).ExtractErr()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		g.Errorf("a clean without steps: %v", err)
	}
	g.provision(nodes.TargetProvide, nodes.Available)
}

// introspection is the newer provider's check that the API is up, and its data source of the same name.
func (g *gopher) introspection() {
	for _, c := range pages(g, conductors.List(g.client, conductors.ListOpts{Detail: true}), conductors.ExtractConductors) {
		if !c.Alive || len(c.Drivers) == 0 {
			g.Errorf("conductor %+v", c)
		}
	}
	found := value(nodes.GetInventory(g.ctx, g.client, g.node).Extract())(g).Inventory
	if found.CPU.Count == 0 || found.Memory.PhysicalMb == 0 || len(found.Disks) == 0 || len(found.Interfaces) != 1 || found.Interfaces[0].MACAddress != "52:54:00:00:0f:01" {
		g.Errorf("inventory %+v", found)
	}
}

// noAllocation is ironic_allocation_v1 when no node suits: the provider tells why and takes the allocation away.
func (g *gopher) noAllocation() {
	a := value(allocations.Create(g.ctx, g.client, allocations.CreateOpts{Name: "worker-0", ResourceClass: "nobody-has-it"}).Extract())(g)
	for end := time.Now().Add(20 * time.Second); a.State != string(allocations.Error); a = value(allocations.Get(g.ctx, g.client, a.UUID).Extract())(g) {
		if a.State == string(allocations.Active) || time.Now().After(end) {
			g.Fatalf("allocation %+v", a)
		}
	}
	if !strings.Contains(a.LastError, "nobody-has-it") || a.NodeUUID != "" {
		g.Errorf("allocation %+v", a)
	}
	g.must(allocations.Delete(g.ctx, g.client, a.UUID).ExtractErr())
}

// deployment is the resources ironic_allocation_v1 and ironic_deployment.
func (g *gopher) deployment(drive any) {
	a := value(allocations.Create(g.ctx, g.client, allocations.CreateOpts{Name: "master-0", ResourceClass: "baremetal", CandidateNodes: []string{g.node},
		Traits: []string{}, Extra: map[string]string{"role": "master"}}).Extract())(g)
	for end := time.Now().Add(20 * time.Second); a.State != string(allocations.Active); a = value(allocations.Get(g.ctx, g.client, a.UUID).Extract())(g) {
		if a.State == string(allocations.Error) || time.Now().After(end) {
			g.Fatalf("allocation %+v", a)
		}
	}
	if a.NodeUUID != g.node || a.Extra["role"] != "master" || len(a.CandidateNodes) != 1 {
		g.Errorf("allocation %+v", a)
	}
	value(nodes.Update(g.ctx, g.client, a.NodeUUID, nodes.UpdateOpts{nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_info",
		Value: map[string]any{"image_source": "http://192.0.2.1/rhcos.raw", "image_checksum": "00000000000000000000000000000000", "root_gb": "25"}}}).Extract())(g)
	g.must(nodes.ChangeProvisionState(g.ctx, g.client, g.node, nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: drive}).ExtractErr())
	g.await("active", func(n *nodes.Node) bool { return n.ProvisionState == string(nodes.Active) && n.InstanceUUID == a.UUID })
}

// destroy takes all away, as `terraform destroy` does.
func (g *gopher) destroy() {
	g.provision(nodes.TargetDeleted, nodes.Available)
	if _, err := allocations.Get(g.ctx, g.client, "master-0").Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		g.Errorf("the allocation after its instance: %v", err)
	}
	g.must(nodes.Delete(g.ctx, g.client, g.node).ExtractErr())
}
