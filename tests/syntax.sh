#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A compiler launcher (CMAKE_C_COMPILER_LAUNCHER) that checks a source without compiling it: it
# creates an empty object, so that a later build repeats only what has changed.
"$@" -fsyntax-only  || exit
while [ $# -gt 1 ]; do
	[ "$1" != -o ] || : >"$2"
	shift
done
