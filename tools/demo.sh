#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 machine to a GraphSAGE model that is trained on a real graph, whose features
# do not fit in the memory they are given: installs packages, builds rung, writes the graph of the
# Debian package archive, stages it, and trains on it with and without edges.
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

options=(--host 10% --hidden 128 --epochs 8 --lr 0.01 --dropout 0.3 --input-dropout 0.2 --seed 1)
step "train: rung train $dir/debian.rung ${options[*]}"
"$rung" train "$dir/debian.rung" "${options[@]}" | tee "$dir/train.txt"

step "train the same model without edges"
"$rung" train "$dir/debian.rung" "${options[@]}" --no-edges | tee "$dir/train-no-edges.txt"

# value FILE LABEL: the percentage that follows a label of the summary
value() {
	awk -v label="$2" 'index($0, label) == 1 { sub(label, ""); print $1; exit }' "$1"
}

step "done"
printf '%-34s %8s %%\n' \
	"test accuracy, GraphSAGE" "$(value "$dir/train.txt" "test accuracy")" \
	"test accuracy, without edges" "$(value "$dir/train-no-edges.txt" "test accuracy")" \
	"the most frequent section" "$(value "$dir/train.txt" "majority class")"
echo
echo "rows of the model with edges, by tier:"
sed -n '/^tier /,$p' "$dir/train.txt"
printf '\n%d s in all. Next: %s --help\n' "$SECONDS" "$rung"
