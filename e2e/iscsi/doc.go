// Package iscsi tests the iSCSI target of the ramdisk's agent on a real kernel, with rackd's initiator and with foreign ones:
// those of libiscsi and of QEMU.
package iscsi
