#!/usr/bin/env bash
# Tests the serving half for 64-bit Arm in QEMU, and compares its files and outputs with those of this machine's build.
# tests/neon/run.sh ARM_BUILD THIS_BUILD     run by `make neon` after both builds; stops at the first failure
set -euo pipefail
arm=$(realpath "$1") here=$(realpath "$2")
cd "$(dirname "$0")/../.."
golden=tests/golden/shakespeare_48
out=$(mktemp -d)
trap 'status=$?; [ $status -eq 0 ] || cat "$out/log" >&2; rm -rf "$out"; exit $status' EXIT
touch "$out/log"

# Processors without dot products, with them, and with all that QEMU emulates; and each one's instruction sets.
cpus=(cortex-a72 neoverse-n1 max)
declare -A isas=([cortex-a72]="reference" [neoverse-n1]="reference, neon" [max]="reference, neon, neoni8mm")

emulate() {
  local cpu=$1
  shift
  qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu "$cpu" "$@"
}
fail() { printf '%s\n' "$*" >&2; exit 1; }
begin() { printf '%4d s  %s\n' $SECONDS "$*"; }

for cpu in "${cpus[@]}"; do
  begin "$cpu: ${isas[$cpu]}"
  said=$(FOLIO_ISA=none emulate "$cpu" "$arm/generate" -m $golden x 2>&1) && fail "FOLIO_ISA=none was accepted"
  case $said in
    *"which has: ${isas[$cpu]}") ;;
    *) fail "$cpu should have ${isas[$cpu]}: $said" ;;
  esac
done

# Compares each instruction set's kernels with the reference on a processor without newer instructions, and runs the
# engine's tests on the best set, on a CPU and on two shards. Left out: the other machines, the scheduler and the
# sampler, which have no code for a processor, and the widest model, which takes minutes.
tests() {
  emulate "$1" "$arm/tests/$2" --gtest_brief=1 --gtest_filter="${3:-*}" | tee "$out/log"
  grep -q 'PASSED.* [1-9][0-9]* tests' "$out/log" || fail "$2 has no tests named $3"
}
for program in test_core test_data test_threads; do  # QEMU doesn't limit memory, so all threads could be started
  begin "max: $program"
  tests max $program '-*.AThreadThatCannotBeStarted*'
done
begin "max: test_infer"
tests max test_infer 'Isa/*/neoni8mm:Machines/*/cpu*:Machines/*/two_shards:Cases/*_on_cpu*:Cases/*_on_two_shards-*cuda*:*/wide_*'
begin "neoverse-n1: test_infer, kernels"
tests neoverse-n1 test_infer 'Isa/*/neon'

# Compares exported files byte by byte, and outputs, greedy and sampled.
exported() {  # exported MODEL OPTION...: writes $out/model.gguf
  "$here/export" "$@" --out "$out/model.gguf" >"$out/log"
  emulate max "$arm/export" "$@" --out "$out/arm.gguf" >"$out/log"
  cmp "$out/model.gguf" "$out/arm.gguf"
}
same_texts() {  # same_texts MODEL TOKENS PROMPTS: each processor with its best set, the host also with the reference
  texts() {
    "$@" --temp 0
    "$@" --temp 0.8 --seed 7
  }
  local options=(-m "$1" --max-tokens "$2" --prompts "$3")
  texts "$here/generate" "${options[@]}" >"$out/expected" 2>"$out/log"
  FOLIO_ISA=reference texts "$here/generate" "${options[@]}" 2>"$out/log" | cmp - "$out/expected"
  local cpu
  for cpu in "${cpus[@]}"; do
    texts emulate "$cpu" "$arm/generate" "${options[@]}" 2>"$out/log" | cmp - "$out/expected"
  done
}
printf '%s\n' 'ROMEO:' 'First Citizen:' 'O' >"$out/plays"
begin "texts: $golden"
same_texts $golden 100 "$out/plays"
for type in f32 f16 bf16; do
  begin "files and texts: $type"
  exported $golden --type $type
  same_texts "$out/model.gguf" 100 "$out/plays"
done
printf '%s\n' 'The capital of France is' 'Once' >"$out/lines"
for type in q4_1 q8_0 q4_0; do
  begin "files and texts: two layers of SmolLM2 in $type"
  exported data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --layers 2 --type $type
  same_texts "$out/model.gguf" 4 "$out/lines"
done
begin "text: SmolLM2"
text() { "$@" -m data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --temp 0 --max-tokens 12 "The capital of France is" 2>"$out/log"; }
text "$here/generate" >"$out/expected"
text emulate max "$arm/generate" | cmp - "$out/expected"
begin "done"
