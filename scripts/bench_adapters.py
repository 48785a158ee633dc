#!/usr/bin/env python3
"""Measures decode tokens/s of `serve` with adapters, compared with the base model.

    scripts/bench_adapters.py /tmp/smollm2.Q8_0.gguf --rounds 7

Creates random adapters of --rank on all seven target matrices. Each round alternates: one sequence with the base model,
one with an adapter; --batch concurrent sequences with the base model, with one adapter, with --batch adapters. Time is
that of the engine's steps from /metrics; ratios are taken within a round. Prints medians with minimum and maximum.

    scripts/bench_adapters.py /tmp/smollm2.Q8_0.gguf --beside --rounds 7

Compares with llama.cpp's server (built by `make interop`) and the same adapter, exported as GGUF: one sequence and four
concurrent ones, with the adapter and without. Time is the client's, from the first request to the last response."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "apps"))

from adapters import write_adapter  # noqa: E402
from servers import Server  # noqa: E402


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def step_seconds(url):
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("folio_step_seconds_total ")))


def decode(url, names, args):
    """Generates one sequence per name, concurrently, and returns the number of tokens. End tokens are suppressed."""
    n_tokens = []

    def ask(i, name):
        answer = post(f"{url}/v1/completions", {"model": name, "prompt": "A", "seed": i, "max_tokens": args.tokens,
                                                "logit_bias": {token: -100 for token in args.ends.split(",")}})
        n_tokens.append(answer["usage"]["completion_tokens"])

    threads = [threading.Thread(target=ask, args=(i, name)) for i, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert n_tokens == [args.tokens] * len(names), n_tokens
    return sum(n_tokens)


def speed(url, names, args):
    """Decodes one sequence per name and returns the tokens per second of the engine's steps."""
    before = step_seconds(url)
    n_tokens = decode(url, names, args)
    return n_tokens / (step_seconds(url) - before)


def speed_for_a_client(url, names, args):
    before = time.perf_counter()
    n_tokens = decode(url, names, args)
    return n_tokens / (time.perf_counter() - before)


def show(name, values):
    print(f"{name:52} {statistics.median(values):8.3f}   {min(values):.3f} to {max(values):.3f}")


def export(*arguments):
    subprocess.run([ROOT / "build" / "export", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def beside_llama_server(folder, args):
    directory, file = folder / "a0", folder / "a0.gguf"
    export(directory, "--out", file, "--format", "gguf-lora", "--base", folder / "hf")
    kinds = ("with the adapter", "without")
    speeds = {}
    with (Server("folio", args.model, threads=args.threads,
                 more=["--name", "base", "--adapter", f"a0={directory}"]) as ours,
          Server("llama-server", args.model, threads=args.threads, more=["--lora", file]) as adapted,
          Server("llama-server", args.model, threads=args.threads) as plain):
        sides = [("folio", kinds[0], ours.url, "a0"), ("llama-server", kinds[0], adapted.url, "a0"),
                 ("folio", kinds[1], ours.url, "base"), ("llama-server", kinds[1], plain.url, "base")]
        for i in range(args.rounds + 1):
            for n in (1, 4):
                for server, kind, url, name in sides if i % 2 == 0 else sides[::-1]:
                    found = speed_for_a_client(url, [name] * n, args)
                    if i > 0:  # the first round is a warm-up
                        speeds.setdefault((n, kind, server), []).append(found)
    for n in (1, 4):
        for kind in kinds:
            ours, theirs = speeds[n, kind, "folio"], speeds[n, kind, "llama-server"]
            show(f"{n} at once, {kind}: folio, tokens/s", ours)
            show(f"{n} at once, {kind}: llama-server", theirs)
            show(f"{n} at once, {kind}: folio / llama-server", [a / b for a, b in zip(ours, theirs)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ends", default="0,2", help="tokens that end a text (default: SmolLM2's)")
    parser.add_argument("--serve", default=str(ROOT / "build" / "serve"), help="another build's program")
    parser.add_argument("--beside", action="store_true", help="beside llama.cpp's server")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        export(args.model, "--out", folder / "hf", "--format", "hf", "--type", "bf16")
        flags = []
        for i in range(args.batch):
            write_adapter(folder / f"a{i}", folder / "hf", i, rank=args.rank, size=0.02)
            flags += ["--adapter", f"a{i}={folder / f'a{i}'}"]
        print(f"{'':52}   median   range, of {args.rounds} rounds")
        if args.beside:
            return beside_llama_server(folder, args)
        server = subprocess.Popen([args.serve, "-m", args.model, "--name", "base", "--port", "0", "-t", str(args.threads),
                                   "--max-sequences", str(args.batch), *flags], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            url = server.stdout.readline().strip()
            sides = {"one text": ["base"], "one text, an adapter": ["a0"], "a batch": ["base"] * args.batch,
                     "a batch, one adapter": ["a0"] * args.batch,
                     "a batch, an adapter each": [f"a{i}" for i in range(args.batch)]}
            speeds = {side: [] for side in sides}
            for i in range(args.rounds + 1):
                for side, names in sides.items():
                    found = speed(url, names, args)
                    if i > 0:  # the first round is a warm-up
                        speeds[side].append(found)
        finally:
            server.terminate()
            server.wait()
    for side, values in speeds.items():
        show(f"{side}, tokens/s", values)
    for side, base in (("one text, an adapter", "one text"), ("a batch, one adapter", "a batch"),
                       ("a batch, an adapter each", "a batch")):
        show(f"{side}: of the speed without", [a / b for a, b in zip(speeds[side], speeds[base])])


if __name__ == "__main__":
    main()
