#!/bin/sh
# Stands in bootc's place in a container of the small system: no package of Debian has bootc. It takes the words that bootc takes for an
# installation, wants to be where bootc wants to be, and puts the container's own system onto the disk, with GRUB for BIOS and UEFI.
#   bootc install to-disk [OPTIONS] DISK
# IRONYARD_SLOW is for how many seconds it waits once the disk is laid out. With IRONYARD_FAILS it ends there.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
die() { echo "error: $*" >&2; exit 1; }
[ "$1 $2" = "install to-disk" ] || die "unknown command $*"
shift 2
keys=
for word in "$@"; do
	case $word in
	--wipe | --skip-fetch-check | --disable-selinux) ;;
	--root-size=*M) size=${word#--root-size=} size=${size%M} ;;
	--root-ssh-authorized-keys=*) keys=${word#*=} ;;
	-*) die "unexpected argument $word" ;;
	*) disk=$word ;;
	esac
done
[ -e /run/.containerenv ] || die "this command must be executed inside a podman container"
[ $$ != 1 ] || die "this command must be run with the podman --pid=host flag"
for word in /dev /var/lib/containers /run/udev; do [ -e "/proc/1/root$word" ] || die "the host has no $word"; done
chroot /proc/1/root udevadm settle || die "the host has no udevadm"
[ -b "$disk" ] || die "$disk is no block device"
part=$disk # the names of its partitions
case $disk in *[0-9]) part=${disk}p ;; esac

echo "Installing to $disk, root size $size MiB"
sfdisk --quiet --wipe always --wipe-partitions always "$disk" <<TABLE
label: gpt
size=1MiB, bootable, type=21686148-6449-6E6F-744E-656564454649, name="BIOS-BOOT"
size=64MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name="EFI-SYSTEM"
size=${size}MiB, name="root"
TABLE
mkfs.vfat -F 32 -s 1 -n EFI-SYSTEM "${part}2"
mkfs.ext4 -q -F -L root "${part}3"
at=/run/root
mkdir -p "$at"
mount -t ext4 "${part}3" "$at"
if [ -n "${IRONYARD_SLOW:-}" ]; then
	echo "Waiting for $IRONYARD_SLOW s"
	sleep "$IRONYARD_SLOW"
fi
[ -z "${IRONYARD_FAILS:-}" ] || die "it was told to fail"
echo "Copying the system"
for name in bin sbin lib lib64 boot etc usr; do cp -a "/$name" "$at/"; done
rm -f "$at/usr/bin/bootc" "$at/etc/resolv.conf" "$at/etc/hosts"
for name in dev proc run sys tmp root boot/efi; do mkdir -p "$at/$name"; done
if [ -n "$keys" ]; then
	mkdir -m 700 "$at/root/.ssh"
	cp "$keys" "$at/root/.ssh/authorized_keys"
fi
mount -t vfat "${part}2" "$at/boot/efi"
echo "Installing the boot loader"
grub-install --target=i386-pc --boot-directory="$at/boot" "$disk"
grub-install --target=x86_64-efi --boot-directory="$at/boot" --efi-directory="$at/boot/efi" --removable --no-nvram
id=$(blkid -o value -s UUID "${part}3")
cat >"$at/boot/grub/grub.cfg" <<CONFIG
search --no-floppy --fs-uuid --set=root $id
linux $(cd "$at"; ls /boot/vmlinuz-*) root=UUID=$id console=ttyS0,115200 quiet no_timer_check init=/usr/sbin/ironyard-contained
initrd $(cd "$at"; ls /boot/initrd.img-*)
boot
CONFIG
echo "# UUID=$id / ext4" >"$at/etc/fstab"
umount "$at/boot/efi"
umount "$at"
echo "Installation complete"
