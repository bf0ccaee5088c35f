#!/bin/sh
# Installs a Debian as mmdebstrap does, with a kernel and GRUB for BIOS and UEFI.
#   tree.sh TAR     as root
set -eu
tar=$1
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' | sed -n 's/ Debian Debian$//p' | head -n 1)
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian" >&2; exit 1; }
mmdebstrap --quiet --mode=root --format=tar --variant=essential \
	--include=linux-image-cloud-amd64,initramfs-tools,grub2-common,grub-pc-bin,grub-efi-amd64-bin,e2fsprogs,mount,util-linux \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
	--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
	--essential-hook='printf "virtio_blk\nvirtio_pci\next4\nxfs\n" >"$1/etc/initramfs-tools/modules"' \
	--essential-hook='echo MODULES=list >"$1/etc/initramfs-tools/conf.d/virtual"' \
	bookworm "$tar.new" "$mirror"
mv "$tar.new" "$tar"
