package api

import (
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/conductors"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
)

// TestGophercloud creates, patches, provisions and deletes a node with a client
// that others wrote; the test moves the node on where a rack would.
func TestGophercloud(t *testing.T) {
	b := newBench(t)
	srv := httptest.NewServer(b.server)
	defer srv.Close()
	b.server.PublicEndpoint = ""
	client, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: srv.URL + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	client.Microversion = "1.95"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	n, err := nodes.Create(ctx, client, nodes.CreateOpts{Name: "gopher", Driver: "fake-hardware", DriverInfo: map[string]any{"redfish_password": "x"},
		Properties: map[string]any{"cpus": 4}}).Extract()
	must(err)
	if n.ProvisionState != "enroll" || n.DriverInfo["redfish_password"] != hidden || n.DeployInterface != "fake" || n.CreatedAt.IsZero() {
		t.Errorf("created %+v", n)
	}
	port, err := ports.Create(ctx, client, ports.CreateOpts{NodeUUID: n.UUID, Address: "aa:bb:cc:dd:ee:09"}).Extract()
	must(err)
	must(nodes.AttachVirtualInterface(ctx, client, n.UUID, nodes.VirtualInterfaceOpts{ID: vif1}).ExtractErr())
	if vifs, err := nodes.ListVirtualInterfaces(ctx, client, n.UUID).Extract(); err != nil || len(vifs) != 1 || vifs[0].ID != vif1 {
		t.Errorf("VIFs %v, error %v", vifs, err)
	}
	must(nodes.DetachVirtualInterface(ctx, client, n.UUID, vif1).ExtractErr())
	n, err = nodes.Update(ctx, client, n.UUID, nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.ReplaceOp, Path: "/resource_class", Value: "baremetal"},
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_info/image_source", Value: "http://image"},
	}).Extract()
	must(err)
	if n.ResourceClass != "baremetal" || n.InstanceInfo["image_source"] != "http://image" {
		t.Errorf("patched %+v", n)
	}
	step := func(target nodes.TargetProvisionState, during, after provision.State, opts nodes.ProvisionStateOpts) {
		t.Helper()
		opts.Target = target
		must(nodes.ChangeProvisionState(ctx, client, n.UUID, opts).ExtractErr())
		n, err = nodes.Get(ctx, client, n.UUID).Extract()
		must(err)
		if n.ProvisionState != string(during) {
			t.Errorf("after %s the node is in %q, want %q", target, n.ProvisionState, during)
		}
		b.move(n.UUID, after, provision.NoState, nil)
	}
	step(nodes.TargetManage, provision.Verifying, provision.Manageable, nodes.ProvisionStateOpts{})
	step(nodes.TargetProvide, provision.Cleaning, provision.Available, nodes.ProvisionStateOpts{})
	step(nodes.TargetActive, provision.Deploying, provision.Active,
		nodes.ProvisionStateOpts{ConfigDrive: nodes.ConfigDrive{MetaData: map[string]any{"name": "i"}, UserData: "#!/bin/sh"}})
	must(nodes.ChangePowerState(ctx, client, n.UUID, nodes.PowerStateOpts{Target: nodes.Rebooting}).ExtractErr())
	b.move(n.UUID, provision.Active, provision.NoState, nil)
	step(nodes.TargetDeleted, provision.Deleting, provision.Available, nodes.ProvisionStateOpts{})

	b.ask[ask.Validate] = `{"power":{"result":true},"boot":{"result":false,"reason":"no ramdisk"}}`
	validation, err := nodes.Validate(ctx, client, n.UUID).Extract()
	must(err)
	if !validation.Power.Result || validation.Boot.Result || validation.Boot.Reason != "no ramdisk" {
		t.Errorf("validation %+v", validation)
	}
	must(nodes.SetBootDevice(ctx, client, n.UUID, nodes.BootDeviceOpts{BootDevice: "disk", Persistent: true}).ExtractErr())
	device, err := nodes.GetBootDevice(ctx, client, n.UUID).Extract()
	must(err)
	supported, err := nodes.GetSupportedBootDevices(ctx, client, n.UUID).Extract()
	must(err)
	if device.BootDevice != "pxe" || len(supported) != 2 {
		t.Errorf("boot device %+v of %v", device, supported)
	}
	must(nodes.SetMaintenance(ctx, client, n.UUID, nodes.MaintenanceOpts{Reason: "test"}).ExtractErr())
	must(nodes.UnsetMaintenance(ctx, client, n.UUID).ExtractErr())

	b.want(201, "POST", "/v1/nodes", "1.95", `{"driver":"fake-hardware"}`)
	pages, err := nodes.List(client, nodes.ListOpts{Limit: 100, Fields: []string{"uuid", "name"}}).AllPages(ctx)
	must(err)
	all, err := nodes.ExtractNodes(pages)
	must(err)
	if len(all) != 2 {
		t.Errorf("%d nodes, want 2", len(all))
	}
	pages, err = nodes.ListDetail(client, nodes.ListOpts{}).AllPages(ctx)
	must(err)
	if all, err = nodes.ExtractNodes(pages); err != nil || len(all) != 2 {
		t.Errorf("%d nodes in detail, %v", len(all), err)
	}
	driver, err := drivers.GetDriverDetails(ctx, client, "fake-hardware").Extract()
	must(err)
	if driver.DefaultDeployInterface != "fake" {
		t.Errorf("driver %+v", driver)
	}
	conductor, err := conductors.Get(ctx, client, "rack-1").Extract()
	must(err)
	if !conductor.Alive || conductor.Hostname != "rack-1" {
		t.Errorf("conductor %+v", conductor)
	}
	must(ports.Delete(ctx, client, port.UUID).ExtractErr())
	must(nodes.Delete(ctx, client, n.UUID).ExtractErr())
	if _, err := nodes.Get(ctx, client, n.UUID).Extract(); !gophercloud.ResponseCodeIs(err, 404) {
		t.Errorf("after its deletion the node gives %v", err)
	}
}
