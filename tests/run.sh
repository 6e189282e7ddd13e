#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds rung in build/, and runs its tests. For Debian 12; on other
# systems use --no-install.
set -euo pipefail

usage() {
	cat <<'EOF'
usage: tests/run.sh [--ci [--base REF]] [--check NAME] [--no-install | --install-only] [--jobs N]
       tests/run.sh --all | --changed [BASE] | --list  [--no-install] [--jobs N]

Builds in build/ and runs the tests there, except those with the label "long". Also checks the
syntax of every source with clang, and with every option off (build-syntax/).

  --ci            that, Python with torch and PyG, AddressSanitizer and UBSan on the rooms that
                  changed since --base and on those that use them (without --base: on a fixed set),
                  and one of the checks below, which the hash of the tree of HEAD chooses
  --check NAME    run this check; with --ci, instead of the chosen one
  --all           everything
  --changed       check the structure of the files that differ from BASE (HEAD; its parent if
                  nothing differs), and run the tests of their rooms and of those that use them
  --list          print each test, and the checks that run it
  --no-install    install no packages
  --install-only  install the packages and stop
  --jobs N        parallel jobs (default: the number of processors); one more test than that runs
                  at a time, because some tests wait

Checks: clang; asan (AddressSanitizer and UBSan); tsan (race programs under ThreadSanitizer); off
(every option off); core (src/ alone, RUNG_CORE_ONLY); wheels (for x86_64 and aarch64, tests of the
first with torch and PyG, C tests of the second under qemu, machine code for each GPU); fuzz
(parsers under libFuzzer, RUNG_FUZZ_SECONDS each, 20); graphbolt (Python with torch 2.2 and
GraphBolt); long-1 and long-2 (the long tests in two halves).

Packages are installed with apt-get, through sudo when not root, and several GB from pip's index in
build-python/: tests are skipped if that fails or takes more than 15 minutes. The kernel that tests
in a virtual machine boot is unpacked to build-vm/. Only build*/ is changed.

A failed test that tests/reruns.txt lists runs once more, alone, if no other failed.
Exit: 0 all passed, 1 something failed, 2 usage.
EOF
}

checks=(clang asan tsan off core wheels fuzz graphbolt long-1 long-2)
mode=default base='' one='' install=yes only=no jobs=$(nproc)
fail_usage() {
	echo "tests/run.sh: $1" >&2
	usage >&2
	exit 2
}
while [ $# -gt 0 ]; do
	case $1 in
	--ci | --all | --changed | --list)
		[ "$mode" = default ] || fail_usage "$1 and --$mode exclude each other"
		mode=${1#--}
		if [ "$mode" = changed ] && [ $# -gt 1 ] && [[ $2 != -* ]]; then
			base=$2
			shift
		fi
		;;
	--base | --check | --jobs)
		[ $# -gt 1 ] || fail_usage "$1 needs a value"
		case $1 in --base) base=$2 ;; --check) one=$2 ;; --jobs) jobs=$2 ;; esac
		shift
		;;
	--no-install) install=no ;;
	--install-only) only=yes ;;
	--help | -h) usage; exit 0 ;;
	*) fail_usage "unknown option '$1'" ;;
	esac
	shift
done
case $jobs in '' | *[!0-9]* | 0*) fail_usage "--jobs: invalid number '$jobs'" ;; esac
[ $only = no ] || [ $install = yes ] ||
	fail_usage "--install-only and --no-install exclude each other"
[ -z "$one" ] || [[ " ${checks[*]} " == *" $one "* ]] ||
	fail_usage "--check: unknown check '$one'; use one of: ${checks[*]}"
[ -z "$one" ] || [ "$mode" = default ] || [ "$mode" = ci ] || fail_usage "--check needs no --$mode"
[ -z "$base" ] || [ "$mode" = ci ] || [ "$mode" = changed ] || fail_usage "--base needs --ci"

cd "$(dirname "$0")/.."
if [ "$mode" = changed ] && [ -z "$base" ]; then
	base=HEAD
	[ -n "$(git status --porcelain)" ] || base=HEAD~1
