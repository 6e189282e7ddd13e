#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the kernel that the tests in a virtual machine boot: Debian's "cloud" kernel, which has
# NVMe and ext4 built in, and its modules for NVMe over TCP. They are unpacked to build-vm/ of this
# checkout, not installed. Does nothing if they are there already, or installed.
set -euo pipefail

usage() {
	cat <<'EOT'
usage: tests/vm/kernel.sh [--print | --modules]

  --print    only print the path of the kernel, or fail
  --modules  only print the paths of its modules, each after those that it needs, or fail

Needs apt-get with package lists, and downloads about 30 MB.
Exit: 0 the kernel and its modules are there, 1 they are not.
EOT
}

cd "$(dirname "$0")/../.."
folder=$PWD/build-vm
# virtio_net, then the NVMe target, its client, and packet delays; each after those that it needs
modules=(virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover
	net_failover virtio_net configfs nvmet nvmet-tcp nvme-fabrics nvme-tcp sch_netem)

find_kernel() {
	find "$folder" /boot -maxdepth 1 -name 'vmlinuz-*-cloud-amd64' -readable 2>/dev/null |
		sort -V | tail -n 1 | grep .
}

# Those of the kernel, unpacked here or installed with it; a kernel may have some of them built in.
find_modules() {
	local kernel version name
	kernel=$(find_kernel) || return 1
	version=${kernel##*/vmlinuz-}
	for name in "${modules[@]}"; do
		find "$folder/modules-$version" "/lib/modules/$version" -name "$name.ko" \
			-print -quit 2>/dev/null || true   # a folder is missing
	done | grep .
}

case ${1:-} in
'') ;;
--print) find_kernel; exit ;;
--modules) find_modules; exit ;;
--help | -h) usage; exit 0 ;;
*) echo "tests/vm/kernel.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
esac

if find_modules >/dev/null; then
	exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	echo "tests/vm/kernel.sh: apt-get or dpkg-deb was not found; put a kernel with NVMe and" \
		"ext4 built in at $folder/vmlinuz-…-cloud-amd64" >&2
	exit 1
fi
package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
	sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
	echo "tests/vm/kernel.sh: apt has no package linux-image-cloud-amd64; on amd64 Debian run" \
		"apt-get update" >&2
	exit 1
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"   # apt may download as a separate user
echo "== fetching the kernel for the tests in a virtual machine: $package" >&2
(cd "$work" &&
	apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root download "$package") >&2
dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb |
	tar -x -C "$work" --wildcards './boot/vmlinuz-*' './lib/modules/*/kernel/*'
version=$(basename "$work"/lib/modules/*)
rm -rf "$folder/modules-$version"
mkdir "$work/modules"
for name in "${modules[@]}"; do
	find "$work/lib" -name "$name.ko*" -exec mv -t "$work/modules" {} +
done
find "$work/modules" -name '*.xz' -exec unxz {} +
mv "$work/modules" "$folder/modules-$version"
mv "$work/boot/vmlinuz-$version" "$folder/"
