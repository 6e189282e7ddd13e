# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The Debian packages that rung needs, and functions that install them. Sourced by tools/demo.sh,
# tests/run.sh, tools/wheel.sh and tools/release.sh. tests/structure/test_packages.py finds programs
# that scripts call and no list has.

# shellcheck disable=SC2034   # the lists are read by the scripts that source this file
RUNG_PACKAGES_BUILD=(gcc libc6-dev make cmake pkg-config git python3
	libjansson-dev libzip-dev zlib1g-dev libxxhash-dev liburing-dev libnuma-dev
	libopenblas-openmp-dev)
# shellcheck disable=SC2034
RUNG_PACKAGES_TEST=(g++ libcriterion-dev pandoc python3-numpy python3-pytest python3-venv
	clang clang-format ninja-build libomp-dev libclang-rt-14-dev
	qemu-system-x86 qemu-system-common busybox-static cpio e2fsprogs fuse3 nbdkit libnbd-bin
	curl iproute2 rsync doxygen universal-ctags xz-utils zsh fish)
# tools/wheel.sh, and the tests for aarch64
# shellcheck disable=SC2034
RUNG_PACKAGES_WHEEL=(gcc-aarch64-linux-gnu qemu-user-static dpkg-dev debian-archive-keyring
	python3-venv)
# shellcheck disable=SC2034   # tools/release.sh, with those for tests and wheels
RUNG_PACKAGES_RELEASE=(debhelper dh-python fakeroot lintian debootstrap)
# shellcheck disable=SC2034
RUNG_PACKAGES_BENCH=(fio)

# rung_as_root COMMAND...: run it directly as root, else through sudo.
rung_as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		echo "cannot run '$*': not root, no sudo; run it as root, then use --no-install" >&2
		return 1
	fi
}

# Update the package lists.
rung_update_lists() {
	echo "== apt-get update" >&2
	rung_as_root apt-get -qq -o Acquire::Retries=3 update >&2
}

# rung_install PACKAGE...: print and install those that are missing. If none is missing, it needs
# neither root nor the network.
rung_install() {
	local missing=() name status
	for name in "$@"; do
		status=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)
		if [ "$status" != installed ]; then
			missing+=("$name")
		fi
	done
	if [ "${#missing[@]}" -eq 0 ]; then
		echo "== all packages needed are installed" >&2
		return 0
	fi
	echo "== installing with apt-get: ${missing[*]}" >&2
	rung_update_lists || return 1
	rung_as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
		install -y --no-install-recommends "${missing[@]}" >&2
}
