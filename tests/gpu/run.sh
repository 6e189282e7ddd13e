#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs everything that needs a GPU, on a machine with a GPU, Bash, Python 3 and a driver.
set -uo pipefail

usage() {
	cat <<'EOT'
usage: tests/gpu/run.sh [--build DIR] [--out FILE] [--logs FILE.tar.gz] [--only LIST] [--seconds N]
                        [--dir DIR] [--arch LIST] [--bench ARGS] [--torch ARGS]
                        [--dry-run | --pack DIR]

Measures first, then tests, each step with a time limit. One JSON object reports the machine, every
step, and the results next to their targets. It is written after each step and whenever the run
ends, so a run that is stopped leaves its results so far.

  --only LIST        steps, in this order (default: all):
    check            the GPU gathers the same rows as the CPU, for every mix of tiers
    table gather quantized launch baselines cold epoch
                     parts of rung_gpu_bench (cold includes its timeline)
    select           torch.index_select with the same tables, widths and batches
    torch            bench/gpu/torch_epoch.py: rung in a training process
    ncu              Nsight Compute of a gather, if ncu is found
    contract         the contract, loader and sampler tests on the device "cuda"
    processes        several processes on one store
    races            the race program
    command          rung bench --check with rows on the GPU, on the host and in the file
    sanitizer        compute-sanitizer on small cases, if it is found
    numa             rung numa --only gpu,peer
    bench            table gather quantized launch baselines cold epoch select
  --build DIR        a build of rung, or the output of --pack (default: this tree if it is one,
                     otherwise build-gpu, which is built first)
  --out FILE         for the JSON object (default: stdout, once, at the end)
  --logs FILE        for the output of all steps, a .tar.gz
  --seconds N        limit of the whole run (default: 570); steps without remaining time are skipped
  --dir DIR          for temporary files, 6 GiB (default: /dev/shm if it has room, otherwise $TMPDIR
                     or /var/tmp); use a disk to measure cold rows
  --arch LIST        CMAKE_CUDA_ARCHITECTURES of the build (default: this machine's GPUs, or without
                     one the project's default)
  --bench ARGS       options of rung_gpu_bench for the measurements, one word: "--size 4GiB"
  --torch ARGS       options of torch_epoch.py, one word: "--epochs 2"
  --dry-run          run nothing that needs a GPU: check that each program exists, starts, and
                     reports in one line that there is no GPU
  --pack DIR         copy a build with RUNG_STATIC_DEPS=ON to DIR, with the shared libraries except
                     the C and C++ runtimes, the Python package and these scripts, and stop. DIR
                     runs on another machine: DIR/tests/gpu/run.sh

Environment: PYTHON, the interpreter with torch (default: python3).
Exit: 0 all passed or were skipped, 1 something failed, 2 usage, 77 no GPU.
EOT
}

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
command_line="tests/gpu/run.sh $*"
build='' out='' logs='' only='' seconds=570 dir='' arch='' bench='' torch='' dry=no pack=''
while [ $# -gt 0 ]; do
	case $1 in
	--build | --out | --logs | --only | --seconds | --dir | --arch | --bench | --torch | --pack)
		[ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }
		printf -v "${1#--}" %s "$2"
		shift
		;;
	--dry-run) dry=yes ;;
	--help | -h) usage; exit 0 ;;
	*) echo "run.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