fi
if [ -n "$base" ] && ! git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
	echo "tests/run.sh: '$base' is not a commit of this repository" >&2
	exit 2
fi
if [ "$mode" = ci ] && [ -z "$one" ]; then
	tree=$(git rev-parse 'HEAD^{tree}')
	one=${checks[$((16#${tree:0:8} % ${#checks[@]}))]}
fi
[ "$mode" != ci ] || echo "== the further check of this run: $one (tests/run.sh --check $one)"

# shellcheck source=tools/packages.sh
. tools/packages.sh
# shellcheck source=tests/run_python.sh
. tests/run_python.sh
if [ $install = yes ]; then
	packages=("${RUNG_PACKAGES_BUILD[@]}" "${RUNG_PACKAGES_TEST[@]}")
	if [ "$mode" = all ] || [ "$one" = wheels ]; then
		packages+=("${RUNG_PACKAGES_WHEEL[@]}")
	fi
	rung_install "${packages[@]}" || exit 1
	tests/vm/kernel.sh ||
		echo "== no kernel or modules for the virtual machines: tests will be skipped" >&2
fi
[ $only = no ] || exit 0

passed=() failed=() skipped=() flaky=()
export RUNG_TESTS_ALL=1   # install/test_package downloads build tools

# ---- one build and its tests ---------------------------------------------------------------------
configure() {
	local folder=$1
	shift
	if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then
		set -- -G Ninja "$@"
	fi
	cmake -S . -B "$folder" "$@"
}

# Repeats failed tests that reruns.txt lists, if it lists all of them.
rerun() {
	local folder=$1 name names=()
	[ -f "$folder/Testing/Temporary/LastTestsFailed.log" ] || return
	while IFS=: read -r _ name; do
		grep -q "^$name " tests/reruns.txt || return
		names+=("$name")
	done <"$folder/Testing/Temporary/LastTestsFailed.log"
	for name in "${names[@]}"; do
		echo "== again, alone: $name"
		ctest --test-dir "$folder" --output-on-failure --no-tests=error -R "^$name\$" ||
			return
		flaky+=("$name")
	done
}

# ThreadSanitizer of gcc 12 and clang 14 finds no room for its shadow memory if addresses are
# randomised by more than 28 bits.
run_ctest() {
	local prefix=() folder=$1 bits
	shift
	bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
	if [ "$folder" = build-tsan ] && [ "$bits" -gt 28 ] && setarch -R true 2>/dev/null; then
		prefix=(setarch -R)
	fi
	rm -f "$folder/Testing/Temporary/LastTestsFailed.log"
	"${prefix[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
		--parallel $((jobs + 1)) "$@" || rerun "$folder"
}

# gear NAME: what it checks, its folder, its options for CMake, its target, and those for ctest
gear() {
	local slow repeated   # the other variables are the caller's
	local off=(-DRUNG_IO_URING=OFF -DRUNG_NUMA=OFF -DRUNG_OPENMP=OFF -DRUNG_CUDA=OFF
		-DRUNG_BLAS=OFF)
	local debug=(-DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-g -O1" -DRUNG_CUDA=OFF
		-DRUNG_BENCH=OFF)
	options=() tests=() targets=(all)
	case $1 in
	default | changed)
		what="the default build" folder=build
		# Wheels have kernels for all GPUs. The choice for build/ is the user's.
		[ -f build/CMakeCache.txt ] || options=("-DCMAKE_CUDA_ARCHITECTURES=75;90")
		[ "$mode" = all ] || tests=(--label-exclude '^long$')
		;;
	long-*)   # by the parity of the test's number
		gear default
		what="long tests" tests=(--label-regex '^long$' --tests-information "${1#long-},,2")
		;;
	# Another compiler or fewer parts hardly affect the command's tests, which take the most
	# time. Simulated GPUs run the kernels there, so nvcc need not compile them again.
	clang)
		what=clang folder=build-clang options=(-DCMAKE_C_COMPILER=clang -DRUNG_CUDA=OFF)
		tests=(--label-regex "unit|contract|stress|fuzz"
			--exclude-regex "in-place$|share_(refusals|users)")
		;;
	asan | rooms)   # one GPU runs the same host code, and lanes/ check accesses to peers
		what="AddressSanitizer and UBSan" folder=build-asan
		options=("${debug[@]}" "-DRUNG_SANITIZE=address,undefined")
		repeated='sim/.*-(cuda-host|cuda-peer|late|one-queue|stream.*|two-gpus)'
		slow='cli/test_(bench|bench_scripts|bench_share|damage|numa|numa_measure|train)'
		tests=(--exclude-regex "^(gpu|structure)/|$repeated|$slow")
		;;
	tsan)
		what="race programs under ThreadSanitizer" folder=build-tsan
		options=(-DRUNG_SANITIZE=thread "${debug[@]}")
		;;
	off)
		what="every option off" folder=build-minimal options=("${off[@]}")
		slow="bench|bench_scripts|bench_share|damage|train|verify|trace|score|stage_kill"
		tests=(--label-regex "unit|contract|cli"
			--exclude-regex "in-place$|share_(refusals|users)|cli/test_($slow)")
		;;
	core)
		what="src/ alone, every option off" folder=build-core
		options=("${off[@]}" -DRUNG_CORE_ONLY=ON)
		;;
	aarch64)   # qemu refuses io_uring, so the engine is pread
		what="aarch64 under qemu" folder=build-aarch64
		options=("${debug[@]}" -DRUNG_STATIC_DEPS=ON -DRUNG_BLAS=OFF
			-DCMAKE_TOOLCHAIN_FILE="$PWD/build-wheel/aarch64/toolchain.cmake")
		slow='unit/test_(inflate|measure|placement_memory|source_generated|expected'
		slow="$slow|score_edges)$"
		slow="$slow|unit/test_(divide|stage|stage_faults|dataset)$|in-place$"
		# test_store_memory starts itself again, without qemu
		slow="$slow|contract/test_(share|store$|store_memory$)"
		tests=(--label-regex "unit|contract|emulated" --exclude-regex "$slow")
		;;
	fuzz)
		what="parsers under libFuzzer" folder=build-fuzz targets=(fuzz)
		options=("${debug[@]}" -DCMAKE_C_COMPILER=clang -DRUNG_FUZZ=ON
			"-DRUNG_SANITIZE=address,undefined")
		tests=(--label-regex fuzz --parallel $((2 * jobs)))
		;;
	esac
}

