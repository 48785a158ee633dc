#!/usr/bin/env python3
"""Measures decode time with --speculate relative to without, on text that repeats itself and text that doesn't.

Usage: scripts/bench_speculation.py MODEL... [--rounds 30] [--speculate 8] [--draft-model FILE] [--threads 2]

A round is two runs of build/generate on the same prompt, with --speculate and without, in alternating order; their
tokens must be equal. Prints the median ratio with a 95 % bootstrap interval, by wall time and by CPU time (user and
system, minus that of a run of one token). CPU time is more reliable with other processes running, and with one thread.
The interval's upper end must be at most 1/1.5 for repetitive text, and at most 1.03 otherwise."""
import json
import pathlib
import statistics

from compare import BUILD, alternate, interval, parser, ratios, report, run, with_interval

VERSE = "FIRST: What news of him?\nSECOND: He is a man of the king.\n"
# The first prompt contains VERSE twice and begins it again, so that the most likely continuation repeats VERSE.
TEXTS = {"repeats itself": ["-p", 2 * VERSE + VERSE[:7], "--temp", "0"],
         "does not": ["-p", "FIRST:", "--temp", "1", "--top-p", "1", "--seed", "1"]}
BARS = {"repeats itself": 1 / 1.5, "does not": 1.03}


def generate(model, flags, a):
    """Returns the tokens, the seconds of all tokens after the first, and the CPU seconds of the whole run."""
    done = run(BUILD / "generate", "-m", model, "--json", "--slide", "-t", a.threads, *flags)
    said = json.loads(done.out)
    n = len(said["tokens"])
    return said["tokens"], (n - 1) / said["decode_tokens_per_s"] if n > 1 else 0, done.cpu_seconds


def row_of(model, text, results, start):
    """Returns a table row with the ratios of times with --speculate to times without: wall time, and CPU time minus
    that of a run of one token."""
    name = pathlib.Path(model).name
    runs, plain = results[model, text, True], results[model, text, False]
    if any(ours[0] != theirs[0] for ours, theirs in zip(runs, plain)):
        raise SystemExit(f"{model}: speculation changed the text of {TEXTS[text]}")
    by_clock = ratios([r[1] for r in runs], [r[1] for r in plain])
    by_processor = ratios([r[2] - start[model, text, True] for r in runs],
                          [r[2] - start[model, text, False] for r in plain])
    kept = ["kept" if interval(r)[1] <= BARS[text] else "missed" for r in (by_clock, by_processor)]
    return [name, text, f"{statistics.median((len(r[0]) - 1) / r[1] for r in plain):.0f}", with_interval(by_clock, 3),
            with_interval(by_processor, 3), f"{BARS[text]:.2f}: {', '.join(kept)}"]


def main():
    p = parser(__doc__, rounds=30)
    p.add_argument("models", nargs="+", metavar="MODEL")
    p.add_argument("--speculate", type=int, default=8)
    p.add_argument("--draft-model")
    p.add_argument("--tokens", type=int, default=180)
    a = p.parse_args()
    for file in [*a.models, *filter(None, [a.draft_model])]:
        if not pathlib.Path(file).exists():
            p.error(f"there is no {file}")
    speculation = ["--speculate", a.speculate, *(["--draft-model", a.draft_model] if a.draft_model else [])]
    flags = {(model, text, with_drafts): [*TEXTS[text], *(speculation if with_drafts else [])]
             for model in a.models for text in TEXTS for with_drafts in (True, False)}
    generated = lambda name, n: generate(name[0], [*flags[name], "-n", n], a)
    start = {name: statistics.median(generated(name, 1)[2] for _ in range(5)) for name in flags}
    results = alternate(flags, lambda name, _: generated(name, a.tokens), a)
    report(a, results, ["model", "the text", "tokens/s without", "seconds with / without", "of the processor", "bar"],
           [row_of(model, text, results, start) for model in a.models for text in TEXTS])


if __name__ == "__main__":
    main()
