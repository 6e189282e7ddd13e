#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds rung in build/, and runs its tests. For Debian 12; on other
# systems use --no-install.
set -euo pipefail

usage() {
	cat <<'EOF'
usage: tests/run.sh [--all] [--no-install | --install-only] [--jobs N]

Builds in build/ and runs the tests there, except those with the label "long" (ctest -L long).

  --all           run the long tests, too. Also build with clang, with AddressSanitizer and UBSan,
                  with every option off, and src/ alone (RUNG_CORE_ONLY), and run the tests of each;
                  run the race programs under ThreadSanitizer, and the parsers under libFuzzer for
                  RUNG_FUZZ_SECONDS each (20). The folders are build-clang/, build-asan/,
                  build-minimal/, build-core/, build-tsan/ and build-fuzz/. Also build the wheels
                  for x86_64 and aarch64 in build-wheel/, run the C tests for aarch64 under qemu
                  (build-aarch64/), and test the wheel for x86_64 with torch and PyG, and its style
                  and types with ruff, mypy and pyright, in build-python/venv, and with torch 2.2
                  and GraphBolt in build-python/graphbolt: several GB from pip's index, skipped if
                  an installation fails or takes more than 15 minutes. CUDA's disassembler, for
                  the test of machine code, is installed there, too
  --no-install    install no packages
  --install-only  install the packages and stop
  --jobs N        parallel jobs (default: the number of processors); one more test than that runs
                  at a time, because some tests wait

Packages are installed with apt-get, through sudo when not root. The kernel that tests in a virtual
machine boot is unpacked to build-vm/. Nothing else outside this folder is changed.
Exit: 0 all passed, 1 something failed, 2 usage.
EOF
}

all=no install=yes only=no jobs=$(nproc)
while [ $# -gt 0 ]; do
	case $1 in
	--all) all=yes ;;
	--no-install) install=no ;;
	--install-only) only=yes ;;
	--jobs)
		jobs=${2:-}
		case $jobs in
		'' | *[!0-9]* | 0*)
			echo "tests/run.sh: --jobs: invalid number '$jobs'" >&2
			exit 2
			;;
		esac
		shift
		;;
	--help | -h) usage; exit 0 ;;
	*) echo "tests/run.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
if [ $only = yes ] && [ $install = no ]; then
	echo "tests/run.sh: --install-only and --no-install exclude each other" >&2
	exit 2
fi

cd "$(dirname "$0")/.."
# shellcheck source=tools/packages.sh
. tools/packages.sh
if [ $install = yes ]; then
	packages=("${RUNG_PACKAGES_BUILD[@]}" "${RUNG_PACKAGES_TEST[@]}")
	[ $all = no ] || packages+=("${RUNG_PACKAGES_WHEEL[@]}")
	rung_install "${packages[@]}" || exit 1
	tests/vm/kernel.sh ||
		echo "== no kernel or modules for the virtual machines: tests will be skipped" >&2
fi
[ $only = no ] || exit 0

# ThreadSanitizer of gcc 12 and clang 14 finds no room for its shadow memory if addresses are
# randomised by more than 28 bits.
run_ctest() {
	local prefix=() folder=$1 bits
	shift
	bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
	if [ "$folder" = build-tsan ] && [ "$bits" -gt 28 ] && setarch -R true 2>/dev/null; then
		prefix=(setarch -R)
	fi
	"${prefix[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
		--parallel $((jobs + 1)) "$@"
}

[ $all = no ] || export RUNG_TESTS_ALL=1   # python/tests/test_signals.py: all points, not a few
passed=() failed=() skipped=() target=all

