#!/bin/sh
# Makes a ramdisk with Debian sid's ironic-python-agent, for the tests of this folder.
#   ramdisk.sh OUT CACHE     as root; needs debootstrap, cpio, zstd, kmod and a network
# CACHE/kernel/linux-image-cloud-amd64 is an unpacked kernel package, as "ironyard ramdisk build
# --kernel cloud --cache CACHE/kernel" leaves it there. OUT gets the files "kernel" and "initramfs", and the root
# file system, which is kept for the next time.
set -eu
[ $# = 2 ] || { echo "usage: ramdisk.sh OUT CACHE" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
kernel=$(cd "$2/kernel/linux-image-cloud-amd64" && pwd)
root=$out/root

# What the agent imports and runs. Its package wants libguestfs and more besides, which
# would triple the ramdisk, so it is unpacked and not installed.
imports=python3,python3-cffi-backend,python3-cheroot,python3-cryptography,python3-grpcio,python3-kazoo,python3-oslo.concurrency,python3-oslo.config,python3-oslo.log,python3-oslo.utils,python3-pbr,python3-pint,python3-psutil,python3-pyparsing,python3-pyudev,python3-requests,python3-stevedore,python3-tenacity,python3-tooz,python3-werkzeug,python3-zeroconf
programs=udev,iproute2,udhcpc,busybox,kmod,gdisk,parted,dosfstools,e2fsprogs,efibootmgr,qemu-utils,mdadm,smartmontools,hdparm,dmidecode,ethtool,pciutils,lshw,genisoimage,rsync,curl,ca-certificates,psmisc

if [ ! -e "$root/usr/bin/ironic-python-agent" ]; then
	rm -rf "$root"
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' | sed -n 's/ Debian Debian$//p' | head -n 1)
	[ -n "$mirror" ] || { echo "ramdisk.sh: apt knows no mirror of Debian" >&2; exit 1; }
	# debootstrap does not know that a package may stand in for another; apt repairs that.
	debootstrap --variant=minbase --include="$imports,$programs" sid "$root" "$mirror" || true
	echo "deb $mirror sid main" >"$root/etc/apt/sources.list"
	chroot "$root" apt-get -o Acquire::Check-Valid-Until=false update -qq
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get -y -qq --no-install-recommends --fix-broken install
	chroot "$root" sh -c 'cd /tmp && apt-get download ironic-python-agent && dpkg -x ironic-python-agent_*.deb /'
	chroot "$root" apt-get clean
	rm -rf "$root"/tmp/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale "$root/debootstrap"
fi

# What playbooks need: an SSH server, and a user of it who may do all. A kept root file system may be from before.
if [ ! -e "$root/home/ansible" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # else it would start on this host
	chmod 755 "$root/usr/sbin/policy-rc.d"
	chroot "$root" apt-get -o Acquire::Check-Valid-Until=false update -qq
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get -y -qq --no-install-recommends install openssh-server sudo
	chroot "$root" apt-get clean
	rm -rf "$root/usr/sbin/policy-rc.d" "$root"/etc/ssh/ssh_host_* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale
	echo 'ansible ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/ansible"
	chroot "$root" useradd -m -s /bin/sh ansible
fi

version=$(ls "$kernel/lib/modules")
rm -rf "$root/usr/lib/modules"
mkdir -p "$root/usr/lib/modules"
cp -r "$kernel/lib/modules/$version" "$root/usr/lib/modules/"
depmod -b "$root" "$version"

cat >"$root/init" <<'END'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /run/lock /run/udev
exec </dev/console >/dev/console 2>&1
for m in virtio_pci virtio_net virtio_blk virtio_scsi sd_mod efivarfs loop isofs vfat nls_ascii nls_cp437 ext4 md_mod; do modprobe -q $m; done
mount -t efivarfs efivarfs /sys/firmware/efi/efivars 2>/dev/null
/lib/systemd/systemd-udevd --daemon
udevadm trigger
udevadm settle
ip link set lo up
for i in /sys/class/net/*; do
	n=${i##*/}
	[ "$n" = lo ] || { ip link set "$n" up; udhcpc -i "$n" -n -q -t 10 -s /etc/udhcpc/default.script; }
done
# A ramdisk that is to be worked in by SSH gets the keys by a further archive behind this one.
if [ -e /etc/ssh/ansible_keys ]; then
	mkdir -p /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
	/usr/sbin/sshd -o AuthorizedKeysFile=/etc/ssh/ansible_keys
fi
ironic-python-agent --config-dir /etc/ironic-python-agent.d
echo "the agent ended with $?"
sleep 3600
END
for end in poweroff:o reboot:b; do
	printf '#!/bin/sh\nsync\necho %s >/proc/sysrq-trigger\n' "${end#*:}" >"$root/usr/sbin/${end%:*}"
	chmod 755 "$root/usr/sbin/${end%:*}"
done
chmod 755 "$root/init"

(cd "$root" && find . -xdev | cpio -o -H newc --quiet) | zstd -q -6 -f -o "$out/initramfs"
cp "$kernel"/boot/vmlinuz-* "$out/kernel"
