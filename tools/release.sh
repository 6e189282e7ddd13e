#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the files of a release, and tries them on systems that have nothing else installed.
set -euo pipefail

usage() {
	cat <<'END'
usage: tools/release.sh [--out DIR] [--jobs N] [--only PART]... [--no-try | --try-only]

Builds from the last commit, in this order, and writes to DIR (build-release):

  archive  rung-VERSION.tar.xz, the source with generated man pages; the same bytes for each commit,
           with the same pandoc, tar and xz
  sdist    rung-VERSION.tar.gz, for pip
  wheel    wheels for x86_64 and aarch64, by tools/wheel.sh
  debian   packages of this Debian release and architecture: librung0, librung-dev, rung,
           python3-rung
  SHA256SUMS

It then tries the wheel in a new Debian 12, Debian 13 and Debian unstable, and the Debian packages
in a new Debian 12 (RUNG_TRY_SUITES="bookworm trixie sid"), all without a compiler; and the wheel
with each Python from 3.10 that is found here. A trial runs `rung --version`, imports the package,
and runs the Python lines of README.md and python/README.md.

  --only PART  build this part only: archive, sdist, wheel or debian; may be repeated
  --no-try     build only
  --try-only   try what DIR has
  --jobs N     parallel jobs (default: the number of processors)

Nothing is uploaded. The new systems need root and debootstrap, and are removed afterwards. The
variable RUNG_DEBIAN_MIRROR names another mirror.
Exit: 0 all built and tried, 1 something failed, 2 usage.
END
}

fail() {
	echo "tools/release.sh: $1" >&2
	exit "${2:-1}"
}

out=build-release jobs=$(nproc) parts=() try=yes build=yes
while [ $# -gt 0 ]; do
	case $1 in
	--out | --jobs)
		[ $# -gt 1 ] || fail "$1 needs a value" 2
		declare "${1#--}=$2"
		shift
		;;
	--only)
		case ${2:-} in
		archive | sdist | wheel | debian) parts+=("$2") ;;
		*) fail "--only: unknown part '${2:-}'; use archive, sdist, wheel or debian" 2 ;;
		esac
		shift
		;;
	--no-try) try=no ;;
	--try-only) build=no ;;
	--help | -h) usage; exit 0 ;;
	*) usage >&2; fail "unknown option '$1'" 2 ;;
	esac
	shift