# check WHAT FOLDER CMAKE_OPTION... [-- CTEST_OPTION...]: configure, build, test
check() {
	local what=$1 folder=$2 options=() start=$SECONDS
	shift 2
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	[ $# -eq 0 ] || shift
	printf '\n== %s: %s\n' "$folder" "$what"
	rm -f "$folder/Testing/Temporary/LastTestsFailed.log"
	if cmake -S . -B "$folder" "${options[@]}" &&
		cmake --build "$folder" --target "$target" --parallel "$jobs" &&
		run_ctest "$folder" "$@"; then
		passed+=("$folder: $what, $((SECONDS - start)) s")
	else
		failed+=("$folder: $what, $((SECONDS - start)) s")
		failed_tests "$folder"
	fi
}

# Repeats the names of failed tests at the end, after the output of the other checks.
failed_tests() {
	local log=$1/Testing/Temporary/LastTestsFailed.log name
	[ -f "$log" ] || return 0
	while IFS=: read -r _ name; do failed+=("$1: $name"); done <"$log"
}

# For tests/gpu/test_sass.py, 6 MB; some toolkits lack it.
install_disassembler() {
	if command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null; then
		return
	fi
	[ -x build-python/venv/bin/python ] || python3 -m venv build-python/venv || return
	timeout 120 build-python/venv/bin/pip install --disable-pip-version-check \
		nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
}

# install ENVIRONMENT EXTRAS PACKAGE...: the package as users install it, in build-python/. The file
# `ready` marks it as complete.
install() {
	local folder=build-python/$1 wheel pip
	wheel=$(echo build-wheel/rung-*_x86_64.whl)[$2]
	shift 2
	pip=("$folder/bin/python" -m pip --disable-pip-version-check install)
	[ -x "$folder/bin/python" ] || python3 -m venv "$folder" || return
	"${pip[@]}" --no-deps --force-reinstall "$wheel" &&
		timeout 900 "${pip[@]}" "$wheel" "$@" && touch "$folder/ready"
}

# Downloads are slow, so they run in the background of the default build and its tests. The last
# version of GraphBolt in PyPI needs torch 2.2 or older.
begin_python() {
	mkdir -p build-python
	rm -f build-wheel/rung-*.whl build-python/{*/ready,*.status,venv.log,graphbolt.log}
	install_disassembler >build-python/disassembler.log 2>&1 ||
		echo "== no disassembler for gpu/test_sass: see build-python/disassembler.log" >&2
	set -m   # a process group, so that its children can be stopped, too
	{
		build_wheel x86_64 || exit
		install venv pyg,progress,dev >build-python/venv.log 2>&1 || true
		install graphbolt graphbolt pytest pytest-xdist >build-python/graphbolt.log 2>&1
	} &
	installing=$!
	set +m
	trap 'kill -- -$installing 2>/dev/null || true' EXIT
	trap 'exit 130' INT TERM
}

build_wheel() {
	local status=0 start=$SECONDS
	tools/wheel.sh --arch "$1" --jobs "$jobs" >"build-python/wheel-$1.log" 2>&1 || status=$?
	echo "$status $((SECONDS - start))" >"build-python/wheel-$1.status"
	return $status
}

# check_wheel ARCH: auditwheel's verdict is printed, and a bad one fails. Without a wheel the status
# is 1.
check_wheel() {
	local log=build-python/wheel-$1.log status seconds what
	read -r status seconds <"build-python/wheel-$1.status"
	what="build-wheel/$1: the wheel, $seconds s"
	printf '\n== build-wheel/%s: the wheel\n' "$1"
	tail -n 12 "$log"
	case $status in
	0) passed+=("$what") ;;
	3) skipped+=("$what: a download failed; see $log"); return 1 ;;
	4) skipped+=("$what: not possible here; see $log"); return 1 ;;
	*) failed+=("$what; see $log, which ends:"$'\n'"$(tail -n 8 "$log")"); return 1 ;;
	esac
}

# The wheel for aarch64, and C tests under qemu. It refuses io_uring, so the engine is pread.
check_aarch64() {
	local tool slow
	for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
		command -v $tool >/dev/null && continue
		skipped+=("build-wheel/aarch64: the wheel and its tests: $tool was not found")
		return
	done
	build_wheel aarch64 || true
	check_wheel aarch64 || return 0
	slow='unit/test_(inflate|measure|placement_memory|source_generated|expected|score_edges)$'
	slow="$slow|unit/test_(divide|stage|stage_faults|dataset)$|in-place$"
	# test_store_memory starts itself again, without qemu
	slow="$slow|contract/test_(share|store$|store_memory$)"
	RUNG_OTHER=$PWD/build/rung check "aarch64 under qemu" build-aarch64 "${debug[@]}" \
		-DCMAKE_TOOLCHAIN_FILE="$PWD/build-wheel/aarch64/toolchain.cmake" \
		-DRUNG_STATIC_DEPS=ON -DRUNG_BLAS=OFF \
		-- --label-regex "unit|contract|emulated" --exclude-regex "$slow"
}