[[ -z $logs || $logs == /* ]] || logs=$PWD/$logs
case $seconds in
'' | *[!0-9]*) echo "run.sh: --seconds: invalid number '$seconds'" >&2; exit 2 ;;
esac
measured="table gather quantized launch baselines cold epoch select"
known=" check $measured torch ncu contract processes races command sanitizer numa bench "
for word in ${only//,/ }; do
	[[ $known == *" $word "* ]] || {
		echo "run.sh: --only: unknown step '$word'; see --help" >&2
		exit 2
	}
done
only=${only//,/ }
only=" ${only/bench/$measured} "

programs=(rung bench/rung_gpu_bench tests/stress_test_gather_race tests/contract tests/unit_loader)
scripts=(tests/gpu/run.sh tests/gpu/report.py
	bench/gpu/{index_select,torch_epoch}.py
	bench/gpu/parts/torch_{order,parts,run,train}.py)

# ---- building, packing ----

if [ -z "$build" ] && [ -x "$root/bench/rung_gpu_bench" ]; then
	build=$root   # a packed tree
fi
if [ -z "$build" ]; then
	build=$root/build-gpu
	if [ -z "$arch" ]; then
		arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
			sort -u | tr -d . | paste -sd';')
	fi
	# the trainer is not run, and OpenBLAS is large
	options=(-DRUNG_STATIC_DEPS=ON -DRUNG_CUDA=ON -DRUNG_BLAS=OFF)
	[ -z "$arch" ] || options+=("-DCMAKE_CUDA_ARCHITECTURES=$arch")
	targets=(rung_command rung_shared)
	for program in "${programs[@]:1}"; do targets+=("${program##*/}"); done
	{
		cmake -S "$root" -B "$build" "${options[@]}" &&
			cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}"
	} >&2 || exit 1
fi
build=$(cd "$build" && pwd) || exit 1
library=$build/librung.so

# The C and C++ runtimes are the other machine's: programs that were linked with an older runtime
# also work with a newer one, and a Python process must not get an older libstdc++ than its other
# modules need.
libraries_of() {
	ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
		grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so'
}

pack_file() {
	if [ ! -e "$build/$1" ]; then
		echo "run.sh: $build/$1 does not exist; it is not packed" >&2
		return 0
	fi
	mkdir -p "$pack/$(dirname "$1")" || return 1
	strip -o "$pack/$1" "$build/$1" 2>/dev/null || cp -L "$build/$1" "$pack/$1" || return 1
	libraries_of "$build/$1" | xargs -r cp -Lu -t "$pack/lib"
	[ "${PIPESTATUS[1]}" -eq 0 ]
}

if [ -n "$pack" ]; then
	# shellcheck disable=SC2016
	# LD_LIBRARY_PATH instead of RPATH would make the other machine's own programs load these
	# libraries, too
	if ! readelf -d "$build/rung" 2>/dev/null | grep -q 'RPATH.*\$ORIGIN/lib'; then
		echo "run.sh: $build was not built with -DRUNG_STATIC_DEPS=ON;" \
			"its programs would not find the libraries in $pack/lib" >&2
		exit 1
	fi
	mkdir -p "$pack/lib" "$pack/python" || exit 1
	for file in "${programs[@]}" librung.so; do
		pack_file "$file" || exit 1
	done
	for file in "${scripts[@]}"; do
		mkdir -p "$pack/$(dirname "$file")" && cp "$root/$file" "$pack/$file" || exit 1
	done
	cp -r "$root/python/rung" "$pack/python/" || exit 1
	mkdir -p "$pack/include" || exit 1
	cp -r "$root/include/rung" "$pack/include/" || exit 1   # read by the package
	rm -rf "$pack/python/rung/__pycache__"
	git -C "$root" describe --always --dirty 2>/dev/null >"$pack/COMMIT"
	du -sh "$pack" >&2
	exit 0
fi

# ---- steps ----

# Prefers memory, so that GPU measurements do not include a disk. The steps need 6 GiB of it.
if [ -z "$dir" ]; then
	dir=${TMPDIR:-/var/tmp}
	free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)
	[ "${free:-0}" -lt $((6 << 20)) ] || [ ! -w /dev/shm ] || dir=/dev/shm
fi
work=$(mktemp -d "$dir/rung-gpu-run-XXXXXX") || exit 1
steps=$work/steps.tsv
mkdir "$work/logs" || exit 1
: >"$steps"
running='' current=()

write_report() {
	"$python" -B "$here/report.py" --steps "$steps" --machine "$work/machine.json" \
		--root "$root" --command "$command_line" --dry-run "$dry" "$@"
}

# After SIGKILL the report of the last finished step remains.
snapshot() {
	[ -n "$out" ] && write_report --quiet >"$out.partial" 2>/dev/null &&
		mv "$out.partial" "$out"
}

