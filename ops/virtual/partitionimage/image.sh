#!/bin/sh
# Makes a partition image of an installed Debian.
#   image.sh debian|rpm TAR OUT BYTES SHIM     as root, in a folder with mark.sh and default-grub
# TAR is what tree.sh has made; OUT.zst is the image, a file system of BYTES bytes. SHIM is Debian's signed shim.
set -eu
style=$1 tar=$2 out=$3 bytes=$4 shim=$5

mkdir root
tar -C root --numeric-owner -xf "$tar"
# What no machine of a test needs, so that the image is written in half the time.
rm -rf root/usr/lib/udev/hwdb.* root/var/lib/apt/lists/* root/var/cache/* root/usr/share/perl/*/unicore
for k in root/usr/lib/modules/*/kernel; do
	rm -rf "$k"/net "$k"/sound "$k"/drivers/net "$k"/drivers/infiniband "$k"/drivers/md "$k"/drivers/scsi "$k"/arch
	for fs in smb nfs nfsd ceph btrfs cachefiles orangefs ocfs2 afs udf; do rm -rf "$k/fs/$fs"; done
done
chroot root depmod "$(ls root/usr/lib/modules)"
cp default-grub root/etc/default/grub
# grub-mkconfig starts a hundred programs; those for other systems are left out.
chmod -x root/etc/grub.d/05_debian_theme root/etc/grub.d/20_linux_xen root/etc/grub.d/30_os-prober
echo '# what the image mounts' >root/etc/fstab
cp mark.sh root/sbin/ironyard-mark
chmod 755 root/sbin/ironyard-mark

case $style in
debian)
	truncate -s "$bytes" "$out"
	mkfs.ext4 -q -F -L image -d root "$out"
	;;
rpm)
	# Names and places as RPM distributions have them. GRUB is Debian's: it knows its folder as /boot/grub.
	mv root/usr/sbin/grub-install root/usr/sbin/grub2-install
	mv root/usr/sbin/grub-mkconfig root/usr/sbin/grub2-mkconfig
	rm -rf root/boot/grub
	mkdir -p root/boot/grub2 root/etc/dnf root/var/lib/rpm root/boot/efi/EFI/ironyardlinux
	ln -s grub2 root/boot/grub
	printf '[main]\ngpgcheck=1\n' >root/etc/dnf/dnf.conf
	echo 'Ironyard Linux release 1 (RPM style)' >root/etc/redhat-release
	cp "$shim" root/boot/efi/EFI/ironyardlinux/shimx64.efi
	chroot root grub-mkimage -O x86_64-efi -p /EFI/ironyardlinux -o /boot/efi/EFI/ironyardlinux/grubx64.efi \
		part_gpt fat xfs ext2 normal configfile search search_fs_uuid linux echo test boot all_video gzio minicmd sleep
	printf 'shimx64.efi,Ironyard Linux,,This is the boot entry\n' | iconv -t UTF-16LE >root/boot/efi/EFI/ironyardlinux/BOOTX64.CSV
	truncate -s "$bytes" "$out"
	mkfs.xfs -q -L image "$out"
	mkdir mounted
	mount -o loop "$out" mounted
	cp -a root/. mounted/ || { umount mounted; exit 1; }
	umount mounted
	;;
esac
zstd -q -T0 --rm "$out" -o "$out.zst"