# build NAME: configure, build and test the gear
build() {
	local what folder options tests targets start=$SECONDS built name affected=yes
	gear "$1"
	printf '\n== %s: %s\n' "$folder" "$what"
	rm -f "$folder/Testing/Temporary/LastTestsFailed.log"
	if configure "$folder" "${options[@]}" && select_tests "$1"; then
		if [ $affected = no ]; then
			passed+=("$folder: $what: the change affects no test")
			return
		fi
		if cmake --build "$folder" --parallel "$jobs" --target "${targets[@]}" &&
			built=$((SECONDS - start)) && run_ctest "$folder" "${tests[@]}"; then
			built+=" s to build, $((SECONDS - start - built)) s to test"
			passed+=("$folder: $what, $built")
			return
		fi
	fi
	failed+=("$folder: $what, $((SECONDS - start)) s")
	[ -f "$folder/Testing/Temporary/LastTestsFailed.log" ] || return 0
	while IFS=: read -r _ name; do
		failed+=("$folder: $name")
	done <"$folder/Testing/Temporary/LastTestsFailed.log"
}

# select_tests NAME: for the gears `rooms` and `changed`, limits `targets` and `tests` to what the
# change can break, or sets `affected` to no. Without Ninja, which knows programs by their files,
# everything is built.
select_tests() {
	local found what_changed=(--core)
	[ -z "$base" ] || what_changed=(--base "$base")
	case $1 in rooms | changed) ;; *) return 0 ;; esac
	found=$(python3 tests/structure/affected.py --build "$folder" --exclude "${tests[1]}" \
		"${what_changed[@]}") || return
	tests=(--tests-regex "$(head -n 1 <<<"$found")")
	[ -n "${tests[1]}" ] || affected=no
	[ ! -f "$folder/build.ninja" ] || read -ra targets < <(tail -n 1 <<<"$found")
}

