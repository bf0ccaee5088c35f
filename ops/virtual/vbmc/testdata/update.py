"""Has a BMC write firmware of the BIOS, by sushy, and tells what sushy sees of it.

Arguments are the BMC's URL, user and password, and the file's URL. A line on the input says that the system was started.
"""
import sys
import warnings

import sushy

warnings.simplefilter("ignore")
url, user, password, image = sys.argv[1:]
root = sushy.Sushy(url, username=user, password=password, verify=False)
service = root.get_update_service()
print("lists", *sorted(f"{m.identity} {m.version}" for m in service.firmware_inventory.get_members()))
monitor = service.simple_update(image, targets=["/redfish/v1/UpdateService/FirmwareInventory/BIOS"])
print("works", monitor.is_processing, monitor.task.task_status.value)
task = monitor.get_task()
while task.task_state.value == "Running":
    task.refresh(force=True)
print("waits", task.task_state.value, task.task_status.value, flush=True)
sys.stdin.readline()
task.refresh(force=True)
print("ends", task.task_state.value, task.percent_complete)
print("bios", root.get_system("/redfish/v1/Systems/1").bios_version)
