package ramdisk

import (
	"slices"

	"github.com/ironyard/ironyard/ops/debkernel"
)

// virtual are the modules of virtual machines. All of them are in both kernels.
var virtual = []string{
	"virtio_pci", "virtio_net", "virtio_blk", "virtio_scsi", "sd_mod",
	"efivarfs",
}

// real are the modules that real servers need besides: storage controllers,
// network cards, and what makes disks of them.
var real = []string{
	// storage
	"ahci", "ata_piix", "nvme", "megaraid_sas", "mpt3sas", "hpsa", "smartpqi", "aacraid", "arcmsr", "mvsas", "isci", "vmw_pvscsi",
	"usb_storage", "uas", "xhci_pci", "ehci_pci", "sd_mod", "sr_mod",
	// network
	"e1000", "e1000e", "igb", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "tg3", "bnx2", "bnx2x", "bnxt_en",
	"mlx4_en", "mlx5_core", "be2net", "cxgb4", "qede", "sfc", "enic", "r8169", "atlantic", "vmxnet3",
	// virtual media and config drives
	"isofs", "vfat", "nls_cp437", "nls_iso8859_1", "nls_ascii", "nls_utf8",
	// the BMC, from inside
	"ipmi_si", "ipmi_devintf",
}

// iscsiTarget are the modules of the kernel's iSCSI target. They are in all ramdisks and take 0.45 MB of them; a machine loads them
// when its disk is to be exported.
var iscsiTarget = []string{"configfs", "target_core_mod", "target_core_iblock", "iscsi_target_mod"}

// digests are the modules by which a processor computes CRC32C itself, by architecture. Rackd has each segment of an image checked by
// it on its way, and the kernel's own code takes several times as long. The kernel would ask modprobe for them, which the ramdisk has
// not. On arm64 the kernel's own code uses the processor's instructions.
var digests = map[string][]string{AMD64: {"crc32c_intel"}}

// fileSystems are the modules with which a rescue reads and repairs the file systems of instances.
var fileSystems = []string{"ext4", "xfs", "btrfs", "vfat", "nls_cp437", "nls_ascii", "nls_utf8", "isofs", "loop"}

// mountable are the modules with which the agent mounts partition images and EFI system partitions. They are loaded when one is
// mounted first.
var mountable = []string{"ext4", "xfs", "vfat", "nls_cp437", "nls_ascii"}

// links are the modules of bonds and VLANs. They are in all ramdisks; a machine loads them when its network_data has such links.
var links = []string{"bonding", "8021q"}

// moduleParameters are what modules are loaded with. A bond that the module makes by itself would be in the way of those of network_data.
var moduleParameters = map[string]string{"bonding": "max_bonds=0"}

// Modules lists the modules for a kernel package: the cloud kernel has only those
// of virtual machines.
func Modules(kernel string) []string {
	switch kernel {
	case debkernel.Cloud, debkernel.CloudARM64:
		return virtual
	case debkernel.GenericARM64:
		return slices.DeleteFunc(slices.Concat(virtual, real), func(m string) bool { return slices.Contains(notOnARM64, m) })
	}
	return slices.Concat(virtual, real)
}

// notOnARM64 are those of real machines that Debian's arm64 kernel has not: they are for controllers, chipsets and
// hypervisors of x86.
var notOnARM64 = []string{"arcmsr", "isci", "vmw_pvscsi", "vmxnet3"}