done
case $jobs in '' | *[!0-9]* | 0*) fail "--jobs: invalid number '$jobs'" 2 ;; esac
[ $try$build != nono ] || fail "--no-try and --try-only exclude each other" 2
[ ${#parts[@]} -gt 0 ] || parts=(archive sdist wheel debian)

mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")/.."
# shellcheck source=tools/packages.sh
. tools/packages.sh
version=$(sed -n 's/^project(rung VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d "${TMPDIR:-/tmp}/rung-release-XXXXXX")
tree=$work/rung-$version mirror=${RUNG_DEBIAN_MIRROR:-http://deb.debian.org/debian}
read -r -a suites <<<"${RUNG_TRY_SUITES:-bookworm trixie sid}"
failed=0

trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM

wanted() {
	[[ " ${parts[*]} " == *" $1 "* ]]
}

# The source of the last commit, with man pages, each file with the time of the commit.
unpack_source() {
	[ ! -d "$tree" ] || return 0
	git diff --quiet HEAD -- || echo "tools/release.sh: uncommitted changes are left out" >&2
	git archive --prefix="rung-$version/" HEAD | tar -x -C "$work"
	local page
	for page in "$tree"/tools/man/*.1.md; do
		pandoc -s -f markdown-smart -t man -o "${page%.md}" "$page"
	done
	find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

build_archive() {
	unpack_source
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
		-c -C "$work" "rung-$version" | xz -9 -T1 >"$work/archive"
	mv "$work/archive" "$out/rung-$version.tar.xz"
}

build_sdist() {
	unpack_source
	python3 -m venv "$work/sdist"
	"$work/sdist/bin/pip" install --quiet --disable-pip-version-check 'scikit-build-core>=0.11'
	(cd "$tree" && "$work/sdist/bin/python" -c '
import sys
from scikit_build_core.build import build_sdist
build_sdist(sys.argv[1])' "$out")
}

build_debian() {
	local tags=(bogus-mail-host bogus-mail-host-in-debian-changelog
		initial-upload-closes-no-bugs)
	wanted archive || build_archive
	mkdir -p "$work/debian"
	cp "$out/rung-$version.tar.xz" "$work/debian/rung_$version.orig.tar.xz"
	tar -x -C "$work/debian" -f "$out/rung-$version.tar.xz"
	cp -r "$work/debian/rung-$version/tools/debian" "$work/debian/rung-$version/debian"
	# nocheck: tests/run.sh has run all tests
	(cd "$work/debian/rung-$version" && DEB_BUILD_OPTIONS="nocheck parallel=$jobs" \
		DEB_BUILD_PROFILES=nocheck \
		dpkg-buildpackage --build=binary --no-sign >"$out/debian.log" 2>&1) ||
		fail "dpkg-buildpackage failed; see $out/debian.log"
	rm -f "$work"/debian/*-dbgsym_*.deb \
		"$out"/{rung,librung0,librung-dev,python3-rung}_"$version"-*.deb
	mv "$work"/debian/*.deb "$out/"
	# the project has no public address, and no request for a package in Debian
	lintian --allow-root --fail-on error,warning \
		--suppress-tags "$(IFS=, && echo "${tags[*]}")" \
		"$out"/{rung,librung0,librung-dev,python3-rung}_"$version"-*.deb ||
		fail "lintian reports errors or warnings"
}

build() {
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
	export SOURCE_DATE_EPOCH
	wanted archive && build_archive
	wanted sdist && build_sdist
	if wanted wheel; then
		rm -f "$out/rung-$version"-*.whl
		mkdir -p build-wheel
		# the libraries are the newest of Debian's
		flock build-wheel/lock rm -rf build-wheel/{x86_64,aarch64}
		for arch in x86_64 aarch64; do
			tools/wheel.sh --arch $arch --out "$out" --jobs "$jobs" \
				>"$out/wheel-$arch.log" 2>&1 ||
				fail "tools/wheel.sh failed; see $out/wheel-$arch.log"
		done
	fi
	wanted debian && build_debian
	(cd "$out" && shopt -s nullglob && sha256sum -- "rung-$version".tar.?z \
		"rung-$version"-*.whl {rung,librung0,librung-dev,python3-rung}_"$version"-*.deb \
		>SHA256SUMS)
	ls -l "$out"
}

# trial WHAT COMMAND...: run a command or function; its output appears only if it fails. A subshell
# outside of a condition stops at the first command that fails.
trial() {
	local what=$1 start=$SECONDS status
	shift
	set +e
	(set -e; "$@") >"$work/log" 2>&1
	status=$?
	set -e
	if [ $status = 0 ]; then
		echo "tried: $what, $((SECONDS - start)) s"
	else
		failed=1
		tail -n 20 "$work/log"
		echo "FAILED: $what"
	fi
	return 0
}

# in_system ROOT COMMAND...: mounts and processes end with the command, also if it is interrupted.
# Process 1 is a shell, because `timeout` of coreutils 9.10 fails as process 1, without a message.
in_system() {
	# shellcheck disable=SC2016   # the inner shell expands it
	unshare --mount --pid --fork --kill-child sh -e -c \
		'mount -t proc proc "$0/proc"; chroot "$@"; exit' "$1" "$@"
}

# new_system SUITE: a minimal Debian with Python in $work/system-SUITE; what it tries is in /try
new_system() {
	local root=$work/system-$1 python
	unshare --mount debootstrap --variant=minbase --include=python3,python3-venv \
		"$1" "$root" "$mirror"
	cp /etc/resolv.conf "$root/etc/"
	# shellcheck disable=SC2016   # the inner shell expands it
	in_system "$root" sh -c 'for c in gcc cc clang tcc; do ! command -v $c || exit 9; done' || {
		[ $? = 9 ] || fail "$1: no command runs in $root"
		fail "$1: has a compiler, and should not"
	}
	mkdir -p "$root/try/wheels"
	cp tools/try_release.py README.md "$root/try/"
	cp python/README.md "$root/try/python-README.md"
	cp "$out/rung-$version"-*_"$(uname -m)".whl "$root/try/"
	[ "$1" != bookworm ] || cp "$out"/*_"$version"-*.deb "$root/try/"
	# numpy for the Python there, so that the network is not part of the time
	python=$(in_system "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	[ -x "$work/download/bin/pip" ] || python3 -m venv "$work/download"
	"$work/download/bin/pip" --disable-pip-version-check download --only-binary :all: \
		--no-deps --python-version "$python" --dest "$root/try/wheels" numpy
	touch "$root/try/ready"
}

install_wheel() {
	in_system "$1" timeout 60 sh -ex -c 'cd /try; python3 -m venv venv
		venv/bin/pip install --quiet --no-index --find-links wheels rung-*.whl
		venv/bin/rung --version
		venv/bin/python -c "import rung"'
}

# shellcheck disable=SC2016   # the new system expands $PATH
use_wheel() {
	in_system "$1" sh -ex -c 'cd /try
		test -s venv/share/man/man1/rung.1
		test -s venv/share/bash-completion/completions/rung
		test -s venv/share/zsh/site-functions/_rung
		test -s venv/share/fish/vendor_completions.d/rung.fish
		PATH=/try/venv/bin:$PATH venv/bin/python try_release.py *README.md
		rm -r venv'
}

download_packages() {
	in_system "$1" sh -ex -c 'cd /try; apt-get -qq update
		apt-get -qq install -y --no-install-recommends --download-only ./*.deb'
}

install_packages() {
	in_system "$1" timeout 60 sh -ex -c 'cd /try
		apt-get -qq install -y --no-install-recommends ./*.deb
		rung --version
		python3 -c "import rung"'
}

use_packages() {
	in_system "$1" sh -ex -c 'cd /try
		test -s /usr/share/man/man1/rung.1.gz
		test -s /usr/share/bash-completion/completions/rung
		test -s /usr/share/zsh/vendor-completions/_rung
		test -s /usr/share/fish/vendor_completions.d/rung.fish
		test -s /usr/share/doc/rung/docs/PYTHON.md
		test -s /usr/include/rung/rung.h
		python3 try_release.py *README.md
		apt-get -qq purge -y rung librung0
		test ! -e /usr/bin/rung'
}

try_systems() {
	local suite root what
	for suite in "${suites[@]}"; do
		root=$work/system-$suite
		trial "Debian $suite: a new system without a compiler" new_system "$suite"
		if [ -e "$root/try/ready" ]; then
			what="Debian $suite, $(in_system "$root" python3 --version)"
			trial "$what: pip install, rung --version, import rung" \
				install_wheel "$root"
			trial "$what: lines of the READMEs with the wheel" use_wheel "$root"
		fi
		if [ -e "$root/try/ready" ] && [ "$suite" = bookworm ]; then
			trial "$what: apt-get download" download_packages "$root"
			trial "$what: apt-get install, rung --version, import rung" \
				install_packages "$root"
			trial "$what: lines of the READMEs with the packages" use_packages "$root"
		fi
		rm -rf --one-file-system "$root"
	done
}

# use_python PYTHON: try the wheel in a new environment; numpy comes from the package index
use_python() {
	rm -rf "$work/venv"
	"$1" -m venv "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
		"$out/rung-$version"-*_"$(uname -m)".whl
	PATH=$work/venv/bin:$PATH "$work/venv/bin/python" tools/try_release.py \
		README.md python/README.md
}

try_pythons() {
	local python seen="" name
	for python in "$HOME"/.pyenv/versions/*/bin/python3 /usr/bin/python3.[0-9]*; do
		name=$("$python" -c 'import platform, sys, venv
assert sys.version_info >= (3, 10)
print("Python", platform.python_version())' 2>/dev/null) || continue
		if [[ $seen != *"|$name|"* ]]; then
			seen+="|$name|"
			trial "$name of this machine: lines of the READMEs with the wheel" \
				use_python "$python"
		fi
	done
	[ -n "$seen" ] || fail "no Python from 3.10 with the module venv was found"
}

# What is missing is found before the build, which takes minutes.
check_tools() {
	local name changed tools=(git tar xz)
	if [ $build = yes ]; then
		tools+=(pandoc)
		! wanted debian || tools+=(dpkg-buildpackage dh lintian)
	fi
	[ $try = no ] || tools+=(debootstrap unshare)
	for name in "${tools[@]}"; do
		command -v "$name" >/dev/null || fail "$name was not found; install the packages$(
			printf ' %s' "${RUNG_PACKAGES_TEST[@]}" "${RUNG_PACKAGES_WHEEL[@]}" \
				"${RUNG_PACKAGES_RELEASE[@]}")"
	done
	[ $try = no ] || [ "$(id -u)" = 0 ] ||
		fail "the trials need root; use --no-try to build only"
	# tools/wheel.sh compiles the files of the checkout
	changed=$(git status --porcelain)
	[ $build = no ] || ! wanted wheel || [ -z "$changed" ] ||
		fail "the checkout has uncommitted or untracked files: commit or remove them"
}

# the trials are of the installed package, and flags would change what is built
unset PYTHONPATH RUNG_LIBRARY {C,CXX,CPP,LD}FLAGS
check_tools
[ $build = no ] || build
if [ $try = yes ]; then
	compgen -G "$out/rung-$version-*_$(uname -m).whl" >/dev/null ||
		fail "no wheel to try in $out; build it, too, or use --no-try"
	try_pythons
	try_systems
	[ $failed = 0 ] || fail "a trial failed"
fi
