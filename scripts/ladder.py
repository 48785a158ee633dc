#!/usr/bin/env python3
"""Runs every study of experiments/ and prints one table of their results. Exits with 1 unless all results hold.

Each program's output goes to OUT/NN_name/output.txt, in the same folder as its pictures and results.json."""

import argparse
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def number(value):
    """Formats a number. JSON has null for one that isn't finite."""
    return "not finite" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def run(name, program, out, flags):
    """Runs a study. Returns the parsed results.json. Returns None if the file is missing or the exit code doesn't match
    it: 0 if all results hold, otherwise 1."""
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.json"
    results.unlink(missing_ok=True)  # an older run's results must not be reported
    start = time.monotonic()
    with open(out / "output.txt", "w") as output:
        code = subprocess.run([program, "--out", out, *flags], stdout=output, stderr=subprocess.STDOUT).returncode
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    if not results.exists():
        print(f"{name}: exit code {code} and no results; its output is in {out / 'output.txt'}")
        return None
    found = json.loads(results.read_text())
    if code != (0 if all(result["holds"] for result in found["results"]) else 1):
        print(f"{name}: exit code {code} does not fit its results; its output is in {out / 'output.txt'}")
        return None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="studies to run (default: all), as 03_debugging")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="the build folder")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs" / "experiments", help="where results go")
    parser.add_argument("--short", action="store_true", help="one seed and reduced grids: minutes for all of them")
    parser.add_argument("--results", type=pathlib.Path, metavar="DIR",
                        help="run nothing: print the table of DIR/NN_name/results.json")
    options = parser.parse_args()

    studies = ["growing", *sorted(folder.parent.name
                                  for folder in (ROOT / "experiments").glob("[0-9][0-9]_*/main.cpp"))]
    unknown = [name for name in options.names if name not in studies]
    if unknown:
        parser.error(f"there is no study {', '.join(unknown)}; there are {', '.join(studies)}")
    rows, broken, failed = [], [], 0
    for name in options.names or studies:
        program = options.build / "experiments" / name
        if options.results:
            file = options.results / name / "results.json"
            found = json.loads(file.read_text()) if file.exists() else None
        elif program.exists():
            found = run(name, program, options.out / name, ["--short"] if options.short else [])
        else:
            sys.exit(f"{program} is not built; run: cmake --build {options.build} --target experiments")
        if found is None:
            broken.append(name)
            continue
        for result in found["results"]:
            failed += not result["holds"]
            rows.append((name, result["text"], f"{number(result['measured'])} {result['relation']} "
                         f"{number(result['limit'])}", "holds" if result["holds"] else "FAILS"))

    table = [("study", "result", "measured, limit", ""), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(3)]
    print()
    for row in table:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip())
    print(f"\n{len(rows) - failed} of {len(rows)} results hold" +
          (f"; no results from {', '.join(broken)}" if broken else ""))
    return 1 if failed or broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
