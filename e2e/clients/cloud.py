"""Drives what openstacksdk's cloud layer has for bare metal.

argv: the API's endpoint; without it, clouds.yaml and OS_CLOUD say where the API is. The
last line says which of the layer's methods were not called.
"""
import sys
import warnings

warnings.simplefilter("ignore")

import openstack
from openstack.cloud import _baremetal

layer = next(c for n, c in vars(_baremetal).items() if n.startswith("Baremetal") and n.endswith("Mixin"))
called = {
    # These want a port of the network service, which is not there.
    "attach_port_to_machine", "detach_port_from_machine", "list_ports_attached_to_machine",
}


class Recorder:
    """Notes which methods of the layer are called."""

    def __init__(self, conn):
        self._conn = conn

    def __getattr__(self, name):
        called.add(name)
        return getattr(self._conn, name)


def want(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, want {expected!r}")


cloud = Recorder(openstack.connect(auth_type="none", endpoint=sys.argv[1]) if len(sys.argv) > 1 else openstack.connect())
mac = "52:54:00:00:00:71"

machine = cloud.register_machine([{"mac": mac}], wait=True, timeout=60, name="cloud", driver="fake-hardware", properties={"cpus": 4})
want(cloud.get_machine("cloud").provision_state, "available", "state of a registered machine")
want(cloud.get_machine("none-such"), None, "a machine that is not there")
want([m.id for m in cloud.list_machines()], [machine.id], "machines")
want([n.address for n in cloud.list_nics()], [mac], "NICs")
want([n.address for n in cloud.list_nics_for_machine(machine.id)], [mac], "NICs of the machine")
want(cloud.get_nic_by_mac(mac).node_id, machine.id, "NIC by address")
want(cloud.get_machine_by_mac(mac).id, machine.id, "machine by address")
want(cloud.inspect_machine("cloud", wait=True, timeout=60).provision_state, "available", "state of an inspected machine")

cloud.patch_machine(machine.id, [{"op": "add", "path": "/extra/a", "value": 1}])
changed = cloud.update_machine(machine.id, extra={"a": 2})
want("/extra/a" in changed["changes"], True, "what an update says that it changed")
want(cloud.update_machine(machine.id, extra={"a": 2})["changes"], None, "what an update says that changes nothing")
want(cloud.get_machine("cloud").extra, {"a": 2}, "extra")

cloud.set_machine_maintenance_state(machine.id, True, reason="a look inside")
want(cloud.get_machine("cloud").maintenance_reason, "a look inside", "reason of the maintenance")
cloud.remove_machine_from_maintenance(machine.id)
want(cloud.get_machine("cloud").is_maintenance, False, "maintenance")

for change, state in ((cloud.set_machine_power_on, "power on"), (cloud.set_machine_power_reboot, "power on"), (cloud.set_machine_power_off, "power off")):
    change(machine.id)
    cloud.wait_for_baremetal_node_lock(cloud.get_machine("cloud"), timeout=60)
    want(cloud.get_machine("cloud").power_state, state, "power state")

cloud.validate_machine(machine.id, for_deploy=False)
cloud.validate_node(machine.id)
cloud.set_node_instance_info(machine.id, [{"op": "add", "path": "/instance_info/x", "value": "y"}])
want(cloud.get_machine("cloud").instance_info, {"x": "y"}, "instance_info")
cloud.purge_node_instance_info(machine.id)
want(cloud.get_machine("cloud").instance_info, {}, "instance_info that was purged")
cloud.set_node_instance_info(machine.id, [{"op": "add", "path": "/instance_info/image_source", "value": "http://example.org/i.raw"}])
cloud.activate_node(machine.id, configdrive={"meta_data": {"hostname": "cloud"}}, wait=True, timeout=60)
want(cloud.get_machine("cloud").provision_state, "active", "state of an active machine")
cloud.deactivate_node(machine.id, wait=True, timeout=60)
want(cloud.get_machine("cloud").provision_state, "available", "state of a machine whose instance is gone")
cloud.node_set_provision_state(machine.id, "manage", wait=True, timeout=60)
want(cloud.get_machine("cloud").provision_state, "manageable", "state of a managed machine")

cloud.unregister_machine([{"mac": mac}], machine.id)
want(cloud.list_machines(), [], "machines that are left")
want(cloud.list_nics(), [], "NICs that are left")

public = {n for n in vars(layer) if not n.startswith("_") and callable(getattr(layer, n))}
print(" ".join(sorted(public - called)))
