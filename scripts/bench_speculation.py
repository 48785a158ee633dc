#!/usr/bin/env python3
"""Measures decode time with --speculate relative to without, on text that repeats itself and text that doesn't.

Usage: scripts/bench_speculation.py MODEL... [--pairs 30] [--speculate 8] [--draft-model FILE] [--threads 2]

A pair is two runs of build/generate on the same prompt, with --speculate and without, in alternating order; their
tokens must be equal. Prints the median ratio with a 95 % bootstrap interval, by wall time and by CPU time (user and
system, minus that of a run of one token). CPU time is more reliable with other processes running, and with one thread.
The interval's upper end must be at most 1/1.5 for repetitive text, and at most 1.03 otherwise."""
import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess

BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", pathlib.Path(__file__).resolve().parents[1] / "build"))
VERSE = "FIRST: What news of him?\nSECOND: He is a man of the king.\n"
# The first prompt contains VERSE twice and begins it again, so that the most likely continuation repeats VERSE.
TEXTS = {"repeats itself": ["-p", 2 * VERSE + VERSE[:7], "--temp", "0"],
         "does not": ["-p", "FIRST:", "--temp", "1", "--top-p", "1", "--seed", "1"]}
BARS = {"repeats itself": 1 / 1.5, "does not": 1.03}


def generate(model, flags, threads):
    """Returns the number of tokens, the seconds of all tokens after the first, and the CPU seconds of the whole run."""
    command = [BUILD / "generate", "-m", model, "--json", "--slide", "-t", str(threads), *flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    n = len(result["tokens"])
    return (result["tokens"], (n - 1) / result["decode_tokens_per_s"] if n > 1 else 0,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def interval(ratios, rounds=10_000):
    """Returns the 95 % interval of the median by bootstrap over pairs."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[rounds * 25 // 1000], medians[rounds * 975 // 1000 - 1]


def measure(model, flags, arguments, speculation):
    """Returns the ratios of all pairs by wall and by CPU time, and tokens/s without speculation."""
    flags_of = {True: flags + speculation, False: flags}
    start = {s: statistics.median(generate(model, [*flags_of[s], "-n", "1"], arguments.threads)[2] for _ in range(5))
             for s in flags_of}
    by_clock, by_processor, rates = [], [], []
    for pair in range(arguments.pairs):
        runs = {s: generate(model, [*flags_of[s], "-n", str(arguments.tokens)], arguments.threads)
                for s in ((True, False) if pair % 2 == 0 else (False, True))}
        tokens, seconds, processor = runs[False]
        if runs[True][0] != tokens:
            raise SystemExit(f"{model}: speculation changed the text of {flags}")
        by_clock.append(runs[True][1] / seconds)
        by_processor.append((runs[True][2] - start[True]) / (processor - start[False]))
        rates.append((len(tokens) - 1) / seconds)
    return by_clock, by_processor, statistics.median(rates)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--speculate", type=int, default=8)
    parser.add_argument("--draft-model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=180)
    arguments = parser.parse_args()
    for file in [*arguments.models, *filter(None, [arguments.draft_model])]:
        if not pathlib.Path(file).exists():
            parser.error(f"there is no {file}")
    speculation = ["--speculate", str(arguments.speculate)]
    if arguments.draft_model:
        speculation += ["--draft-model", arguments.draft_model]
    print("| model | the text | tokens/s without | seconds with / without | of the processor | bar |")
    print("|---|---|---|---|---|---|")
    for model in arguments.models:
        for name, flags in TEXTS.items():
            *ratios, rate = measure(model, flags, arguments, speculation)
            intervals = [interval(r) for r in ratios]
            shown = " | ".join(f"{statistics.median(r):.3f} ({low:.3f} to {high:.3f})"
                               for r, (low, high) in zip(ratios, intervals))
            kept = ["kept" if high <= BARS[name] else "missed" for _, high in intervals]
            print(f"| {pathlib.Path(model).name} | {name} | {rate:.0f} | {shown} "
                  f"| {BARS[name]:.2f}: {kept[0]}, {kept[1]} |", flush=True)


if __name__ == "__main__":
    main()
