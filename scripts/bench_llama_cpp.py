#!/usr/bin/env python3
"""Compares prefill and decoding with llama.cpp, on the same file and in alternation.

Usage: build/venv/bin/python scripts/bench_llama_cpp.py MODEL.gguf ... [--threads N] [--prompt-tokens N]
       [--gen-tokens N] [--rounds N] [--plain] [--python PATH]

Each round runs build/bench and then llama.cpp (with its own defaults, through llama-cpp-python), each in a process of
its own: five times a prompt, then tokens one by one. Prints, for each model, medians of tokens/s and their ratio.
`make interop` builds llama-cpp-python; --python names another environment's python that has it. Where llama.cpp dies of its kernels for AMX, which some virtual machines announce and then refuse: --plain takes none of its
repacked kernels (its speed is then less than its best), or build it with CMAKE_ARGS=-DGGML_NATIVE=OFF and the
machine's other instruction sets.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build"
LLAMA_CPP = """
import ctypes, json, statistics, sys, time
import llama_cpp as lc

path, threads, n_prompt, n_gen, plain = sys.argv[1], *map(int, sys.argv[2:])
log = lc.llama_log_callback(lambda level, text, user: None)
lc.llama_log_set(log, ctypes.c_void_p(0))
lc.llama_backend_init()
params = lc.llama_model_default_params()
params.use_extra_bufts = not plain
model = lc.llama_model_load_from_file(path.encode(), params)
assert model, "llama.cpp refuses " + path
params = lc.llama_context_default_params()
params.n_ctx, params.n_batch, params.n_ubatch = n_prompt + n_gen, max(n_prompt, 1), max(n_prompt, 1)
params.n_threads = params.n_threads_batch = threads
context = lc.llama_init_from_model(model, params)
vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))

def seconds(tokens):
    array = (lc.llama_token * len(tokens))(*tokens)
    start = time.perf_counter()
    assert lc.llama_decode(context, lc.llama_batch_get_one(array, len(tokens))) == 0
    lc.llama_synchronize(context)
    return time.perf_counter() - start

prefill, decode = [], []
for repetition in range(6):  # the first warms up
    lc.llama_memory_clear(lc.llama_get_memory(context), True)
    prefill.append(n_prompt / seconds([(p * 7919 + 13) % vocab for p in range(n_prompt)]))
    decode.append(n_gen / sum(seconds([step * 104729 % vocab]) for step in range(n_gen)))
print(json.dumps({"prefill": statistics.median(prefill[1:]), "decode": statistics.median(decode[1:])}))
"""


def folio(model, a):
    command = [BUILD / "bench", "-m", model, "-t", a.threads, "--prompt-tokens", a.prompt_tokens, "--gen-tokens",
               a.gen_tokens, "--temperature", 0, "--json"]  # llama.cpp's side draws nothing
    out = json.loads(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout)
    return {"prefill": out["prefill_tokens_per_s"], "decode": out["decode_tokens_per_s"]}


def llama_cpp(model, a):
    command = [a.python, "-c", LLAMA_CPP, model, a.threads, a.prompt_tokens, a.gen_tokens, int(a.plain)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"llama.cpp on {model} ended with {done.returncode} (try --plain): {done.stderr[-300:]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--gen-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    a = parser.parse_args()
    for model in a.models:
        rounds = [(folio(model, a), llama_cpp(model, a)) for _ in range(a.rounds)]
        row = {"model": pathlib.Path(model).name, "threads": a.threads}
        for what in ("prefill", "decode"):
            ours, theirs = (statistics.median(r[who][what] for r in rounds) for who in (0, 1))
            row |= {f"{what}_folio": round(ours, 1), f"{what}_llama_cpp": round(theirs, 1),
                    f"{what}_ratio": round(ours / theirs, 2)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
