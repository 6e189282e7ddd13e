#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, on a machine that has one, in one go. Bash, Python 3 (standard library) and a driver are enough there.
set -uo pipefail

usage() {
	cat <<'EOT'
usage: tests/gpu/run.sh [--build DIR] [--out FILE] [--only LIST] [--seconds N] [--dir DIR] [--arch LIST] [--bench ARGS]
                        [--dry-run | --pack DIR]

Runs, with a time limit for each step: the contract tests on the device "cuda" (rows in host memory, on the GPU, on a GPU that
poses as three), the tests with several processes, the race program, the same with launches that block and one queue, a comparison
of the GPU's rows with the CPU's, compute-sanitizer's memcheck and racecheck on small cases, bench/gpu with its ceilings, and rung numa,
whose JSON of what GPUs copy and gather from each NUMA node and from each other becomes "numa" of the object.

  --build DIR    a build of rung, or what --pack made of one (default: build-gpu, which is built first)
  --out FILE     the JSON object goes there (default: stdout)
  --only LIST    groups of steps: contract processes races blocking check sanitizer bench numa (default: all)
  --seconds N    all of it, at most (default: 570); steps for which no time is left are skipped
  --dir DIR      for temporary files: a disk, 6 GiB (default: $TMPDIR, /var/tmp)
  --arch LIST    CMAKE_CUDA_ARCHITECTURES of the build (default: of the GPU that is here, else those of the project)
  --bench ARGS   options of rung_gpu_bench for the measurements, in one word: "--size 4GiB"
  --dry-run      run nothing that needs a GPU: check that each program is there, starts, and says in a line that there is none
  --pack DIR     copy the programs of a build with RUNG_STATIC_DEPS=ON, and the shared libraries that they need beside the C library,
                 to DIR, and stop: it runs on other machines as --build DIR

Exit: 0 all passed or were skipped, 1 something failed, 2 usage, 77 there is no GPU.
EOT
}

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
command_line="tests/gpu/run.sh $*"
build='' out='' only='' seconds=570 dir=${TMPDIR:-/var/tmp} arch='' bench='' dry=no pack=''
while [ $# -gt 0 ]; do
	case $1 in
	--build | --out | --only | --seconds | --dir | --arch | --bench | --pack)
		[ $# -ge 2 ] || { echo "run.sh: $1 takes a value" >&2; exit 2; }
		printf -v "${1#--}" %s "$2"
		shift
		;;
	--dry-run) dry=yes ;;
	--help | -h) usage; exit 0 ;;
	*) echo "run.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
case $seconds in '' | *[!0-9]*) echo "run.sh: --seconds takes a number, not '$seconds'" >&2; exit 2 ;; esac
for word in ${only//,/ }; do
	case $word in
	contract | processes | races | blocking | check | sanitizer | bench | numa) ;;
	*) echo "run.sh: there is no group '$word'" >&2; exit 2 ;;
	esac
done

programs=(rung bench/rung_gpu_bench tests/stress_test_gather_race tests/stress_test_share_race
	tests/test_kernels tests/test_store tests/test_store_faults tests/test_gpu_sampler tests/test_share tests/test_share_gpu)

# ---- building, packing ----

if [ -z "$build" ]; then
	build=$root/build-gpu
	if [ -z "$arch" ]; then
		arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d . | paste -sd';')
	fi
	options=(-DRUNG_STATIC_DEPS=ON -DRUNG_CUDA=ON -DRUNG_BLAS=OFF)   # the trainer is not run, and OpenBLAS is large
	[ -z "$arch" ] || options+=("-DCMAKE_CUDA_ARCHITECTURES=$arch")
	targets=(rung_command)
	for program in "${programs[@]:1}"; do targets+=("${program##*/}"); done
	{ cmake -S "$root" -B "$build" "${options[@]}" && cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}"; } >&2 || exit 1
fi
build=$(cd "$build" && pwd) || exit 1

