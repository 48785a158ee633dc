#!/usr/bin/env python3
"""Compares the Python package with build/generate and llama-cpp-python: the same calls, in alternating rounds.

    PYTHONPATH=build/python build/venv/bin/python scripts/bench_python.py MODEL.gguf [--rounds 5] [--tokens 240] [--no-llama-cpp]

Prints medians of a call's tokens per second as seen by the caller, over all prompts. build/generate reports its own
times (--json), which exclude loading. Each side runs one prompt, then sixteen, which build/generate reads from a file
(--prompts)."""
import statistics
import tempfile
import time

import folio
from compare import BUILD, alternate, json_of, parser, report


def program(model, prompts, tokens, threads):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(prompt + "\n" for prompt in prompts))
        file.flush()
        said = json_of(BUILD / "generate", "--json", "-m", model, "--prompts", file.name, "-n", tokens, "-s", 1,
                       "-t", threads)
    # The program's rates exclude loading. The prefill rate counts all prompt tokens, the decode rate all output tokens
    # except the first of each sequence.
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


def sides_of(n, model, llama, a):
    """Returns {(n, name): function} for each way to complete n prompts. Each function gets the number of a round,
    generates, and returns tokens/s."""
    options = dict(max_tokens=a.tokens, seed=1)
    theirs = dict(max_tokens=a.tokens, temperature=0.8, top_p=0.95, seed=1)
    # Different prompts for each call, so that none is in the prefix cache.
    of = lambda round_, call: [f"{letter(round_)}{letter(i)}{letter(n)}{letter(call)}:" for i in range(n)]
    one_or_all = lambda *call: of(*call) if n > 1 else of(*call)[0]
    sides = {
        "build/generate": lambda r: program(a.model, of(r, 0), a.tokens, a.threads),
        "generate()": lambda r: timed(lambda: model.generate(one_or_all(r, 1), **options), a.tokens * n),
        "stream()": lambda r: timed(lambda: [None for _ in model.stream(one_or_all(r, 2), **options)], a.tokens * n)}
    if llama and n == 1:
        sides |= {
            "llama-cpp-python, a call": lambda r: timed(lambda: llama(of(r, 3)[0], **theirs), a.tokens),
            "llama-cpp-python, stream=True":
                lambda r: timed(lambda: [None for _ in llama(of(r, 4)[0], stream=True, **theirs)], a.tokens)}
    return {(n, name): side for name, side in sides.items()}


def main():
    p = parser(__doc__, rounds=5)
    p.add_argument("model")
    p.add_argument("--tokens", type=int, default=240)
    p.add_argument("--no-llama-cpp", action="store_true")
    a = p.parse_args()
    llama = None
    if not a.no_llama_cpp:
        from llama_cpp import Llama

        llama = Llama(a.model, n_ctx=512, n_threads=a.threads, n_threads_batch=a.threads, verbose=False)
    with folio.Model(a.model, threads=a.threads) as model:
        sides = sides_of(1, model, llama, a) | sides_of(16, model, llama, a)
        results = alternate(sides, lambda name, round_: sides[name](round_), a)
    base = {n: statistics.median(rates) for (n, name), rates in results.items() if name == "build/generate"}
    rows = [[n, name, f"{statistics.median(rates):.1f}", f"{statistics.median(rates) / base[n]:.2f}"]
            for (n, name), rates in results.items()]
    report(a, results, ["prompts", "", "tokens/s", "of build/generate"], rows,
           f"{a.model}, {a.threads} threads, {a.tokens} tokens, medians of {a.rounds} rounds\n")


if __name__ == "__main__":
    main()
