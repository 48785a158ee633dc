#!/usr/bin/env bash
# Runs fuzz targets one after another and prints a line for each: tests/fuzz/run.sh BUILD_DIR RUNS [TARGET...]
# Findings and logs stay in BUILD_DIR/fuzz; the next run starts from its corpus.
set -uo pipefail
build=$(realpath "$1") runs=$2
cd "$(dirname "$0")"
shift 2
[ $# -gt 0 ] || set -- $(cd "$build/fuzz" && ls -d fuzz_* | sed 's/fuzz_//')
# Doubles the inputs per second; `make sanitize` runs the tests with the checks that are disabled here.
export ASAN_OPTIONS=malloc_context_size=4:quarantine_size_mb=16:detect_stack_use_after_return=0
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm  # in memory: a target writes a file for each input
declare -A max_len=([gguf]=16384 [gguf_adapter]=8192 [llama2c]=8192 [tokenizer_bin]=8192 [tokenizer_gguf]=16384 [tokenizer_json]=16384)
failed=0
for target in "$@"; do
  out=$build/fuzz/out/$target
  mkdir -p "$out/corpus" "$out/findings"
  options=(-runs="$runs" -max_len="${max_len[$target]:-4096}" -timeout=120 -rss_limit_mb=2048 -malloc_limit_mb=256
           -artifact_prefix="$out/findings/" -print_final_stats=1)
  case $target in
    adapter|api|hf_*|json|safetensors|tokenizer_json) options+=(-dict="$build/fuzz/seeds/json.dict") ;;
    http) options+=(-dict="$build/fuzz/seeds/http.dict") ;;
  esac
  folders=("$out/corpus" "$build/fuzz/seeds/$target")
  [ -d "regressions/$target" ] && folders+=("regressions/$target")
  SECONDS=0
  if "$build/fuzz/fuzz_$target" "${options[@]}" "${folders[@]}" >"$out/log" 2>&1; then verdict=clean; else verdict=FINDING failed=1; fi
  awk -v target="$target" -v verdict="$verdict" -v seconds="$SECONDS" '
    / cov: / {for (i = 1; i < NF; ++i) if ($i == "cov:") cov = $(i + 1); else if ($i == "ft:") ft = $(i + 1)}
    /number_of_executed_units/ {n = $2}
    END {printf "%-15s %-8s %8d inputs %5d s %6d/s   %5d edges %6d features\n", target, verdict, n, seconds, n / (seconds ? seconds : 1), cov, ft}' "$out/log"
  [ $verdict = clean ] || tail -n 30 "$out/log"
done
exit $failed
