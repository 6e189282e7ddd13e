#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 machine to a GraphSAGE model that is trained on a real graph, whose features
# do not fit in the memory they are given: installs packages, builds rung, writes the graph of the
# Debian package archive, stages it, and trains on it: with a tenth of the features in memory, with
# all of them, which must give the same losses, and without edges.
set -euo pipefail

usage() {
	cat <<'TEXT'
Usage: tools/demo.sh [--no-install | --install-only] [--dir DIR] [--build DIR]

  --no-install    use the installed packages
  --install-only  install packages and package lists, then stop
  --dir DIR       folder for the dataset (default: demo/ in the checkout); an older dataset in it
                  is replaced
  --build DIR     folder to build rung in (default: build/ in the checkout)
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/packages.sh
. "$root/tools/packages.sh"

install=1
install_only=0
dir=$root/demo
build=$root/build
while [ $# -gt 0 ]; do
	case $1 in
	--no-install) install=0 ;;
	--install-only) install_only=1 ;;
	--dir | --build)
		if [ $# -lt 2 ]; then
			echo "demo.sh: $1 needs a folder" >&2
			exit 2
		fi
		if [ "$1" = --dir ]; then dir=$2; else build=$2; fi
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
	shift
done
if [ "$install_only" -eq 1 ] && [ "$install" -eq 0 ]; then
	echo "demo.sh: --install-only and --no-install exclude each other" >&2
	exit 2
fi

step() {
	printf '\n== [%3d s] %s\n' "$SECONDS" "$*"
}

# The text of the archive is part of the package lists, which container images often lack. Only one
# byte is read, because the whole text is large.
have_archive() {
	[ "$(apt-cache dumpavail 2>/dev/null | head -c 1 | wc -c)" -eq 1 ]
}

if [ "$install" -eq 1 ]; then
	step "packages"
	rung_install "${RUNG_PACKAGES_BUILD[@]}"
	have_archive || rung_update_lists
fi
if ! have_archive; then
	echo "demo.sh: apt-cache dumpavail is empty; run 'apt-get update' as root, then retry" >&2
	exit 1
fi
if [ "$install_only" -eq 1 ]; then
	exit 0
fi

step "build in $build"
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DRUNG_BLAS=ON
cmake --build "$build" --parallel "$(nproc)" --target rung_command
rung=$build/rung
# waiting threads sleep: they share the cores with the thread that reads rows
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

step "the graph of the package archive"
mkdir -p "$dir"
python3 "$root/tools/debian_graph.py" "$dir/debian" --force

step "stage"
"$rung" stage --graph "$dir/debian/edges.npy" --undirected \
	--features "$dir/debian/features.npy" --labels "$dir/debian/labels.npy" \
	--split train="$dir/debian/train.npy" --split valid="$dir/debian/valid.npy" \
	--split test="$dir/debian/test.npy" \
	--out "$dir/debian.rung" --force

step "plan: a tenth of the features in memory"
"$rung" plan "$dir/debian.rung" --host 10%

options=(--hidden 128 --epochs 8 --lr 0.01 --dropout 0.3 --input-dropout 0.2 --seed 1)

# train NAME OPTION...: the result is in NAME.json, the progress on stderr
train() {
	step "train: rung train $dir/debian.rung ${options[*]} ${*:2}"
	"$rung" train "$dir/debian.rung" "${options[@]}" "${@:2}" --json >"$dir/$1.json"
}

train part --host 10%
train all --host max
train no-edges --host max --no-edges

step "done"
python3 "$root/tools/demo_report.py" "$dir/part.json" "$dir/all.json" \
	"$dir/no-edges.json" "10 %"
printf '\n%d s in all; rung is %s\n' "$SECONDS" "$rung"
