#!/usr/bin/env python3
"""Measures the Python package, compared with build/generate and llama-cpp-python: the same calls, in alternating
rounds.

    PYTHONPATH=build/python build/venv/bin/python scripts/bench_python.py MODEL.gguf [--rounds 5] [--tokens 240] [--no-llama-cpp]

Prints medians of a call's tokens per second as seen by the caller, over all prompts. The program reports its own times
(generate --json), which exclude loading. Uses one prompt and sixteen; for the program, sixteen prompts are a file
(--prompts)."""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import folio

ROOT = Path(__file__).resolve().parents[1]


def program(model, prompts, tokens, threads):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(prompt + "\n" for prompt in prompts))
        file.flush()
        done = subprocess.run([str(ROOT / "build/generate"), "-m", model, "--prompts", file.name, "-n", str(tokens), "-s",
                               "1", "-t", str(threads), "--json"], capture_output=True, check=True)
    # The program's rates exclude loading: prefill is all prompts, decode all tokens after the first of each sequence.
    said = json.loads(done.stdout)
    n_prompt = sum(len(result["prompt_tokens"]) for result in said["results"])
    n_decoded = sum(len(result["tokens"]) - 1 for result in said["results"])
    seconds = n_prompt / said["prefill_tokens_per_s"] + n_decoded / said["decode_tokens_per_s"]
    return (n_decoded + len(prompts)) / seconds


def letter(number):
    return chr(ord("A") + number % 26)


def timed(call, n):
    start = time.perf_counter()
    call()
    return n / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=240)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-llama-cpp", action="store_true")
    o = parser.parse_args()
    llama = None
    if not o.no_llama_cpp:
        from llama_cpp import Llama

        llama = Llama(o.model, n_ctx=512, n_threads=o.threads, n_threads_batch=o.threads, verbose=False)
    options = dict(max_tokens=o.tokens, seed=1)
    rows = {}
    with folio.Model(o.model, threads=o.threads) as model:
        for round in range(o.rounds):
            for n in (1, 16):
                # Different prompts for each call, so that none is in the prefix cache.
                of = lambda call: [f"{letter(round)}{letter(i)}{letter(n)}{letter(call)}:" for i in range(n)]
                one_or_all = lambda call: of(call) if n > 1 else of(call)[0]
                note = lambda name, rate: rows.setdefault((n, name), []).append(rate)
                note("build/generate", program(o.model, of(0), o.tokens, o.threads))
                note("generate()", timed(lambda: model.generate(one_or_all(1), **options), o.tokens * n))
                note("stream()", timed(lambda: [None for _ in model.stream(one_or_all(2), **options)], o.tokens * n))
                if llama and n == 1:
                    call = dict(max_tokens=o.tokens, temperature=0.8, top_p=0.95, seed=1)
                    note("llama-cpp-python, a call", timed(lambda: llama(of(3)[0], **call), o.tokens))
                    note("llama-cpp-python, stream=True",
                         timed(lambda: [None for _ in llama(of(4)[0], stream=True, **call)], o.tokens))
    print(f"{o.model}, {o.threads} threads, {o.tokens} tokens, medians of {o.rounds} rounds")
    for (n, name), rates in sorted(rows.items()):
        base = statistics.median(rows[(n, "build/generate")])
        rate = statistics.median(rates)
        print(f"{n:3d} prompts  {name:30s} {rate:9.1f} tokens/s  {rate / base:5.2f} of build/generate")


if __name__ == "__main__":
    main()
