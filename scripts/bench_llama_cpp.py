#!/usr/bin/env python3
"""Compares Folio with llama.cpp on the same files, and with the memory bandwidth measured at the same time.

Usage: build/venv/bin/python scripts/bench_llama_cpp.py MODEL.gguf ... [--what decode16,decode512,one,prompt512,batch16]
       [--rounds N] [--threads N] [--busy N] [--keep FILE] [--json] [--svg FILE] [--python PATH] [--plain]

--what: decoding after 16 or 512 tokens, decoding on one thread, a prompt of 512 tokens, decoding 16 sequences at once;
other numbers are possible. A round runs build/bench, llama.cpp (llama_cpp_speed.py, with its defaults) and build/bench
--memory, each in its own process, with the same tokens and repetitions. Prints a table of medians over the rounds;
ratios and fractions of the bandwidth are taken within a round.

--busy N: measure while N compute-bound processes run: on --threads, on one thread, and on each program's default."""
import collections
import os
import pathlib
import re
import statistics
import sys

from compare import BUILD, HERE, alternate, busy, json_of, parser, ratios, report, with_range
from picture import plot_ratios

DEFAULT = 0  # number of threads that stands for each program's default

# A row of the table: values of flags that both programs have, and the speed to compare, "prefill" or "decode".
Measure = collections.namedtuple("Measure", "title prompt_tokens batch threads speed")


def measure_of(word, threads, label):
    """Returns the Measure for a word of --what. Its title ends with `label`, which names the threads if they vary."""
    match = re.fullmatch(r"(decode|prompt|batch)([1-9][0-9]{0,5})|one", word)
    if not match:
        sys.exit(f"--what {word}: decodeN, promptN and batchN have a number, one has none")
    n = int(match[2] or 0)
    if match[1] == "decode":
        return Measure(f"decode after {n}{label}", n, 1, threads, "decode")
    if match[1] == "prompt":
        return Measure(f"prompt of {n}{label}", n, 1, threads, "prefill")
    if match[1] == "batch":
        return Measure(f"{n} sequences{label}", 16, n, threads, "decode")
    return Measure("decode after 16, 1 thread", 16, 1, 1, "decode")


def measures_of(a):
    variants = {a.threads: ""}
    if a.busy:
        variants = {a.threads: f", {a.threads} threads", 1: ", 1 thread", DEFAULT: ", default threads"}
    return dict.fromkeys(measure_of(word, *variant) for variant in variants.items() for word in a.what.split(","))


def commands_of(model, m, a):
    """Returns {"folio", "llama.cpp" or "memory": command}. Decoding takes 1 to 2 seconds in total: three repetitions
    with a small model, one with a large model."""
    size = model.stat().st_size
    repetitions = 1 if size > 300e6 else 3
    steps = 24e9 / size / repetitions / (4 if m.batch > 1 else 1)  # for 1.5 s, if weights are read at 16 GB/s
    gen_tokens = min(max(int(steps), 8), 256) if m.speed == "decode" else 1
    threads = ["--threads", m.threads] if m.threads != DEFAULT else []
    flags = ["-m", model, "--prompt-tokens", m.prompt_tokens, "--gen-tokens", gen_tokens, "--batch", m.batch,
             "--repetitions", repetitions, *threads]
    return {"folio": [BUILD / "bench", "--json", "--temperature", 0, *flags],  # llama.cpp's side doesn't sample
            "llama.cpp": [a.python, HERE / "llama_cpp_speed.py", *flags, *["--plain"] * a.plain],
            "memory": [BUILD / "bench", "--memory", "--json", *threads]}


def row_of(m, ours, theirs, memory):
    """Returns the cells of a table row that follow the names, and Folio's speed relative to llama.cpp's in each
    round."""
    bandwidth = [said["read_gb_per_s"] for said in memory]
    speeds = [[said[f"{m.speed}_tokens_per_s"] for said in side] for side in (ours, theirs)]
    all_ratios, shares = ratios(*speeds), ["", ""]
    if m.speed == "decode":
        # A step reads a fraction of the weights: less than 1 for mixtures of experts.
        read = ours[0]["step_bytes"] / ours[0]["weight_bytes"] / m.batch / 1e9
        shares = [f"{statistics.median(ratios([v * read * side[0]['weight_bytes'] for v in speed], bandwidth)):.0%}"
                  for speed, side in zip(speeds, (ours, theirs))]
    return [*(f"{statistics.median(speed):,.4g}" for speed in speeds), with_range(all_ratios), len(all_ratios),
            f"{statistics.median(bandwidth):.1f}", *shares], all_ratios


def main():
    p = parser(__doc__, rounds=5, threads=len(os.sched_getaffinity(0)))
    p.add_argument("models", nargs="+", type=pathlib.Path)
    p.add_argument("--what", default="decode16,decode512,one,prompt512,batch16")
    p.add_argument("--busy", type=int, default=0)
    p.add_argument("--svg", type=pathlib.Path)
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--plain", action="store_true")
    a = p.parse_args()
    commands = {(str(model), m.title, side): command for model in a.models for m in measures_of(a)
                for side, command in commands_of(model, m, a).items()}
    with busy(a.busy):
        results = alternate(commands, lambda name, _: json_of(*commands[name]), a)
    rows, all_ratios = [], {}
    for model in a.models:
        for m in measures_of(a):
            sides = [results.get((str(model), m.title, side)) for side in ("folio", "llama.cpp", "memory")]
            if all(sides):
                name = (model.name.removesuffix(".gguf"), m.title)
                row, all_ratios[name] = row_of(m, *sides)
                rows.append([*name, *row])
    report(a, results, ["model", "measure", "Folio, tokens/s", "llama.cpp", "ratio", "rounds", "memory, GB/s",
                        "Folio's share", "llama.cpp's"], rows)
    if a.svg:
        subtitle = "Right of 1 Folio is faster. Medians of alternating rounds, with bars from minimum to maximum"
        a.svg.write_text(plot_ratios(all_ratios, "Folio's tokens a second over llama.cpp's", subtitle))


if __name__ == "__main__":
    main()
