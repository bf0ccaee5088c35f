#!/bin/sh
# Installs the Debian packages that a target needs and that are missing.
#   packages.sh build|rack|test|hardware|bench|tempest|python-agent
# Without apt-get, or without root, it prints which are missing and fails.
set -eu
build="gcc libc6-dev ca-certificates make zstd kmod"
rack="$build qemu-system-x86 qemu-utils qemu-block-extra ovmf ipxe ipxe-qemu iproute2 dosfstools mtools fdisk grub-efi-amd64-bin grub-pc-bin grub-common cpio openipmi"
tests="$rack qemu-system-arm qemu-efi-aarch64 dnsmasq-base busybox postgresql python3-ironicclient python3-openstacksdk spin radvd prometheus tgt libiscsi-bin xorriso genisoimage openssl sbsigntool python3-sushy ipmitool snmp snmpd snmpsim libvirt-daemon libvirt-clients openssh-server python3-pyghmi mmdebstrap e2fsprogs xfsprogs btrfs-progs xz-utils docker-registry podman crun swift-proxy swift-account swift-container swift-object python3-swiftclient python3-botocore ndisc6 isc-dhcp-client python3-scciclient python3-proliantutils python3-hpilo fence-agents freeipmi-tools wakeonlan redfishtool ansible-core curl websockify vncsnapshot"
hardware="$tests novnc chromium-driver openvswitch-switch"
bench="$tests nginx-light python3-eventlet"
tempest="$build python3-keystone python3-tempest tempest ironic-tempest-plugin"
agent="$build debootstrap cpio"
case "${1:-}" in
build) want=$build ;;
rack) want=$rack ;;
test) want=$tests ;;
hardware) want=$hardware ;;
bench) want=$bench ;;
tempest) want=$tempest ;;
python-agent) want=$agent ;;
*) echo "usage: packages.sh build|rack|test|hardware|bench|tempest|python-agent" >&2; exit 2 ;;
esac
missing=
for p in $want; do
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "These packages are missing:$missing" >&2
	echo "Install them (Debian's names), then run make again." >&2
	exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "apt-get could not install:$missing" >&2
	exit 1
fi
rm -f "$log"
