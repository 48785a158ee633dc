#!/usr/bin/env python3
"""Compares Folio with llama.cpp on the same files, and with the memory bandwidth measured at the same time.

Usage: build/venv/bin/python scripts/bench_llama_cpp.py MODEL.gguf ... [--what decode16,decode512,one,prompt512,batch16]
       [--rounds N] [--threads N] [--busy N] [--log FILE] [--svg FILE] [--build DIR] [--python PATH] [--plain]

--what: decoding after 16 or 512 tokens, decoding on one thread, a prompt of 512 tokens, decoding 16 sequences at once;
other numbers are possible. A round runs build/bench, llama.cpp (llama_cpp_speed.py, with its defaults) and build/bench
--memory, each in its own process, with the same tokens and repetitions. Prints a table of medians over the rounds;
ratios and fractions of the bandwidth are taken within a round.

--busy N: also measure with N compute-bound processes running, on one thread, on --threads, and on each program's
default.
--log FILE: append each round to FILE, and include the rounds already in it; with --rounds 0, run none."""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import ratio_picture

HERE = pathlib.Path(__file__).resolve().parent
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
    """Returns flags for both programs. They decode for 1 to 2 seconds in all: three repetitions for a small model."""
    size = model.stat().st_size
    repetitions = 1 if size > 300e6 else 3
    steps = 24e9 / size / repetitions / (4 if run.batch > 1 else 1)  # for 1.5 s, if weights are read at 16 GB/s
    gen_tokens = min(max(int(steps), 8), 256) if decodes else 1
    flags = {"--prompt-tokens": run.prompt_tokens, "--gen-tokens": gen_tokens, "--batch": run.batch,
             "--repetitions": repetitions}
    if run.threads != DEFAULT:
        flags["--threads"] = run.threads
    return [str(word) for flag in flags.items() for word in flag]


def json_of(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def measure(model, run, measures, a):
    """Runs both programs once with the settings of `run` and returns a record for each of its measures."""
    flags = flags_of(model, run, any(m.speed == "decode" for m in measures))
    bench = a.build / "bench"
    ours = json_of(bench, "--json", "-m", model, "--temperature", 0, *flags)  # greedy: llama.cpp's side doesn't sample
    theirs = json_of(a.python, HERE / "llama_cpp_speed.py", model, *flags, *["--plain"] * a.plain)
    memory = json_of(bench, "--memory", "--json", *(["--threads", run.threads] if run.threads != DEFAULT else []))
    read = ours["step_bytes"] / ours["weight_bytes"]  # fraction of the weights; less than 1 for mixtures of experts
    for m in measures:
        record = {"model": model.name.removesuffix(".gguf"), "measure": m.title, "gb_per_s": memory["read_gb_per_s"]}
        for name, side in (("folio", ours), ("llama.cpp", theirs)):
            record[name] = speed = side[f"{m.speed}_tokens_per_s"]
            if m.speed == "decode":
                read_per_s = speed / run.batch * side["weight_bytes"] * read
                record[f"{name} share"] = read_per_s / 1e9 / memory["read_gb_per_s"]
        yield record


@contextlib.contextmanager
def busy(n):
    """Runs with n compute-bound processes in the background."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def grouped(records):
    """Returns {(model, measure): records}, in order of first occurrence."""
    groups = {}
    for record in records:
        groups.setdefault((record["model"], record["measure"]), []).append(record)
    return groups


def table(groups):
    lines = ["| model | measure | Folio, tokens/s | llama.cpp | ratio | rounds | memory, GB/s | Folio's share | "
             "llama.cpp's |", "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for (model, title), rounds in groups.items():
        median = lambda key: statistics.median(r[key] for r in rounds)
        ratios = [r["folio"] / r["llama.cpp"] for r in rounds]
        shares = [f"{median(key):.0%}" if key in rounds[0] else "" for key in ("folio share", "llama.cpp share")]
        cells = [model, title, f"{median('folio'):,.4g}", f"{median('llama.cpp'):,.4g}",
                 f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", len(rounds),
                 f"{median('gb_per_s'):.1f}", *shares]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--what", default="decode16,decode512,one,prompt512,batch16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--plain", action="store_true")
    a = parser.parse_args()
    records = [json.loads(line) for line in a.log.read_text().splitlines()] if a.log and a.log.exists() else []
    runs = runs_of(a)
    with busy(a.busy):
        for round_ in range(a.rounds):
            for model in a.models:
                for run, measures in runs.items():
                    for record in measure(model, run, measures, a):
                        records.append(record)
                        print(f"round {round_ + 1}: {json.dumps(record)}", file=sys.stderr, flush=True)
                        if a.log:
                            with a.log.open("a") as log:
                                print(json.dumps(record), file=log)
    print(table(grouped(records)))
    if a.svg:
        a.svg.write_text(ratio_picture.picture(grouped(records)))


if __name__ == "__main__":
    main()
