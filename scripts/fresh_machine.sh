#!/usr/bin/env bash
# Measures a first installation: clones the committed tree into a new folder, runs `make demo` twice and `make test` with
# an empty HOME and no compiler cache, and prints the minutes and the slowest 15 build steps and tests.
#
#   scripts/fresh_machine.sh [--demo] [FOLDER]     --demo: without make test; default FOLDER: a new one under /tmp
#
# Run it on an idle machine. System packages that are already installed are not reinstalled.
set -euo pipefail
what="demo test"
[ "${1:-}" != --demo ] || { what=demo; shift; }
[[ ${1:-} != -* ]] || { echo "fresh_machine: unknown option $1; the only one is --demo" >&2; exit 2; }
folder=$(realpath -m "${1:-$(mktemp -d)}")
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
[ ! -e "$folder/folio" ] || { echo "fresh_machine: $folder/folio exists; name another folder" >&2; exit 1; }
mkdir -p "$folder/home"
git clone --quiet --no-hardlinks "$root" "$folder/folio"
cd "$folder/folio"

failed=0
# timed NAME COMMAND...: runs a command with output to FOLDER/NAME.log, and prints its duration and exit code.
timed() {
  local name=$1 start code=0
  shift
  start=$(date +%s.%N)
  env -u CI -u CMAKE_PREFIX_PATH -u Torch_DIR HOME="$folder/home" CCACHE_DISABLE=1 "$@" >"$folder/$name.log" 2>&1 </dev/null || code=$?
  awk -v from="$start" -v to="$(date +%s.%N)" -v name="$name" -v code="$code" -v output="$folder/$name.log" 'BEGIN {
    s = to - from; printf "%-18s %2d:%04.1f  exit code %d, output in %s\n", name, s / 60, s % 60, code, output }'
  [ "$code" -eq 0 ] || failed=1
}

for goal in $what; do
  timed "make-$goal" make "$goal"
  [ "$goal" != demo ] || timed make-demo-again make demo
done

printf '\nslowest build steps, seconds:\n'
awk 'NR > 1 {printf "%8.1f  %s\n", ($2 - $1) / 1000, $4}' build/.ninja_log | sort -rn | head -n 15 || true
costs=build/Testing/Temporary/CTestCostData.txt
if [ -e $costs ]; then
  printf '\nslowest tests, seconds:\n'
  awk 'NF == 3 {printf "%8.1f  %s\n", $3, $1}' $costs | sort -rn | head -n 15 || true
fi
exit $failed