finish() {
	local rc=$?
	trap '' INT TERM
	if [ -n "$running" ]; then
		kill -TERM "$running" 2>/dev/null   # timeout forwards it to the whole step
		record "${current[0]}" "${current[1]}" failed "$((SECONDS - current[2]))" \
			"the run was terminated" "${current[3]}" "${current[4]}"
		wait "$running" 2>/dev/null
	fi
	if [ -s "$steps" ]; then
		if [ -n "$out" ]; then
			write_report >"$out.partial"
			[ $? -eq 0 ] || [ $rc -ne 0 ] || rc=1
			mv "$out.partial" "$out"
		else
			write_report || [ $rc -ne 0 ] || rc=1
		fi
	fi
	[ -z "$logs" ] || (cd "$work" && "$python" -m tarfile -c "$logs" logs)   # needs no gzip
	rm -rf "$work"
	exit $rc
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
export TMPDIR=$work OMP_WAIT_POLICY=passive RUNG_LIBRARY=$library
export PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1

# record GROUP NAME STATE SECONDS REASON LOG COMMAND...
record() {
	local IFS=$'\t'
	printf '%s\n' "$*" >>"$steps"
	snapshot
}

tail_of() {
	grep -v '^[[:space:]]*$' "$1" | tail -n 1 | tr '\t' ' ' | cut -c1-300
}

# Skipped are: exit 77, a suite whose tests were all skipped, compute-sanitizer if the hypervisor
# blocks it, and ncu without permission to read the GPU's counters.
state_of() {
	case $1 in
	0) if grep -q 'Tested: 0 ' "$2"; then echo skipped; else echo passed; fi ;;
	77) echo skipped ;;
	*)
		if grep -qE 'Device not supported|ERR_NVGPUCTRPERM' "$2"; then
			echo skipped
		else
			echo failed
		fi
		;;
	esac
}

run_step() {
	local group=$1 name=$2 limit=$3 log=$work/logs/$2.log begun=$SECONDS rc reason='' what state
	shift 3
	what=${*//$build\//}
	current=("$group" "$name" "$begun" "$log" "$what")
	timeout --kill-after=10 "$limit" env "$@" >"$log" 2>&1 </dev/null &
	running=$!
	wait "$running" 2>/dev/null
	rc=$?
	running=''
	state=$(state_of $rc "$log")
	case $rc in
	0) ;;
	124 | 137) reason="ended after $limit s" ;;
	*) reason="exit $rc: $(tail_of "$log")" ;;
	esac
	record "$group" "$name" "$state" $((SECONDS - begun)) "$reason" "$log" "$what"
	printf '%-9s %-42s %4s s  %s\n' "$state" "$name" $((SECONDS - begun)) "$reason" >&2
	return $rc
}

skip_step() {
	record "$1" "$2" skipped 0 "$3" '' "${*:4}"
	printf '%-9s %-42s %s\n' skipped "$2" "$3" >&2
}

wanted() {
	[ "$only" = "  " ] || [[ $only == *" $1 "* ]]
}

# step GROUP NAME LIMIT [VARIABLE=VALUE]... PROGRAM [ARGUMENT]...
step() {
	local group=$1 name=$2 limit=$3 left=$((seconds - SECONDS)) word
	shift 3
	wanted "$group" || return 0
	for word in "$@"; do
		if [[ $word == "$build"/* && ! -x $word ]]; then
			skip_step "$group" "$name" "${word#"$build"/} is not built" \
				"${*//$build\//}"
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

started() {
	record start "$1" "$2" 0 "$3" '' "$1"
	printf '%-9s %-42s %s\n' "$2" "$1" "$3" >&2
}

# For a dry run: the program exists, starts, and reports a missing GPU.
check_start() {
	local program=$1 log=$work/logs/start.log rc line
	if [ ! -x "$build/$program" ]; then
		started "$program" failed "it is not built"
		return
	fi
	{ case $program in
	rung) timeout 60 "$build/$program" --version >"$log" 2>&1 </dev/null ;;
	*/rung_gpu_bench)
		timeout 60 env CUDA_VISIBLE_DEVICES= "$build/$program" >"$log" 2>&1 </dev/null
		;;
	*)
		# the arguments are for the tests with Criterion
		timeout 60 env CUDA_VISIBLE_DEVICES= RUNG_TEST_DEVICE=cuda-host "$build/$program" \
			--filter '@(store|loader)/*' >"$log" 2>&1 </dev/null
		;;
	esac; } 2>/dev/null   # hides the shell's messages about aborts
	rc=$?
	line=$(grep -m 1 -E 'cuda: looking for GPUs|no GPU' "$log" | cut -c1-300)
	case $program in
	rung) [ $rc -eq 0 ] && line="starts" || line='' ;;
	*/rung_gpu_bench) [ $rc -eq 77 ] && [ "$(wc -l <"$log")" -eq 1 ] || line='' ;;
	*) [ $rc -ne 0 ] || line='' ;;   # a test that passes without a GPU tests nothing
	esac
	if [ -n "$line" ]; then
		started "$program" passed "$line"
	else
		started "$program" failed "exit $rc: $(tail_of "$log")"
	fi
}