if [ -n "$pack" ]; then
	# shellcheck disable=SC2016
	# with LD_LIBRARY_PATH in its place, the other machine's own programs would take our libraries too
	if ! readelf -d "$build/rung" 2>/dev/null | grep -q 'RPATH.*\$ORIGIN/lib'; then
		echo "run.sh: $build was not made with -DRUNG_STATIC_DEPS=ON: its programs would not find the libraries in $pack/lib" >&2
		exit 1
	fi
	mkdir -p "$pack/lib" || exit 1
	for program in "${programs[@]}"; do
		[ -x "$build/$program" ] || { echo "run.sh: $build/$program is not there: left out" >&2; continue; }
		mkdir -p "$pack/$(dirname "$program")"
		strip -o "$pack/$program" "$build/$program" 2>/dev/null || cp "$build/$program" "$pack/$program" || exit 1
		# the C library is the other machine's: a newer one serves programs that were linked with an older one
		ldd "$build/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
			grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' | xargs -r cp -Lu -t "$pack/lib" || exit 1
	done
	du -sh "$pack" >&2
	exit 0
fi
# ---- steps ----

work=$(mktemp -d "$dir/rung-gpu-run-XXXXXX") || exit 1
steps=$work/steps.tsv
: >"$steps"
running=''
cleanup() {
	[ -z "$running" ] || kill -TERM "$running" 2>/dev/null   # timeout passes it on to all of the step
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export TMPDIR=$work OMP_WAIT_POLICY=passive

# record GROUP NAME STATE SECONDS REASON LOG COMMAND...
record() {
	local IFS=$'\t'
	printf '%s\n' "$*" >>"$steps"
}

tail_of() {
	grep -v '^[[:space:]]*$' "$1" | tail -n 1 | tr '\t' ' ' | cut -c1-300
}

# Which end it was. 77, and a suite of which every test was skipped, count as skipped.
state_of() {
	case $1 in
	0) if grep -q 'Tested: 0 ' "$2"; then echo skipped; else echo passed; fi ;;
	77) echo skipped ;;
	*) if grep -q 'Device not supported' "$2"; then echo skipped; else echo failed; fi ;;   # compute-sanitizer under some hypervisors
	esac
}

run_step() {
	local group=$1 name=$2 limit=$3 log=$work/$2.log begun=$SECONDS rc reason=''
	shift 3
	timeout --kill-after=10 "$limit" env "$@" >"$log" 2>&1 </dev/null &
	running=$!
	wait "$running" 2>/dev/null
	rc=$?
	running=''
	case $rc in
	0) ;;
	124 | 137) reason="ended after $limit s" ;;
	*) reason="exit $rc: $(tail_of "$log")" ;;
	esac
	record "$group" "$name" "$(state_of $rc "$log")" $((SECONDS - begun)) "$reason" "$log" "${*//$build\//}"
	printf '%-9s %-42s %4s s  %s\n' "$(state_of $rc "$log")" "$name" $((SECONDS - begun)) "$reason" >&2
}

skip_step() {
	record "$1" "$2" skipped 0 "$3" '' "${*:4}"
	printf '%-9s %-42s %s\n' skipped "$2" "$3" >&2
}

