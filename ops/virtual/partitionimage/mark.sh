#!/bin/sh
# The first program of the system: it tells what it finds, and switches the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sys /sys
exec >/dev/console 2>&1
say() { echo "IRONYARD-PARTITION $*"; }
say firmware $([ -d /sys/firmware/efi ] && echo uefi || echo bios)
say root $(findmnt -n -o SOURCE,FSTYPE /)
say cmdline $(cat /proc/cmdline)
for label in efi-part swap1 ephemeral0 config-2; do
	at=$(blkid -L "$label") && say label "$label" "$at" $(blkid -o value -s TYPE "$at")
done
mkdir -p /run/mark
if mount LABEL=ephemeral0 /run/mark; then
	[ -e /run/mark/kept ] && say kept $(cat /run/mark/kept)
	echo "by the first instance" >/run/mark/kept
	umount /run/mark
fi
if mount -o ro LABEL=config-2 /run/mark; then
	say drive $(cat /run/mark/openstack/latest/meta_data.json)
	umount /run/mark
fi
while read -r line; do say fstab "$line"; done </etc/fstab
say up
mount -o remount,ro /
sync
echo o >/proc/sysrq-trigger
sleep 600
