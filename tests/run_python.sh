# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The tests of the Python package and of wheels, with packages from pip's index. Sourced by
# tests/run.sh, in the top folder, whose lists of results and number of jobs it uses.
# shellcheck disable=SC2154   # jobs

# install ENVIRONMENT EXTRAS: what the extras of pyproject.toml name, and the package in this tree,
# in build-python/. The file `ready` marks it as complete.
install() {
	local folder=build-python/$1 pip packages
	[ ! -f "$folder/ready" ] || return 0
	pip=("$folder/bin/python" -m pip --disable-pip-version-check install)
	[ -x "$folder/bin/python" ] || python3 -m venv "$folder" || return
	mapfile -t packages < <("$folder/bin/python" -c 'import sys, tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
for name in sys.argv[1].split(","):
    print("pytest", "pytest-xdist", *extras[name], sep="\n")' "$2") || return
	timeout 900 "${pip[@]}" "${packages[@]}" || return
	echo "$PWD/python" >"$(echo "$folder"/lib/python3*/site-packages)/rung.pth"
	touch "$folder/ready"
}

# Downloads are slow, so they run in the background of the default build and its tests. The last
# version of GraphBolt in PyPI needs torch 2.2 or older.
begin_python() {
	mkdir -p build-python
	set -m   # a process group, so that its children can be stopped, too
	{
		for name in "$@"; do
			case $name in
			venv)
				install venv pyg,progress,dev
				# for gpu/test_sass, 6 MB; some toolkits lack them
				timeout 120 build-python/venv/bin/python -m pip install -q \
					nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
				;;
			graphbolt) install graphbolt graphbolt ;;
			esac >"build-python/$name.log" 2>&1 || true
		done
	} &
	installing=$!
	set +m
	trap 'kill -- -$installing 2>/dev/null || true' EXIT
	trap 'exit 130' INT TERM
}

# python_tests ENVIRONMENT WHAT FILE...: run tests in an environment of begin_python()
python_tests() {
	local folder=build-python/$1 what=$2 start=$SECONDS variables
	shift 2
	printf '\n== %s: %s\n' "$folder" "$what"
	variables=(RUNG="$PWD/build/rung" RUNG_SIM_LIBRARY="$PWD/build/tests/librung_sim.so")
	[ "$folder" = build-python/wheel ] || variables+=(RUNG_LIBRARY="$PWD/build/librung.so")
	if [ ! -f "$folder/ready" ]; then
		tail -n 5 "$folder.log" || true
		skipped+=("$folder: $what: the installation failed or timed out; see $folder.log")
	elif env -u PYTHONPATH -u RUNG_LIBRARY OMP_WAIT_POLICY=passive "${variables[@]}" \
		"$folder/bin/python" -B -m pytest -p no:cacheprovider -q -rs \
		-o faulthandler_timeout=600 --numprocesses "$jobs" --dist worksteal "$@"; then
		passed+=("$folder: $what, $((SECONDS - start)) s")
	else
		failed+=("$folder: $what, $((SECONDS - start)) s")
	fi
}

# Tests without torch, or with the stand-in for it, have passed in build/.
torch_tests() {
	grep -lr --include='test_*.py' --exclude-dir=typed torch python/tests |
		xargs grep -L '"standin"'
}

check_torch() {
	local files
	mapfile -t files < <(torch_tests)
	python_tests venv "Python with torch and PyG" "${files[@]}"
	python_tests venv "ruff, mypy and pyright" python/tests/typed
}

check_graphbolt() {
	python_tests graphbolt "Python with torch 2.2 and GraphBolt" python/tests/peers \
		python/tests/loader/test_{graphbolt,loader}.py python/tests/test_{arrays,gather}.py
}

# ---- wheels --------------------------------------------------------------------------------------
# build_wheel ARCH: auditwheel's verdict is printed, and a bad one fails.
build_wheel() {
	local log=build-python/wheel-$1.log status=0 start=$SECONDS what
	printf '\n== build-wheel/%s: the wheel\n' "$1"
	mkdir -p build-python
	rm -f build-wheel/rung-*_"$1".whl
	tools/wheel.sh --arch "$1" --jobs "$jobs" >"$log" 2>&1 || status=$?
	what="build-wheel/$1: the wheel, $((SECONDS - start)) s"
	tail -n 12 "$log"
	case $status in
	0) passed+=("$what") ;;
	3) skipped+=("$what: a download failed; see $log"); return 1 ;;
	4) skipped+=("$what: not possible here; see $log"); return 1 ;;
	*) failed+=("$what; see $log, which ends:"$'\n'"$(tail -n 8 "$log")"); return 1 ;;
	esac
}

# The wheel next to torch: both bring an OpenMP runtime. test_layout checks its library.
check_wheel() {
	local folder=build-python/wheel packages
	build_wheel x86_64 || return 0
	rm -rf "$folder"
	packages=$(echo "$PWD"/build-python/venv/lib/python3*/site-packages)
	if [ -f build-python/venv/ready ] && python3 -m venv "$folder" &&
		"$folder/bin/python" -m pip --disable-pip-version-check install --no-deps \
			build-wheel/rung-*_x86_64.whl; then
		echo "$packages" >"$(echo "$folder"/lib/python3*/site-packages)/torch.pth"
		touch "$folder/ready"
	fi >"$folder.log" 2>&1
	mapfile -t files < <(torch_tests)
	python_tests wheel "the wheel with torch and PyG" python/tests/test_layout.py "${files[@]}"
	[ ! -f build-wheel/x86_64/build/kernels/gather.cu.o ] || check_sass
}

# The machine code for each architecture; the default build has two.
check_sass() {
	local what="build-wheel/x86_64: the kernels' machine code"
	printf '\n== %s\n' "$what"
	if RUNG_SOURCE_DIR=$PWD RUNG_BUILD_DIR=$PWD/build-wheel/x86_64/build \
		RUNG_NVCC=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc) \
		python3 -B tests/gpu/test_sass.py; then
		passed+=("$what")
	else
		failed+=("$what")
	fi
}

check_wheels() {
	local tool
	check_wheel
	for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
		command -v $tool >/dev/null && continue
		skipped+=("build-wheel/aarch64: the wheel and its tests: $tool was not found")
		return
	done
	build_wheel aarch64 || return 0
	RUNG_OTHER=$PWD/build/rung build aarch64
}

