#!/usr/bin/env python3
"""How fast the Python package is beside the program, and beside llama-cpp-python: the same calls, in alternating rounds.

    PYTHONPATH=build/python build/venv/bin/python scripts/bench_python.py MODEL.gguf [--rounds 5] [--tokens 240] [--no-llama-cpp]

Tokens per second of a call, as its caller sees it, with all prompts' tokens counted; medians of the rounds. The program
says its own decoding speed (generate --json), which leaves out what loading took. One and sixteen prompts; the program's
sixteen are a file of --prompts.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import folio

ROOT = Path(__file__).resolve().parents[1]
PROMPT = "ROMEO:\nWhat "


def program(model, n_prompts, tokens, threads):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(f"{PROMPT.splitlines()[0]}{i:x}" for i in range(n_prompts)) + "\n")
        file.flush()
        done = subprocess.run([str(ROOT / "build/generate"), "-m", model, "--prompts", file.name, "-n", str(tokens), "-s",
                               "1", "-t", str(threads), "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)["decode_tokens_per_s"]


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
        for _ in range(o.rounds):
            for n in (1, 16):
                prompts = [f"ROMEO:{i:x}" for i in range(n)]
                total = o.tokens * n
                prompt = prompts if n > 1 else prompts[0]
                rows.setdefault((n, "build/generate"), []).append(program(o.model, n, o.tokens, o.threads))
                rows.setdefault((n, "generate()"), []).append(timed(lambda: model.generate(prompt, **options), total))
                rows.setdefault((n, "stream()"), []).append(
                    timed(lambda: [None for _ in model.stream(prompt, **options)], total))
            if llama:
                call = dict(max_tokens=o.tokens, temperature=0.8, top_p=0.95, seed=1)
                rows.setdefault((1, "llama-cpp-python, a call"), []).append(timed(lambda: llama(prompts[0], **call), o.tokens))
                rows.setdefault((1, "llama-cpp-python, stream=True"), []).append(
                    timed(lambda: [None for _ in llama(prompts[0], stream=True, **call)], o.tokens))
    print(f"{o.model}, {o.threads} threads, {o.tokens} tokens, medians of {o.rounds} rounds")
    for (n, name), rates in sorted(rows.items()):
        base = statistics.median(rows[(n, "build/generate")])
        rate = statistics.median(rates)
        print(f"{n:3d} prompts  {name:30s} {rate:9.1f} tokens/s  {rate / base:5.2f} of build/generate")


if __name__ == "__main__":
    main()
