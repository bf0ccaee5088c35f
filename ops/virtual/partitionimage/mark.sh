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
# The entry by which firmware has started the machine, and what is in it. Its text is UTF-16; slashes stand for its backslashes.
vars=/sys/firmware/efi/efivars of=8be4df61-93ca-11d2-aa0d-00e098032b8c
if [ -d $vars ] && { mountpoint -q $vars || mount -t efivarfs efivarfs $vars; }; then
	entry=Boot$(od -A n -t x2 -j 4 -N 2 $vars/BootCurrent-$of | tr -d ' ' | tr a-f A-F)
	say entry "$entry" "$(tr -d '\000' <"$vars/$entry-$of" | tr '\\' / | tr -c '[:print:]' ' ')"
fi
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
