#!/usr/bin/env python3
"""Measures how fast a server answers a client's sequential requests. Prints a line of JSON.

Usage: scripts/serve_speed.py -m MODEL.gguf [-t 2] [--prompt-tokens 32] [--gen-tokens 200] [--seconds 3]

Prefill is the number of prompt tokens divided by the time to first token; decode is one over the mean time between
tokens. Both are measured on the greedy completions started within --seconds, after a warm-up of one second, in which
the server finds the best number of threads if other processes are running."""
import argparse
import asyncio
import json
import random
import signal
import statistics
import sys
import time

from servers import Server
from sse_client import Request, run

NO_END = [0, 2, 4, 65]  # end tokens of SmolLM2 and of character models, to be suppressed


async def answers(server, a):
    """Sends one request after another for 1 + --seconds seconds. The first second is a warm-up, whose results are
    dropped. Returns an sse_client.Load (arrival times and tokens) per later request, at least one."""
    loads = []
    start = time.perf_counter()
    while not loads or time.perf_counter() < start + 1 + a.seconds:
        warm = time.perf_counter() > start + 1
        prompt = [random.randint(20, 60) for _ in range(a.prompt_tokens)]  # random: never in the prefix cache
        load = await run(server, [Request(prompt, a.gen_tokens)], NO_END)
        loads += [load] if warm else []
    return loads


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-t", "--threads", default="2")
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--gen-tokens", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3)
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that `with Server` ends the server
    if a.gen_tokens < 2:
        parser.error("--gen-tokens is at least 2, so that there is time between tokens")
    try:
        with Server("folio", a.model, sequences=1, context=a.prompt_tokens + a.gen_tokens, threads=a.threads) as server:
            loads = asyncio.run(answers(server, a))
    except (OSError, RuntimeError) as error:
        sys.exit(f"serve_speed.py: {str(error).strip()}")
    first = statistics.mean(load.first_token()[0] for load in loads)
    between = statistics.mean(seconds for load in loads for seconds in load.between_tokens())
    print(json.dumps({"prefill_tokens_per_s": a.prompt_tokens / first, "decode_tokens_per_s": 1 / between}))


if __name__ == "__main__":
    main()
