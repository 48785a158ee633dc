#!/usr/bin/env python3
"""Compares Folio with llama.cpp on the same files, and with the memory bandwidth measured at the same time.

Usage: build/venv/bin/python scripts/bench_llama_cpp.py MODEL.gguf ... [--what decode16,decode512,one,prompt512,batch16]
       [--rounds N] [--threads N] [--busy N] [--keep FILE] [--json] [--svg FILE] [--python PATH] [--plain]

--what: decoding after 16 or 512 tokens, decoding on one thread, a prompt of 512 tokens, decoding 16 sequences at once;
other numbers are possible. A round runs build/bench, llama.cpp (llama_cpp_speed.py, with its defaults) and build/bench
--memory, each in its own process, with the same tokens and repetitions. Prints a table of medians over the rounds;
ratios and fractions of the bandwidth are taken within a round.

--busy N: also measure with N compute-bound processes running, on one thread, on --threads, and on each program's
default."""
import collections
import os
import pathlib
import re
import statistics
import sys

from compare import BUILD, HERE, alternate, busy, json_of, parser, ratios, report, with_range
from picture import plot_ratios

DEFAULT = 0  # as a number of threads: each program's default

# A Run is one setting of both programs' flags. A Measure is a row of the table, taken from a run: prefill or decode.
Run = collections.namedtuple("Run", "prompt_tokens batch threads")
Measure = collections.namedtuple("Measure", "title run speed")


def measure_of(word, threads, label):
    """Returns the Measure for a word of --what. Its title ends with `label`, which names the threads if they vary."""
    match = re.fullmatch(r"(decode|prompt|batch)([1-9][0-9]{0,5})|one", word)
    if not match:
        sys.exit(f"--what {word}: decodeN, promptN and batchN have a number, one has none")
    n = int(match[2] or 0)
    if match[1] == "decode":
        return Measure(f"decode behind {n}{label}", Run(n, 1, threads), "decode")
    if match[1] == "prompt":
        return Measure(f"prompt of {n}{label}", Run(n, 1, threads), "prefill")
    if match[1] == "batch":
        return Measure(f"{n} sequences{label}", Run(16, n, threads), "decode")
    return Measure("decode behind 16, 1 thread", Run(16, 1, 1), "decode")


def runs_of(a):
    """Returns {Run: the Measures that are taken from it}."""
    variants = {a.threads: ""}
    if a.busy:
        variants = {1: ", 1 thread", a.threads: f", {a.threads} threads", DEFAULT: ", default threads"}
    runs = {}
    for threads, label in variants.items():
        for word in a.what.split(","):
            measure = measure_of(word, threads, label)
            if measure not in runs.setdefault(measure.run, []):
                runs[measure.run].append(measure)
    return runs


def flags_of(model, run, decodes):
    """Returns flags for both programs that make them decode for one or two seconds, a small model three times."""
    size = model.stat().st_size
    repetitions = 1 if size > 300e6 else 3
    steps = 24e9 / size / repetitions / (4 if run.batch > 1 else 1)  # for 1.5 s at 16 GB/s; a batch's step takes longer
    gen_tokens = min(max(int(steps), 8), 256) if decodes else 1
    return ["--prompt-tokens", run.prompt_tokens, "--gen-tokens", gen_tokens, "--batch", run.batch,
            "--repetitions", repetitions]


def sides_of(model, run, measures, a):
    """Returns the commands with these settings: Folio, llama.cpp, and the memory's bandwidth."""
    threads = ["--threads", run.threads] if run.threads != DEFAULT else []
    flags = ["-m", model, *flags_of(model, run, any(m.speed == "decode" for m in measures)), *threads]
    name = (str(model), *(m.title for m in measures))
    return {(*name, "folio"): [BUILD / "bench", "--json", "--temperature", 0, *flags],  # llama.cpp doesn't sample
            (*name, "llama.cpp"): [a.python, HERE / "llama_cpp_speed.py", *flags, *["--plain"] * a.plain],
            (*name, "memory"): [BUILD / "bench", "--memory", "--json", *threads]}


def rows_of(model, measures, ours, theirs, memory):
    """Returns {(model, measure): row of the table} and {(model, measure): ratios}."""
    bandwidth = [m["read_gb_per_s"] for m in memory]
    rows, all_ratios = {}, {}
    for m in measures:
        name = (model.name.removesuffix(".gguf"), m.title)
        speeds = [[said[f"{m.speed}_tokens_per_s"] for said in side] for side in (ours, theirs)]
        all_ratios[name] = ratios(*speeds)
        shares = ["", ""]
        if m.speed == "decode":
            # A step reads a fraction of the weights: less than 1 for mixtures of experts.
            read = ours[0]["step_bytes"] / ours[0]["weight_bytes"] / m.run.batch / 1e9
            shares = [f"{statistics.median(ratios([v * read * side[0]['weight_bytes'] for v in speed], bandwidth)):.0%}"
                      for speed, side in zip(speeds, (ours, theirs))]
        rows[name] = [*name, *(f"{statistics.median(speed):,.4g}" for speed in speeds), with_range(all_ratios[name]),
                      len(all_ratios[name]), f"{statistics.median(bandwidth):.1f}", *shares]
    return rows, all_ratios


def main():
    p = parser(__doc__, rounds=5, threads=len(os.sched_getaffinity(0)))
    p.add_argument("models", nargs="+", type=pathlib.Path)
    p.add_argument("--what", default="decode16,decode512,one,prompt512,batch16")
    p.add_argument("--busy", type=int, default=0)
    p.add_argument("--svg", type=pathlib.Path)
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--plain", action="store_true")
    a = p.parse_args()
    groups = [(model, measures, sides_of(model, run, measures, a))
              for model in a.models for run, measures in runs_of(a).items()]
    commands = {name: command for *_, sides in groups for name, command in sides.items()}
    with busy(a.busy):
        results = alternate(commands, lambda name, _: json_of(*commands[name]), a)
    rows, all_ratios = {}, {}
    for model, measures, sides in groups:
        if all(name in results for name in sides):
            for whole, part in zip((rows, all_ratios), rows_of(model, measures, *(results[name] for name in sides))):
                whole |= part
    report(a, results, ["model", "measure", "Folio, tokens/s", "llama.cpp", "ratio", "rounds", "memory, GB/s",
                        "Folio's share", "llama.cpp's"], rows.values())
    if a.svg:
        subtitle = "Right of 1 Folio is faster. Medians of alternating rounds, from the least to the greatest"
        a.svg.write_text(plot_ratios(all_ratios, "Folio's tokens a second over llama.cpp's", subtitle))


if __name__ == "__main__":
    main()