# step GROUP NAME LIMIT RESERVE [VARIABLE=VALUE]... PROGRAM [ARGUMENT]...: RESERVE seconds are kept for what comes behind
step() {
	local group=$1 name=$2 limit=$3 left=$((seconds - SECONDS - $4)) word
	shift 4
	if [ -n "$only" ] && [[ ,$only, != *,$group,* ]]; then return; fi
	for word in "$@"; do
		if [[ $word == "$build"/* && ! -x $word ]]; then
			skip_step "$group" "$name" "${word#"$build"/} is not built" "${*//$build\//}"
			return
		fi
	done
	if [ $dry = yes ]; then
		record "$group" "$name" planned 0 '' '' "${*//$build\//}"
		return
	fi
	if [ $left -lt 5 ]; then
		skip_step "$group" "$name" "no time is left" "${*//$build\//}"
		return
	fi
	run_step "$group" "$name" $((limit < left ? limit : left)) "$@"
}

# In a dry run: it is there, it starts, and without a GPU it says so.
check_start() {
	local program=$1 log=$work/start.log rc line
	if [ ! -x "$build/$program" ]; then
		record start "$program" failed 0 "it is not built" '' "$program"
		printf 'failed    %s is not built\n' "$program" >&2
		return
	fi
	{ case $program in
	rung) timeout 60 "$build/$program" --version >"$log" 2>&1 </dev/null ;;
	*/test_kernels) timeout 60 "$build/$program" --list >"$log" 2>&1 </dev/null ;;   # checks arguments: it needs no GPU
	*/stress_test_share_race) timeout 60 env LD_TRACE_LOADED_OBJECTS=1 "$build/$program" >"$log" 2>&1 </dev/null ;;
	*) timeout 60 env CUDA_VISIBLE_DEVICES= RUNG_TEST_DEVICE=cuda-host "$build/$program" >"$log" 2>&1 </dev/null ;;
	esac; } 2>/dev/null   # the shell's word on those that abort
	rc=$?
	line=$(grep -m 1 -E 'cuda: looking for GPUs|no GPU' "$log" | cut -c1-300)
	case $program in
	rung | */test_kernels | */stress_test_share_race) [ $rc -eq 0 ] && ! grep -q 'not found' "$log" && line="starts" || line='' ;;
	*/rung_gpu_bench) [ $rc -eq 77 ] && [ "$(wc -l <"$log")" -eq 1 ] || line='' ;;
	*) [ $rc -ne 0 ] || line='' ;;   # a test that passes without a GPU would test nothing
	esac
	if [ -n "$line" ]; then
		record start "$program" passed 0 "$line" '' "$program"
	else
		record start "$program" failed 0 "exit $rc: $(tail_of "$log")" '' "$program"
	fi
	printf '%-9s %-42s %s\n' "$([ -n "$line" ] && echo passed || echo failed)" "$program" "${line:-exit $rc: $(tail_of "$log")}" >&2
}

# shellcheck disable=SC2012   # names of ours
sanitizer=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/*/*/compute-sanitizer 2>/dev/null | head -n 1)

if [ $dry = yes ]; then
	for program in "${programs[@]}"; do check_start "$program"; done
	if [ -n "$sanitizer" ]; then
		record start compute-sanitizer passed 0 "$sanitizer" '' compute-sanitizer
	else
		record start compute-sanitizer skipped 0 "compute-sanitizer was not found: not on PATH, not beside CUDA" '' compute-sanitizer
	fi
elif ! "$build/bench/rung_gpu_bench" --only launch --size 2MiB --batch-bytes 64KiB --link-bytes 64KiB --row-bytes 512 --batches 32 --dir "$work" \
	>"$work/first.log" 2>&1 </dev/null; then
	tail_of "$work/first.log" >&2   # no GPU, or one that does not work: nothing else would say anything else
	grep -q skipped: "$work/first.log" && exit 77
	exit 1
fi

bench_reserve=330
tests=$build/tests
for device in cuda-host cuda-gpu cuda-peer; do
	for name in test_store test_store_faults test_gpu_sampler; do
		step contract "$name-$device" 60 $bench_reserve RUNG_TEST_DEVICE=$device "$tests/$name" --jobs 1 --verbose
	done
done
# copies of cold rows that wait on the caller's stream
step contract test_store_faults-stream 60 $bench_reserve RUNG_TEST_DEVICE=cuda-gpu RUNG_TEST_STREAM_ROWS=1000 "$tests/test_store_faults" \
	--jobs 1 --verbose
