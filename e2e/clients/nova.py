"""Lets a machine live as Nova's driver for Ironic does: its requests, in its order, through openstacksdk.

argv: the API's endpoint. The driver knows machines by instance and reads the fields below only; what it concludes from them is what is checked.
"""
import sys
import time
import uuid
import warnings

warnings.simplefilter("ignore")

import openstack
from openstack import exceptions

FIELDS = ("uuid", "power_state", "target_power_state", "provision_state", "target_provision_state", "last_error",
          "maintenance", "properties", "instance_uuid", "traits", "resource_class")

bm = openstack.connect(auth_type="none", endpoint=sys.argv[1]).baremetal
instance, vif, image = (str(uuid.uuid4()) for _ in range(3))


def want(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, want {expected!r}")


def refused(ask, error, what):
    try:
        ask()
    except error:
        return
    sys.exit(f"{what} was not refused with {error.__name__}")


def mine(of=instance):
    """The machine of an instance, which at most one machine has."""
    found = list(bm.nodes(instance_id=of, fields=FIELDS))
    want(len(found) <= 1, True, "at most one machine of an instance")
    return found[0] if found else None


def until(done, what):
    end = time.monotonic() + 30
    while not done(mine()):
        if time.monotonic() > end:
            sys.exit(f"{what} did not come: {bm.get_node(node.id, fields=FIELDS)}")
        time.sleep(0.05)


def settled(power):
    return lambda n: n.target_power_state is None and n.power_state == power


def parameters(**more):
    values = {"image_source": image, "root_gb": "10", "swap_mb": "0", "vcpus": "4", "memory_mb": "1024", "local_gb": "10",
              "capabilities": '{"boot_mode": "uefi"}', "traits": ["CUSTOM_NOVA"], "fixed_ips": "[]", **more}
    return [{"op": "add", "path": "/instance_info/" + name, "value": value} for name, value in values.items()]


node = bm.create_node(name="for-nova", driver="fake-hardware", resource_class="nova", network_interface="flat",
                      properties={"cpu_arch": "x86_64", "memory_mb": "1024", "local_gb": "10"})
bm.create_port(node_id=node.id, address="52:54:00:4e:00:01", is_pxe_enabled=True)
bm.create_volume_connector(node_id=node.id, type="iqn", connector_id="iqn.2026-11.example:for-nova")
bm.set_node_traits(node.id, ["CUSTOM_NOVA", "HW_CPU_X86_VMX"])
for verb, state in (("manage", "manageable"), ("provide", "available")):
    bm.set_node_provision_state(node.id, verb)
    bm.wait_for_nodes_provision_state([node.id], state, timeout=30)

# What the driver reports of free machines, and which of them it takes.
free = [n for n in bm.nodes(fields=FIELDS, conductor_group="") if n.id == node.id]
want([(n.resource_class, sorted(n.traits), n.instance_id) for n in free], [("nova", ["CUSTOM_NOVA", "HW_CPU_X86_VMX"], None)], "a free machine")
want([n.id for n in bm.nodes(fields=FIELDS, conductor_group="elsewhere")], [], "machines of a group without any")
want(mine(), None, "the instance's machine before there is one")
want([(c.type, c.connector_id) for c in bm.volume_connectors(node=node.id, details=True)], [("iqn", "iqn.2026-11.example:for-nova")], "volume connectors")
bm.update_node(bm.get_node(node.id, fields=FIELDS), retry_on_conflict=False, instance_id=instance)
refused(lambda: bm.update_node(bm.get_node(node.id, fields=FIELDS), retry_on_conflict=False, instance_id=str(uuid.uuid4())),
        exceptions.ConflictException, "a second instance on a machine")

# A network, a volume, a deploy.
bm.attach_vif_to_node(node.id, vif)
refused(lambda: bm.attach_vif_to_node(node.id, vif, retry_on_conflict=False), exceptions.ConflictException, "attaching a VIF again")
refused(lambda: bm.attach_vif_to_node(node.id, str(uuid.uuid4())), exceptions.BadRequestException, "a VIF for which no port is free")
ports = list(bm.ports(node=node.id, address="52:54:00:4e:00:01", details=True))
want([p.internal_info.get("tenant_vif_port_id") for p in ports], [vif], "the VIF of a port")
bm.patch_node(mine(), parameters())
bm.create_volume_target(node_id=node.id, volume_type="iscsi", properties={"target_lun": 1}, boot_index=1, volume_id="v-1")
checks = bm.validate_node(node.id, required=None)
want([(kind, checks[kind].result) for kind in ("deploy", "power", "storage")], [("deploy", True), ("power", True), ("storage", True)], "validation")
bm.set_node_provision_state(node.id, "active", config_drive="H4sIAAAAAAAA/wMAAAAAAAAAAAA=")
until(lambda n: n.provision_state == "active", "the deploy's end")
want(mine().last_error, None, "last error")

# What is asked of a machine that runs.
for target, end in (("power off", "power off"), ("power on", "power on"), ("rebooting", "power on"), ("soft rebooting", "power on"),
                    ("soft power off", "power off"), ("power on", "power on")):
    bm.set_node_power_state(node.id, target)
    until(settled(end), target)
bm.set_node_provision_state(node.id, "rescue", rescue_password="secret")
until(lambda n: n.provision_state == "rescue", "rescue")
bm.set_node_provision_state(node.id, "unrescue")
until(lambda n: n.provision_state == "active", "the instance after its rescue")
bm.patch_node(mine(), parameters(preserve_ephemeral="False"))
bm.set_node_provision_state(node.id, "rebuild", config_drive="H4sIAAAAAAAA/wMAAAAAAAAAAAA=")
until(lambda n: n.provision_state == "active", "the rebuild's end")

# The end, and what the driver tidies after it.
bm.set_node_provision_state(node.id, "deleted")
until(lambda n: n is None or n.provision_state in ("cleaning", "clean wait", "available"), "the instance's end")
bm.wait_for_nodes_provision_state([node.id], "available", timeout=30)
want(mine(), None, "the instance's machine after its end")
for target in list(bm.volume_targets(details=True, node=node.id)):
    bm.delete_volume_target(target.id, ignore_missing=False)
refused(lambda: bm.detach_vif_from_node(node.id, vif, ignore_missing=False), exceptions.BadRequestException, "detaching a VIF that is gone")
bm.update_node(bm.get_node(node.id, fields=FIELDS), instance_id=None, instance_info={})
last = bm.get_node(node.id)
want((last.instance_id, last.instance_info, last.is_maintenance, last.power_state), (None, {}, False, "power off"), "the machine afterwards")
bm.delete_node(node.id)