# check_script NAME COMMAND...: checks that it starts.
check_script() {
	local name=$1 log=$work/logs/start.log
	shift
	if timeout 60 "$@" >"$log" 2>&1 </dev/null; then
		started "$name" passed starts
	else
		started "$name" failed "exit $?: $(tail_of "$log")"
	fi
}

# find_tool NAME PLACE...: on PATH, otherwise the last PLACE that exists.
find_tool() {
	local name=$1 place found
	found=$(command -v "$name") || for place in "${@:2}"; do
		[ ! -x "$place" ] || found=$place
	done
	printf %s "$found"
}

sites=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)
cuda_home=${CUDA_HOME:-/usr/local/cuda}
sanitizer=$(find_tool compute-sanitizer \
	"${CONDA_PREFIX:-/opt/conda}"/{bin,compute-sanitizer}/compute-sanitizer \
	"$sites"/nvidia/*/{bin,compute-sanitizer}/compute-sanitizer \
	/opt/nvidia/*/compute-sanitizer /opt/nvidia/*/*/compute-sanitizer \
	/usr/local/cuda*/{bin,compute-sanitizer,extras/compute-sanitizer}/compute-sanitizer \
	"$cuda_home"/{bin,compute-sanitizer}/compute-sanitizer)
ncu=$(find_tool ncu "${CONDA_PREFIX:-/opt/conda}"/bin/ncu /opt/nvidia/nsight-compute/*/ncu \
	/usr/local/cuda*/nsight-compute*/ncu /usr/local/cuda*/bin/ncu "$cuda_home"/bin/ncu)

program=$build/bench/rung_gpu_bench
read -r -a bench_args <<<"$bench"
read -r -a torch_args <<<"$torch"
small=(--size 4MiB --batch-bytes 64KiB --link-bytes 64KiB --row-bytes 512 --dir "$work")

if [ $dry = yes ]; then
	for name in "${programs[@]}"; do check_start "$name"; done
	check_script librung.so "$python" -c \
		'import ctypes, sys; ctypes.CDLL(sys.argv[1]).rung_version' "$library"
	for name in bench/gpu/{index_select,torch_epoch}.py; do
		check_script "$name" "$python" -B "$root/$name" --help
	done
	for name in compute-sanitizer ncu; do
		place=$ncu
		[ $name = ncu ] || place=$sanitizer
		if [ -n "$place" ]; then
			started $name passed "$place"
		else
			started $name skipped "$name was not found: not on PATH, not next to CUDA"
		fi
	done
else
	# without a working GPU every other step would only report the same
	run_step start first_launch $((seconds < 60 ? seconds : 60)) "$program" --only launch \
		--batches 32 "${small[@]}"
	rc=$?
	[ $rc -eq 0 ] || [ $rc -eq 77 ] || rc=1
	[ $rc -eq 0 ] || exit $rc
fi

# ---- measurements ----

step check rows_equal_the_cpus 90 "$program" --only check --size 64MiB --batch-bytes 8MiB \
	--link-bytes 8MiB --row-bytes 512,4096 --dir "$work"
for part in table gather quantized launch baselines cold,timeline epoch; do
	limit=60
	[ $part != gather ] || limit=150
	[ $part != cold,timeline ] || limit=120
	step "${part%%,*}" "bench_${part%%,*}" $limit "$program" --only "$part" --dir "$work" \
		"${bench_args[@]}"