# ---- syntax --------------------------------------------------------------------------------------
# Objects for clang, and for every option off, which syntax.sh does not compile.
check_syntax() {
	local name folder options what targets tests objects start=$SECONDS
	printf '\n== build-syntax: every source with clang, and with every option off\n'
	if ! command -v ninja >/dev/null; then
		skipped+=("build-syntax: ninja was not found (Debian: ninja-build)")
		return
	fi
	for name in clang off; do
		gear $name
		folder=build-syntax/$name
		configure "$folder" "${options[@]}" -DCMAKE_{C,CXX}_LINKER_LAUNCHER=true \
			-DCMAKE_{C,CXX}_COMPILER_LAUNCHER="$PWD/tests/syntax.sh" >/dev/null &&
			objects=$(ninja -C "$folder" -t targets all |
				sed -n 's/^\(.*[.]o\): CX*_COMPILER.*/\1/p') &&
			printf '%s\n' "$objects" | xargs ninja -C "$folder" -j "$jobs" --quiet ||
			failed+=("$folder: syntax; the errors are printed above")
	done
	echo "$((SECONDS - start)) s"
}

# ---- runs ----------------------------------------------------------------------------------------
run_check() {
	case $1 in
	graphbolt) check_graphbolt ;;
	wheels) check_wheels ;;
	*) build "$1" ;;
	esac
}

# The default build without its tests, for checks that use it.
build_default() {
	local what folder options tests targets
	gear default
	configure build "${options[@]}" && cmake --build build --parallel "$jobs" && return
	failed+=("build: the default build")
}

list_tests() {
	local name what folder options tests targets
	for name in default clang asan tsan off core fuzz long-1 long-2; do
		gear $name
		configure "$folder" "${options[@]}" >/dev/null
		ctest --test-dir "$folder" --show-only "${tests[@]}" |
			sed -n "s/^ *Test *#[0-9]*: \(.*\)/\1 $name/p"
	done | awk '{ runs[$1] = runs[$1] " " $2 } END { for (t in runs) print t runs[t] }' | sort
}

changed() {
	local files
	mapfile -t files < <(git diff --name-only --diff-filter=d "$base"
		git ls-files --others --exclude-standard)
	if [ ${#files[@]} -gt 0 ]; then
		if python3 tests/structure/check.py "${files[@]}"; then
			passed+=("the structure of ${#files[@]} files")
		else
			failed+=("the structure of ${#files[@]} files")
		fi
	fi
	check_syntax
	build changed
}

case $mode in
list)
	list_tests
	exit
	;;
changed) changed ;;
default)
	if [ -z "$one" ]; then
		check_syntax
		build default
	else
		case $one in
		wheels) begin_python venv ;;
		graphbolt) begin_python graphbolt ;;
		esac
		case $one in
		wheels | graphbolt | long-*) build_default ;;
		esac
		[ -z "${installing:-}" ] || wait "$installing" || true
		run_check "$one"
	fi
	;;
*)
	case $mode-$one in
	ci-graphbolt | all-) begin_python venv graphbolt ;;
	*) begin_python venv ;;
	esac
	check_syntax
	build default
	if [ "$mode" = all ]; then
		for name in clang asan tsan off core fuzz; do build $name; done
	else
		[ "$one" = asan ] || build rooms
	fi
	wait "$installing" || true
	check_torch
	if [ "$mode" = all ]; then
		check_graphbolt
		check_wheels
	else
		run_check "$one"
	fi
	;;
esac

printf '\n'
for line in "${passed[@]}"; do echo "passed: $line"; done
for line in "${skipped[@]}"; do echo "SKIPPED: $line"; done
for line in "${flaky[@]}"; do echo "FLAKY: $line"; done
for line in "${failed[@]}"; do echo "FAILED: $line"; done
[ ${#failed[@]} -eq 0 ]
