"""Tells a BMC, by sushy, all that sushy knows of what the computer behind it can do.

Arguments are the BMC's URL, user and password. It prints what it has read, a line each.
"""
import sys
import warnings

import sushy
from sushy.resources.system import constants as system_constants

warnings.simplefilter("ignore")
url, user, password = sys.argv[1:]
root = sushy.Sushy(url, username=user, password=password, verify=False)
system = root.get_system("/redfish/v1/Systems/1")

secure = system.secure_boot
print("mode", secure.mode.value, "enabled", secure.enabled, "now", secure.current_boot.value)
print("resets", *sorted(r.value for r in secure.get_allowed_reset_keys_values()))
secure.reset_keys(system_constants.SecureBootResetKeysType.RESET_ALL_KEYS_TO_DEFAULT)
secure.set_enabled(True)
secure.refresh()
print("mode", secure.mode.value, "enabled", secure.enabled)
print("databases", *sorted(d.database_id.value for d in secure.databases.get_members()))

drive = root.get_manager("/redfish/v1/Managers/1").virtual_media.get_members()[0]
drive.insert_media("http://10.0.0.1/a.iso", transfer_method=sushy.TransferMethod.STREAM)
drive.refresh()
print("inserted", drive.inserted, drive.image)
system.set_system_boot_options(sushy.BootSource.CD, enabled=sushy.BootSourceOverrideEnabled.ONCE)
system.refresh()
print("boot", system.boot.target.value, system.boot.enabled.value)
drive.eject_media()
drive.refresh()
print("inserted", drive.inserted)
try:
    drive.insert_media("ftp://10.0.0.1/a.iso")
except sushy.exceptions.BadRequestError as e:
    print("refused", "it reads HTTP" in str(e))

adapter = root.get_chassis("/redfish/v1/Chassis/1").network_adapters.get_members()[0]
function = adapter.network_device_functions.get_members()[0]
boot = function.iscsi_boot
print("iscsi", boot.ip_address_type.value, boot.authentication_method.value, boot.primary_target_ip_address,
      boot.primary_target_tcp_port, boot.primary_lun, boot.initiator_netmask)