done
step select bench_index_select 90 "$python" -B "$root/bench/gpu/index_select.py"
step torch torch_epoch 330 "$python" -B "$root/bench/gpu/torch_epoch.py" --rung "$build/rung" \
	--dir "$work" "${torch_args[@]}"
if [ -n "$ncu" ] || [ $dry = yes ]; then
	# gathers of a store: under ncu each launch ends before the next, so a held stream would
	# never be released
	step ncu ncu_gather 90 "${ncu:-ncu}" --clock-control none --kernel-name regex:gather \
		--launch-skip 4 --launch-count 3 --set full --force-overwrite \
		--export "$work/logs/gather" "$program" --only gather --row-bytes 1024 \
		--size 512MiB --batch-bytes 256MiB --dir "$work"
	step ncu ncu_details 30 "${ncu:-ncu}" --import "$work/logs/gather.ncu-rep" --page details
elif wanted ncu; then
	skip_step ncu ncu_gather "ncu was not found: not on PATH, not next to CUDA"
fi

# ---- tests ----

tests=$build/tests
# suite SUITE DEVICE [GROUP [NAME [VARIABLE...]]]: tests that may behave differently on a real GPU
# than on a simulated one
suite() {
	local program=contract
	[ "$1" != loader ] || program=unit_loader
	step "${3:-contract}" "${4:-test_$1-$2}" 90 RUNG_TEST_DEVICE="$2" "${@:5}" \
		"$tests/$program" --jobs 1 --verbose --filter "$1/*"
}
suite store cuda-peer
suite loader cuda-gpu
suite loader cuda-gpu contract test_loader-sample_on_gpu RUNG_TEST_SAMPLE_ON=gpu
suite store_cache cuda-gpu
suite gpu_sampler cuda-gpu
suite store_faults cuda-gpu
suite store_timeouts cuda-host
suite store_quantized cuda-peer
suite store_quantized cuda-gpu
suite share_gpu cuda-peer processes
suite share_gpu cuda-gpu processes
step races stress_test_gather_race 60 RUNG_TEST_DEVICE=cuda-peer "$tests/stress_test_gather_race"

# 64 MiB of random bytes; the graph has one edge and only gives the rows an order.
make_dataset() {
	head -c $((64 << 20)) /dev/urandom >"$work/rows" &&
		printf '\1\0\0\0\2\0\0\0' >"$work/edge" &&
		timeout 60 "$build/rung" stage --quiet --graph "raw:$work/edge,u32,2x1" \
			--vertices 65536 --features "raw:$work/rows,u8,65536x1024" --score degree \
			--out "$work/data"
}
if wanted command && [ $dry = no ]; then
	make_dataset >"$work/logs/stage.log" 2>&1 || tail_of "$work/logs/stage.log" >&2
fi
for share in 100% 30% 0; do
	step command "rung_bench_check_gpu_${share%\%}" 60 "$build/rung" bench "$work/data" \
		--device cuda --gpu "$share" --host 40% --check --ids uniform --rows 262144 --json
done

if [ -n "$sanitizer" ] || [ $dry = yes ]; then
	sanitizer=${sanitizer:-compute-sanitizer}
	sampler=(--target-processes all "$tests/contract" --jobs 1 --filter
		gpu_sampler/batches_match_the_cpu_and_their_rows_follow)
	for tool in memcheck initcheck; do
		step sanitizer $tool 90 "$sanitizer" --tool $tool --error-exitcode 9 "$program" \
			--only check --check-rows 200 "${small[@]}"
	done
	for tool in memcheck racecheck; do   # only the sampler's kernels use shared memory
		step sanitizer sampler_$tool 60 RUNG_TEST_DEVICE=cuda-gpu "$sanitizer" \
			--tool $tool --error-exitcode 9 "${sampler[@]}"
	done
elif wanted sanitizer; then
	skip_step sanitizer memcheck \
		"compute-sanitizer was not found: not on PATH, not next to CUDA"
fi
# shorter measurements than by default, since many GPUs have many pairs
step numa numa_gpu_peer 150 "$build/rung" numa --only gpu,peer --seconds 0.05 --json --quiet
exit 0
