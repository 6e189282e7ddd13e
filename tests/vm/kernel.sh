#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the kernel that the tests in a virtual machine boot: Debian's "cloud" kernel, which has
# NVMe and ext4 built in. It is unpacked to build-vm/ of this checkout, not installed. Does nothing
# if the kernel is there already, or installed in /boot.
set -euo pipefail

usage() {
	cat <<'EOT'
usage: tests/vm/kernel.sh [--print]

  --print  only print the path of the kernel, or fail

Needs apt-get with package lists, and downloads about 30 MB.
Exit: 0 the kernel is there, 1 it is not.
EOT
}

cd "$(dirname "$0")/../.."
folder=$PWD/build-vm

find_kernel() {
	find "$folder" /boot -maxdepth 1 -name 'vmlinuz-*-cloud-amd64' -readable 2>/dev/null |
		sort -V | tail -n 1 | grep .
}

case ${1:-} in
'') ;;
--print) find_kernel; exit ;;
--help | -h) usage; exit 0 ;;
*) echo "tests/vm/kernel.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
esac

if find_kernel >/dev/null; then
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
dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb | tar -x -C "$work" --wildcards './boot/vmlinuz-*'
mv "$work"/boot/vmlinuz-*-cloud-amd64 "$folder/"