step contract test_kernels 60 $bench_reserve "$tests/test_kernels" --jobs 1 --verbose
for device in cuda-host cuda-gpu cuda-peer; do
	step processes "test_share_gpu-$device" 60 $bench_reserve RUNG_TEST_DEVICE=$device "$tests/test_share_gpu" --jobs 1 --verbose
done
for device in cuda-host cuda-gpu; do   # attaches inside one process, which CUDA IPC does not do
	step processes "test_share-$device" 60 $bench_reserve RUNG_TEST_DEVICE=$device "$tests/test_share" --jobs 1 --verbose
done
step processes stress_test_share_race 60 $bench_reserve "$tests/stress_test_share_race"
for device in cuda-host cuda-peer; do
	step races "stress_test_gather_race-$device" 60 $bench_reserve RUNG_TEST_DEVICE=$device "$tests/stress_test_gather_race"
done
step races stress_test_gather_race-stream 60 $bench_reserve RUNG_TEST_DEVICE=cuda-gpu RUNG_TEST_STREAM_ROWS=1000 "$tests/stress_test_gather_race"
blocking=(CUDA_LAUNCH_BLOCKING=1 CUDA_DEVICE_MAX_CONNECTIONS=1 RUNG_TEST_DEVICE=cuda-peer)
for name in test_store test_store_faults; do
	step blocking "$name-blocking" 60 $bench_reserve "${blocking[@]}" "$tests/$name" --jobs 1 --verbose
done
step blocking stress_test_gather_race-blocking 60 $bench_reserve "${blocking[@]}" "$tests/stress_test_gather_race"

program=$build/bench/rung_gpu_bench
read -r -a bench_args <<<"$bench"
small=(--only check --size 4MiB --batch-bytes 64KiB --link-bytes 64KiB --row-bytes 512 --dir "$work")
step check rows_equal_the_cpus 60 $bench_reserve "$program" --only check --size 16MiB --batch-bytes 64KiB --link-bytes 64KiB --dir "$work"
if [ -n "$sanitizer" ] || [ $dry = yes ]; then
	sanitizer=${sanitizer:-compute-sanitizer}
	step sanitizer memcheck 90 $bench_reserve "$sanitizer" --tool memcheck --error-exitcode 9 "$program" "${small[@]}" --check-rows 200
	step sanitizer racecheck 90 $bench_reserve "$sanitizer" --tool racecheck --error-exitcode 9 "$program" "${small[@]}" --check-rows 100
	step sanitizer sampler_memcheck 90 $bench_reserve RUNG_TEST_DEVICE=cuda-gpu "$sanitizer" --tool memcheck --error-exitcode 9 \
		--target-processes all "$tests/test_gpu_sampler" --jobs 1
	step sanitizer sampler_racecheck 90 $bench_reserve RUNG_TEST_DEVICE=cuda-gpu "$sanitizer" --tool racecheck --error-exitcode 9 \
		--target-processes all "$tests/test_gpu_sampler" --jobs 1
else
	for name in memcheck racecheck sampler_memcheck sampler_racecheck; do
		if [ -z "$only" ] || [[ ,$only, == *,sanitizer,* ]]; then
			skip_step sanitizer $name "compute-sanitizer was not found: not on PATH, not beside CUDA"
		fi
	done
fi
# one program each, so that what one has measured is kept when another comes to its limit
for part in gather launch cold,timeline epoch baselines; do
	step bench "bench_${part%%,*}" 150 20 "$program" --only "$part" --dir "$work" "${bench_args[@]}"
done
# shorter regions than by default: between many GPUs there are many values
step numa numa_gpu_peer 150 20 "$build/rung" numa --only gpu,peer --seconds 0.05 --json --quiet
step bench bench_index_select 60 5 python3 "$root/bench/gpu/index_select.py"

# ---- the report ----

report() {
	python3 -B "$here/report.py" --steps "$steps" --root "$root" --command "$command_line" --dry-run "$dry"
}
if [ -n "$out" ]; then report >"$out"; else report; fi
