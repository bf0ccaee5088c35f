"""Drives the bare metal proxy of openstacksdk through all that it can do.

argv: the API's endpoint; without it, clouds.yaml and OS_CLOUD say where the API is. Each call is checked by what it returns; the last line says
which of the proxy's methods were not called.
"""
import sys
import warnings

warnings.simplefilter("ignore")

import openstack
from openstack import exceptions
from openstack.baremetal.v1 import _proxy

called = set()


class Recorder:
    """Notes which methods of the proxy are called."""

    def __init__(self, proxy):
        self._proxy = proxy

    def __getattr__(self, name):
        called.add(name)
        return getattr(self._proxy, name)


def want(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, want {expected!r}")


def gone(find, what):
    try:
        find()
    except exceptions.NotFoundException:
        return
    sys.exit(f"{what} is still there")


conn = openstack.connect(auth_type="none", endpoint=sys.argv[1]) if len(sys.argv) > 1 else openstack.connect()
bm = Recorder(conn.baremetal)

# Drivers and conductors
want([c.hostname for c in bm.conductors()], ["rackd-dev"], "conductors")
want(bm.get_conductor("rackd-dev").alive, True, "conductor")
drivers = {d.name: d for d in bm.drivers(details=True)}
want(drivers["fake-hardware"].default_power_interface, "fake", "default power interface")
want(bm.get_driver("fake-hardware").name, "fake-hardware", "driver")
methods = bm.list_driver_vendor_passthru("fake-hardware")
want(isinstance(methods, dict), True, "methods of the driver")
try:
    bm.call_driver_vendor_passthru("fake-hardware", verb="GET", method="no_such_method")
    sys.exit("a driver's method that does not exist was called")
except exceptions.HttpException as e:
    want(e.status_code in (400, 404), True, "status of an unknown method of a driver")

# Chassis
chassis = bm.create_chassis(description="row 7", extra={"a": "b"})
want(bm.get_chassis(chassis.id).description, "row 7", "chassis")
want(bm.find_chassis(chassis.id).id, chassis.id, "find chassis")
want(bm.update_chassis(chassis, description="row 8").description, "row 8", "updated chassis")
want(bm.patch_chassis(chassis, [{"op": "add", "path": "/extra/c", "value": 1}]).extra, {"a": "b", "c": 1}, "patched chassis")
want([c.id for c in bm.chassis(details=True)], [chassis.id], "list of chassis")

# Node
node = bm.create_node(name="sdk", driver="fake-hardware", resource_class="gold", chassis_id=chassis.id,
                      driver_info={"fake_password": "hunter2"}, properties={"cpus": 4})
if node.provision_state == "enroll":  # before 2.0 the library made nodes available itself
    for verb in ("manage", "provide"):
        node = bm.set_node_provision_state(node, verb, wait=True, timeout=60)
want(node.provision_state, "available", "state of the node")
want(bm.get_node(node.id).chassis_id, chassis.id, "chassis of the node")
want("hunter2" in str(bm.get_node(node.id).driver_info), False, "password shown")
want(bm.find_node("sdk").id, node.id, "find node")
want([n.name for n in bm.nodes(resource_class="gold", fields=["name", "uuid"])], ["sdk"], "list of nodes")
node = bm.update_node(node, owner="me", extra={"k": 1})
want(node.owner, "me", "updated node")
node = bm.patch_node(node, [{"op": "add", "path": "/instance_info/image_source", "value": "http://example.org/i.raw"}])
want(node.instance_info["image_source"], "http://example.org/i.raw", "patched node")
bm.set_node_maintenance(node, "a look inside")
want(bm.get_node(node.id).is_maintenance, True, "maintenance")
bm.unset_node_maintenance(node)
bm.set_node_traits(node, ["CUSTOM_GOLD", "CUSTOM_OLD"])
bm.remove_node_trait(node, "CUSTOM_OLD")
bm.add_node_trait(node, "HW_CPU_X86_VMX")
want(sorted(bm.get_node(node.id).traits), ["CUSTOM_GOLD", "HW_CPU_X86_VMX"], "traits")
bm.validate_node(node)
bm.set_node_power_state(node, "power on")
bm.wait_for_node_power_state(node, "power on", timeout=60)
bm.set_node_boot_device(node, "disk", persistent=True)
bm.set_node_boot_mode(node, "bios")
bm.set_node_secure_boot(node, False)
bm.wait_for_node_reservation(node, timeout=60)
bm.set_node_provision_state(node, "manage", wait=True, timeout=60)
bm.list_node_vendor_passthru(node)
bm.call_node_vendor_passthru(node, verb="POST", method="second_method", body={"bar": "meow"})

# What came to the library after Debian 12's version
def has(*methods):
    """Whether the library has the methods, and with them what follows."""
    return all(hasattr(_proxy.Proxy, m) for m in methods)


if has("get_node_inventory"):
    bm.set_node_provision_state(node, "inspect", wait=True, timeout=60)
    want("inventory" in bm.get_node_inventory(node), True, "inventory")
if has("get_node_boot_device", "get_node_supported_boot_devices"):
    want(bm.get_node_boot_device(node)["boot_device"], "disk", "boot device")
    want("pxe" in bm.get_node_supported_boot_devices(node)["supported_boot_devices"], True, "boot devices")
if has("inject_nmi_to_node"):
    bm.inject_nmi_to_node(node)
if has("get_node_console", "enable_node_console", "disable_node_console"):
    bm.update_node(node, console_interface="fake")
    for change, enabled in ((bm.enable_node_console, True), (bm.disable_node_console, False)):
        change(node)
        bm.wait_for_node_reservation(bm.get_node(node.id), timeout=60)
        want(bm.get_node_console(node)["console_enabled"], enabled, "console")
if has("list_node_firmware"):
    want(sorted(f["component"] for f in bm.list_node_firmware(node)["firmware"]), ["bios", "bmc"], "firmware")
if has("attach_vmedia_to_node", "detach_vmedia_from_node"):
    bm.attach_vmedia_to_node(node, "cdrom", "http://example.org/tools.iso")
    bm.wait_for_node_reservation(bm.get_node(node.id), timeout=60)
    for taken, left in ((["floppy"], ["cdrom"]), (["cdrom"], [])):
        bm.detach_vmedia_from_node(node, device_types=taken)
        bm.wait_for_node_reservation(bm.get_node(node.id), timeout=60)
        media = bm.get(f"/nodes/{node.id}/vmedia", microversion="1.93").json()
        want([m["media_types"] for m in media if m["inserted"]], [[t] for t in left], "media that are left")
if has("runbooks"):
    book = bm.create_runbook(name="CUSTOM_RAISE", steps=[{"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}])
    want(bm.get_runbook("CUSTOM_RAISE").steps[0]["order"], 1, "runbook")
    want(bm.update_runbook(book, extra={"a": 1}).extra, {"a": 1}, "updated runbook")
    want(bm.patch_runbook(book, [{"op": "remove", "path": "/extra/a"}]).extra, {}, "patched runbook")
    want([b.id for b in bm.runbooks(details=True)], [book.id], "list of runbooks")
    if has("add_runbook_trait", "remove_runbook_trait", "set_runbook_traits"):
        bm.set_runbook_traits(book, ["CUSTOM_GOLD"])
        bm.add_runbook_trait(book, "CUSTOM_A")
        bm.remove_runbook_trait(book, "CUSTOM_A")
        want(bm.get_runbook(book.id).traits, ["CUSTOM_GOLD"], "traits of the runbook")
    bm.delete_runbook(book)
if has("inspection_rules"):
    rule = bm.create_inspection_rule(description="label it", conditions=[], actions=[{"op": "set-attribute", "args": {"path": "/extra/seen", "value": "yes"}}])
    want(bm.get_inspection_rule(rule.id).description, "label it", "rule")
    want(bm.update_inspection_rule(rule, description="labelled").description, "labelled", "updated rule")
    want(bm.patch_inspection_rule(rule, [{"op": "replace", "path": "/priority", "value": 7}]).priority, 7, "patched rule")
    want([r.id for r in bm.inspection_rules(details=True)], [rule.id], "list of rules")
    bm.delete_inspection_rule(rule)
    gone(lambda: bm.get_inspection_rule(rule.id), "the rule")

# Ports and port groups
group = bm.create_port_group(node_id=node.id, name="bond0", address="52:54:00:00:00:40")
want(bm.get_port_group(group.id).name, "bond0", "port group")
want(bm.find_port_group("bond0").id, group.id, "find port group")
want(bm.update_port_group(group, mode="802.3ad").mode, "802.3ad", "updated port group")
want(bm.patch_port_group(group, [{"op": "add", "path": "/extra/a", "value": 1}]).extra, {"a": 1}, "patched port group")
want([g.id for g in bm.port_groups(node=node.id, details=True)], [group.id], "list of port groups")
port = bm.create_port(node_id=node.id, address="52:54:00:00:00:41", port_group_id=group.id)
want(bm.get_port(port.id).port_group_id, group.id, "port group of the port")
want(bm.find_port(port.id).address, "52:54:00:00:00:41", "find port")
want([p.id for p in bm.ports(address="52:54:00:00:00:41", details=True)], [port.id], "list of ports")
want(bm.update_port(port, extra={"b": 2}).extra, {"b": 2}, "updated port")
want(bm.patch_port(port, [{"op": "replace", "path": "/pxe_enabled", "value": False}]).is_pxe_enabled, False, "patched port")
vif = "9f2b1f5c-7c4e-4f0e-9a0d-3c1d4b5e6f70"
bm.attach_vif_to_node(node, vif)
want(bm.list_node_vifs(node), [vif], "VIFs")
want(bm.detach_vif_from_node(node, vif), True, "detach")
want(bm.detach_vif_from_node(node, vif), False, "detach again")

# Volumes: the machine must be off
bm.set_node_power_state(node, "power off")
bm.wait_for_node_power_state(node, "power off", timeout=60)
connector = bm.create_volume_connector(node_id=node.id, type="iqn", connector_id="iqn.2026-11.org.example:sdk")
want(bm.get_volume_connector(connector.id).type, "iqn", "connector")
want(bm.find_volume_connector(connector.id).id, connector.id, "find connector")
want(bm.update_volume_connector(connector, extra={"a": 1}).extra, {"a": 1}, "updated connector")
want(bm.patch_volume_connector(connector, [{"op": "remove", "path": "/extra/a"}]).extra, {}, "patched connector")
want([c.id for c in bm.volume_connectors(node=node.id, details=True)], [connector.id], "list of connectors")
target = bm.create_volume_target(node_id=node.id, volume_type="iscsi", boot_index=0, volume_id="v1")
want(bm.get_volume_target(target.id).volume_id, "v1", "target")
want(bm.find_volume_target(target.id).id, target.id, "find target")
want(bm.update_volume_target(target, volume_id="v2").volume_id, "v2", "updated target")
want(bm.patch_volume_target(target, [{"op": "add", "path": "/extra/a", "value": 1}]).extra, {"a": 1}, "patched target")
want([v.id for v in bm.volume_targets(node=node.id, details=True)], [target.id], "list of targets")
bm.delete_volume_target(target)
bm.delete_volume_connector(connector)
gone(lambda: bm.get_volume_target(target.id), "the target")

# An instance by an allocation
bm.set_node_provision_state(node, "provide", wait=True, timeout=60)
allocation = bm.create_allocation(name="a1", resource_class="gold", traits=["CUSTOM_GOLD"])
allocation = bm.wait_for_allocation(allocation, timeout=60)
want(allocation.node_id, node.id, "node of the allocation")
want(bm.get_allocation("a1").state, "active", "allocation")
want(bm.update_allocation(allocation, extra={"a": 1}).extra, {"a": 1}, "updated allocation")
want(bm.patch_allocation(allocation, [{"op": "remove", "path": "/extra/a"}]).extra, {}, "patched allocation")
want([a.id for a in bm.allocations(state="active")], [allocation.id], "list of allocations")
bm.set_node_provision_state(node, "active", config_drive={"meta_data": {"hostname": "sdk"}})
(node,) = bm.wait_for_nodes_provision_state([node], "active", timeout=60)
want(node.instance_id, allocation.id, "instance")
bm.set_node_provision_state(node, "deleted", wait=True, timeout=60)
gone(lambda: bm.get_allocation("a1"), "the allocation")
allocation = bm.create_allocation(name="a2", resource_class="gold")
bm.wait_for_allocation(allocation, timeout=60)
bm.delete_allocation(allocation)

# Deploy templates
steps = [{"interface": "bios", "step": "apply_configuration", "args": {"settings": [{"name": "a", "value": "b"}]}, "priority": 150}]
template = bm.create_deploy_template(name="CUSTOM_HT", steps=steps)
want(bm.get_deploy_template("CUSTOM_HT").steps[0]["priority"], 150, "template")
want(bm.update_deploy_template(template, extra={"a": 1}).extra, {"a": 1}, "updated template")
want(bm.patch_deploy_template(template, [{"op": "remove", "path": "/extra/a"}]).extra, {}, "patched template")
want([t.id for t in bm.deploy_templates(details=True)], [template.id], "list of templates")
if has("find_deploy_template"):
    want(bm.find_deploy_template("CUSTOM_HT").id, template.id, "find template")
bm.delete_deploy_template(template)

# The end
if has("wait_for_status"):
    want(bm.wait_for_status(bm.get_node(node.id), "available", attribute="provision_state", wait=60).name, "sdk", "node")
bm.delete_port(port)
if has("wait_for_delete"):
    bm.wait_for_delete(port, wait=60)
bm.delete_port_group(group)
bm.delete_node(node)
gone(lambda: bm.get_node(node.id), "the node")
bm.delete_chassis(chassis)
gone(lambda: bm.get_chassis(chassis.id), "the chassis")
want(list(bm.nodes()), [], "nodes that are left")

public = {n for n in vars(_proxy.Proxy) if not n.startswith("_") and callable(getattr(_proxy.Proxy, n))}
print(" ".join(sorted(public - called)))