# python_tests ENVIRONMENT WHAT FILE...: run tests in an environment of begin_python()
python_tests() {
	local folder=build-python/$1 what=$2 start=$SECONDS
	shift 2
	printf '\n== %s: %s\n' "$folder" "$what"
	if [ ! -f "$folder.log" ]; then
		skipped+=("$folder: $what: the wheel was not built")
	elif [ ! -f "$folder/ready" ]; then
		tail -n 5 "$folder.log"
		skipped+=("$folder: $what: the installation failed or timed out; see $folder.log")
	elif env -u PYTHONPATH -u RUNG_LIBRARY OMP_WAIT_POLICY=passive RUNG="$PWD/build/rung" \
		RUNG_SIM_LIBRARY="$PWD/build/tests/librung_sim.so" \
		"$folder/bin/python" -B -m pytest -p no:cacheprovider -q -rs \
		-o faulthandler_timeout=600 --numprocesses "$jobs" --dist worksteal "$@"; then
		passed+=("$folder: $what, $((SECONDS - start)) s")
	else
		failed+=("$folder: $what, $((SECONDS - start)) s")
	fi
}

check_python() {
	local tests
	# tests without torch, or with the stand-in for it, have passed in build/; test_layout
	# checks the library in the wheel
	mapfile -t tests < <(grep -lr --include='test_*.py' --exclude-dir=typed torch python/tests |
		xargs grep -L '"standin"'
		echo python/tests/test_layout.py)
	python_tests venv "Python with torch and PyG" "${tests[@]}"
	python_tests venv "ruff, mypy and pyright" python/tests/typed
	python_tests graphbolt "Python with torch 2.2 and GraphBolt" python/tests/peers \
		python/tests/loader/test_{graphbolt,loader}.py python/tests/test_{arrays,gather}.py
}

[ $all = no ] || begin_python
if [ $all = yes ]; then
	check "the default build" build
else
	check "the default build" build -- --label-exclude '^long$'
fi
if [ $all = yes ]; then
	debug=(-DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-g -O1" -DRUNG_CUDA=OFF
		-DRUNG_BENCH=OFF)
	off=(-DRUNG_IO_URING=OFF -DRUNG_NUMA=OFF -DRUNG_OPENMP=OFF -DRUNG_CUDA=OFF -DRUNG_BLAS=OFF)
	# Another compiler or fewer parts hardly affect the command's tests, which take the most
	# time. Simulated GPUs run the kernels there, so nvcc need not compile them again.
	check "clang" build-clang -DCMAKE_C_COMPILER=clang -DRUNG_CUDA=OFF \
		-- --label-regex "unit|contract|stress|fuzz" \
		--exclude-regex "in-place$|share_(refusals|users)"
	# one GPU runs the same host code, and the lane tests check the kernels' accesses to peers
	repeated='sim/.*-(cuda-host|cuda-peer|late|one-queue|stream.*|two-gpus)'
	slow='cli/test_(bench|bench_scripts|bench_share|damage|numa|numa_measure|train)'
	check "AddressSanitizer and UBSan" build-asan "${debug[@]}" \
		-DRUNG_SANITIZE=address,undefined \
		-- --exclude-regex "^(gpu|structure)/|$repeated|$slow"
	check "race programs under ThreadSanitizer" build-tsan -DRUNG_SANITIZE=thread "${debug[@]}"
	slow="cli/test_(bench|bench_scripts|bench_share|damage|train|verify|trace|score|stage_kill)"
	check "every option off" build-minimal "${off[@]}" -- --label-regex "unit|contract|cli" \
		--exclude-regex "in-place$|share_(refusals|users)|$slow"
	check "src/ alone, every option off" build-core "${off[@]}" -DRUNG_CORE_ONLY=ON
	check_aarch64
	target=fuzz
	check "parsers under libFuzzer" build-fuzz "${debug[@]}" -DCMAKE_C_COMPILER=clang \
		-DRUNG_FUZZ=ON -DRUNG_SANITIZE=address,undefined \
		-- --label-regex fuzz --parallel $((2 * jobs))
	wait "$installing" || true
	check_wheel x86_64 || true
	check_python
fi

printf '\n'
for line in "${passed[@]}"; do echo "passed: $line"; done
for line in "${skipped[@]}"; do echo "SKIPPED: $line"; done
for line in "${failed[@]}"; do echo "FAILED: $line"; done
[ ${#failed[@]} -eq 0 ]
