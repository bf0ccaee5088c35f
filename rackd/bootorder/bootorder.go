// Package bootorder is what a machine is told when it asks the network what to boot. An order is a
// value: the node's boot interface makes it, and the servers of scripts write it in the language of the
// firmware that asks. Neither knows the other, so a new boot interface changes no server.
//
// It imports nothing of Ironyard.
package bootorder

// Order is what a machine is to do. Of Load, Image, Volumes, Disk and Again at most one is set; none of them means that there is
// nothing to boot.
type Order struct {
	// Name is the order in logs and metrics, such as "ramdisk". There are few of them.
	Name string
	// Load: load these files, and start them.
	Load *Load
	// Image: boot this image of a CD, by reading it over the network.
	Image *File
	// Volumes: attach these, and boot the first.
	Volumes *Volumes
	// Disk: boot what is installed. ByFirmware: that is a volume, which the firmware attaches by itself.
	Disk, ByFirmware bool
	// Again: ask again in a while, another rackd first, because this one may not know the newest.
	Again bool
	// Reason is shown at the console when there is nothing to boot, or nothing yet.
	Reason string
	// OverTFTP: script and files come by TFTP and not by HTTP, for networks that filter HTTP.
	OverTFTP bool
	// Direct: the firmware loads kernel, initramfs and command line as one program, the rack's, and no boot program before it. What
	// else a machine is told is then nothing that firmware could load.
	Direct bool
}

// Load is a kernel and what it is started with.
type Load struct {
	// Kernel and Initramfs are the node's own files; without a URL, those of the rack.
	Kernel, Initramfs File
	// Rescue: the rack's initramfs is the one for rescues.
	Rescue bool
	// Instance: the files are those of an instance, and not of an agent's ramdisk. It gets nothing that an agent is told.
	Instance bool
	// Installer: the files are those of an installer. It gets what it asks for next, and nothing that an agent is told.
	Installer *Installer
	// Params of the kernel come before the rack's own, which win. Those of an instance come last.
	Params []string
}

// Installer is what an installer (Anaconda) asks for once its kernel runs.
type Installer struct {
	// Template is that of its kickstart; without a URL the rack's own.
	Template File
	// Stage2 is the system in which it runs; without a URL the repository says where that is.
	Stage2 File
	// Image is the content of the disk, and Checksum the hex SHA-256 of it, empty for none; without a URL it is Repository, the URL
	// of a tree of packages, which the installer reads by itself.
	Image      File
	Checksum   string
	Repository string
	// Ending is that of the image's name, by which installers tell an archive from a file system.
	Ending string
}

// File is a file that a node brings itself.
type File struct {
	URL string // http, https, file or tftp
	ID  string // in the rack's cache; empty: not there
	// Kept: the machine boots the file with this ID, whatever lies at the URL now. Without an ID, what lies there.
	Kept bool
}

// Volumes are disks of the network.
type Volumes struct {
	// Initiator is the machine's own name there; empty: the firmware's default.
	Initiator string
	List      []Volume
}

// Volume is a disk of the network.
type Volume struct {
	// Name is that of the volume for people.
	Name string
	// URIs are the ways to it, the best first (RFC 4173).
	URIs []string
	// User and Secret are those of CHAP; empty: the target asks for none.
	User, Secret string
	// TargetUser and TargetSecret are what the target shows in its turn; empty: it need not.
	TargetUser, TargetSecret string
}

// FromVolumes attaches volumes and boots the first.
func FromVolumes(v Volumes) Order { return Order{Name: "volume", Volumes: &v} }

// Ramdisk boots the agent.
func Ramdisk(l Load) Order { return Order{Name: "ramdisk", Load: &l} }

// Instance boots the kernel and the ramdisk of an instance.
func Instance(l Load) Order {
	l.Instance = true
	return Order{Name: "instance", Load: &l}
}

// Install boots an installer.
func Install(l Load) Order { return Order{Name: "installer", Load: &l} }

// Image boots an image of a CD, which is an instance's.
func Image(f File) Order { return Order{Name: "instance-image", Image: &f} }

// LocalDisk boots what is installed.
func LocalDisk() Order { return Order{Name: "local-disk", Disk: true} }

// FirmwareVolume boots a volume that the firmware attaches by itself, as one of its boot options.
func FirmwareVolume() Order { return Order{Name: "firmware-volume", Disk: true, ByFirmware: true} }

// Installed names what a machine with Disk boots, for people.
func (o Order) Installed() string {
	if o.ByFirmware {
		return "its volume, which its firmware attaches"
	}
	return "its disk"
}

// Refuse says that there is nothing to boot, and why.
func Refuse(reason string) Order { return Order{Name: "refuse", Reason: reason} }

// Later lets the machine ask again, and says why.
func Later(reason string) Order { return Order{Name: "later", Again: true, Reason: reason} }

// Boots reports whether the machine loads something over the network.
func (o Order) Boots() bool { return o.Load != nil || o.Image != nil || o.Volumes != nil }

// Refuses reports whether there is nothing to boot.
func (o Order) Refuses() bool {
	return o.Load == nil && o.Image == nil && o.Volumes == nil && !o.Disk && !o.Again
}
