// Package pythonagent runs ironic-python-agent, the program, in the ramdisk of a virtual
// machine, where Ironyard's own agent usually is: the product inspects, cleans, services and
// deploys the machine with it. A playbook deploys machines in that ramdisk, too.
//
// It runs with IRONYARD_E2E=1 and IRONYARD_PYTHON_AGENT=FOLDER, a folder with such a ramdisk
// (files "kernel" and "initramfs"; docs/clients.md says how one is made), as root, with the
// programs built into bin/. It may import everything.
package pythonagent
