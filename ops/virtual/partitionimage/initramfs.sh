#!/bin/busybox sh
# The first program of the small system's initramfs. It loads the kernel's modules, mounts the root partition that the kernel's command
# line names by root=UUID=, and starts there what init= names.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=0755 run /run
while read -r module; do insmod "$module"; done </modules.list
for word in $(cat /proc/cmdline); do
	case $word in
	root=*) root=${word#root=} ;;
	init=*) init=${word#init=} ;;
	esac
done
# The kernel finds the disk's partitions while this runs.
tries=0
until at=$(findfs "$root"); do
	tries=$((tries + 1))
	if [ $tries -gt 100 ]; then
		echo "no partition is $root" >/dev/console
		poweroff -f
	fi
	usleep 100000
done
mount -t ext4 -o ro "$at" /root
for folder in proc sys dev run; do mount -o move "/$folder" "/root/$folder"; done
exec switch_root /root "${init:-/sbin/ironyard-mark}"
