#!/usr/bin/env bash
# Prints the clang++ for building fuzz targets: the oldest version from 16 on that has libFuzzer.
for version in $(seq 16 30) ""; do
  clang=$(command -v "clang++${version:+-$version}") || continue
  [ "$("$clang" -dumpversion | cut -d. -f1)" -ge 16 ] || continue
  compgen -G "$("$clang" -print-resource-dir)/lib/*/libclang_rt.fuzzer*.a" >/dev/null || continue
  echo "$clang"
  exit 0
done
exit 1
