#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds rung in build/, and runs its tests. For Debian 12; on other
# systems use --no-install.
set -euo pipefail

usage() {
	cat <<'EOF'
usage: tests/run.sh [--all] [--no-install | --install-only] [--jobs N]

Builds in build/ and runs the tests there.

  --all           also build with clang, with AddressSanitizer and UBSan, with every option off, and
                  src/ alone (RUNG_CORE_ONLY), and run the tests of each; run the race programs
                  under ThreadSanitizer, and the parsers under libFuzzer for RUNG_FUZZ_SECONDS each
                  (20). The folders are build-clang/, build-asan/, build-minimal/, build-core/,
                  build-tsan/ and build-fuzz/. Also test the Python package as pip installs it,
                  with torch and PyG, in build-python/venv: several GB from pip's index, skipped if
                  the installation fails or takes more than 15 minutes. CUDA's disassembler, for
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
	rung_install "${RUNG_PACKAGES_BUILD[@]}" "${RUNG_PACKAGES_TEST[@]}" || exit 1
	tests/vm/kernel.sh ||
		echo "== no kernel for the tests in a virtual machine: they will be skipped" >&2
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

# The package as users install it: the wheel that pip builds, which contains the library, together
# with torch and PyG.
install_python() {
	[ -x build-python/venv/bin/python ] || python3 -m venv build-python/venv || exit
	exec timeout 900 build-python/venv/bin/pip install --disable-pip-version-check \
		'./python[pyg,progress,test]'
}

# Downloads are slow, so they run in the background of the default build and its tests.
begin_python() {
	mkdir -p build-python
	install_disassembler >build-python/disassembler.log 2>&1 ||
		echo "== no disassembler for gpu/test_sass: see build-python/disassembler.log" >&2
	install_python >build-python/install.log 2>&1 &
	installing=$!
	trap 'kill $installing 2>/dev/null || true' EXIT
}

check_python() {
	local what="Python with torch and PyG" start=$SECONDS tests
	# tests without torch, or with the stand-in for it, have passed in build/; test_layout
	# checks the library in the wheel
	mapfile -t tests < <(grep -lr --include='test_*.py' torch python/tests |
		xargs grep -L '"standin"'
		echo python/tests/test_layout.py)
	printf '\n== build-python: %s\n' "$what"
	if ! wait "$installing"; then
		tail -n 5 build-python/install.log
		what="$what: the installation failed or timed out"
		skipped+=("build-python: $what; see build-python/install.log")
		return
	fi
	if env -u PYTHONPATH -u RUNG_LIBRARY OMP_WAIT_POLICY=passive RUNG="$PWD/build/rung" \
		RUNG_SIM_LIBRARY="$PWD/build/tests/librung_sim.so" \
		build-python/venv/bin/python -B -m pytest -p no:cacheprovider -q -rs \
		-o faulthandler_timeout=600 --numprocesses "$jobs" --dist worksteal \
		"${tests[@]}"; then
		passed+=("build-python: $what, $((SECONDS - start)) s")
	else
		failed+=("build-python: $what, $((SECONDS - start)) s")
	fi
}

[ $all = no ] || begin_python
check "the default build" build
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
	target=fuzz
	check "parsers under libFuzzer" build-fuzz "${debug[@]}" -DCMAKE_C_COMPILER=clang \
		-DRUNG_FUZZ=ON -DRUNG_SANITIZE=address,undefined \
		-- --label-regex fuzz --parallel $((2 * jobs))
	check_python
fi

printf '\n'
for line in "${passed[@]}"; do echo "passed: $line"; done
for line in "${skipped[@]}"; do echo "SKIPPED: $line"; done
for line in "${failed[@]}"; do echo "FAILED: $line"; done
[ ${#failed[@]} -eq 0 ]
