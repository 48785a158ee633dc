#!/usr/bin/env python3
"""Measures decode time per token against context length for each cache type, as a table and a picture.

Usage: scripts/bench_cache.py MODEL TEXT [--contexts 500 1000 2000 4000 7400] [--types f32 f16 q8_0] [--rounds 3]
       [--tokens 33] [--threads 2] [--svg FILE] [--max-seconds N]

Each run of build/generate uses the beginning of TEXT as a prompt and decodes greedily. Types alternate within a round.
A line is fitted to the medians of each type. Its slope is the time per position; the bytes per position divided by the
slope are the read bandwidth of the cache. --svg also saves the rounds (FILE.json) and resumes from them. --max-seconds
stops early, so that measurements can be split over several runs."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from serve_picture import picture_of_lines

BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", pathlib.Path(__file__).resolve().parents[1] / "build"))


def run(model, text, positions, cache_type, arguments):
    """Returns the mean number of cached positions and the milliseconds per token after the first."""
    command = [BUILD / "generate", "-m", model, "--json", "--temp", "0", "-n", str(arguments.tokens), "-t",
               str(arguments.threads), "--cache-type", cache_type, "-p", text[:int(positions * arguments.bytes_a_token)]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    result = json.loads(done.stdout)
    made = len(result["tokens"])
    if made < arguments.tokens:
        raise SystemExit(f"the text ended after {made} tokens at {positions} positions; take another one")
    return len(result["prompt_tokens"]) + made / 2, 1000 / result["decode_tokens_per_s"]


def fitted(points):
    """Returns slope and intercept of the least-squares line through (x, y)."""
    mean_x, mean_y = (statistics.mean(v) for v in zip(*points))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return slope, mean_y - slope * mean_x


def bytes_of_position(model, cache_type):
    """Returns the cache's bytes per position, all layers together, from the configuration that inspect prints."""
    lines = subprocess.run([BUILD / "inspect", model], capture_output=True, check=True, text=True).stdout.splitlines()
    config = dict(line.split()[:2] for line in lines if len(line.split()) == 2)
    layers, heads, width = (int(config[name]) for name in ("n_layers", "n_kv_heads", "head_dim"))
    return 2 * layers * heads * {"f32": 4 * width, "f16": 2 * width, "q8_0": width + 2 * -(-width // 32)}[cache_type]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--contexts", type=int, nargs="+", default=[500, 1000, 2000, 4000, 7400])
    parser.add_argument("--types", nargs="+", default=["f32", "f16", "q8_0"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=33)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--max-seconds", type=float, default=1e9)
    a = parser.parse_args()
    text = a.text.read_text()
    a.bytes_a_token = 1
    encoded = subprocess.run([BUILD / "generate", "-m", a.model, "--json", "-n", "1", "--temp", "0", "-p", text[:2000]],
                             capture_output=True, check=True).stdout
    a.bytes_a_token = 2000 / len(json.loads(encoded)["prompt_tokens"])

    kept = a.svg and a.svg.with_suffix(".json")
    runs = json.loads(kept.read_text()) if kept and kept.exists() else []
    end = time.monotonic() + a.max_seconds
    todo = [(r, n, t) for r in range(a.rounds) for n in a.contexts for t in a.types]
    for round_, n, type_ in todo[len(runs):]:
        if time.monotonic() > end:
            print(f"{len(runs)} of {len(todo)} runs are done; the same command goes on", file=sys.stderr)
            return
        positions, milliseconds = run(a.model, text, n, type_, a)
        runs.append({"round": round_, "context": n, "type": type_, "positions": positions, "ms": milliseconds})
        print(f"round {round_ + 1}: {type_:5} {positions:7.0f} positions {milliseconds:8.2f} ms", file=sys.stderr)
        if kept:
            kept.write_text(json.dumps(runs))

    lines = {}
    for type_ in a.types:
        own = [r for r in runs if r["type"] == type_]
        lines[type_] = [(statistics.median(r["positions"] for r in own if r["context"] == n),
                         [r["ms"] for r in own if r["context"] == n]) for n in a.contexts]
        slope, intercept = fitted([(x, statistics.median(ys)) for x, ys in lines[type_]])
        size = bytes_of_position(a.model, type_)
        times = ", ".join(f"{statistics.median(ys):.2f} ms at {x:,.0f}" for x, ys in lines[type_])
        print(f"{type_}: {times}; {intercept:.2f} ms and {1e6 * slope:.0f} ns for each position, which has {size:,} bytes: "
              f"{size / slope / 1e6:.1f} GB/s")
    if a.svg:
        name = pathlib.Path(a.model).stem
        a.svg.write_text(picture_of_lines(lines, "Decoding time of a token over its context, by type of cache",
                                          f"{name}, {a.threads} threads; rounds: {a.rounds}; medians, and bars from the "
                                          "least to the greatest", "positions behind the token", "milliseconds"))


if __name__ == "__main__":
    main()
