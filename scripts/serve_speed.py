#!/usr/bin/env python3
"""How fast a client gets a server's answers, one after the other: a line of JSON.

Usage: scripts/serve_speed.py -m MODEL.gguf [-t 2] [--prompt-tokens 32] [--gen-tokens 200] [--answers 5]

Prefill: the prompt's tokens over the time to the answer's first token. Decode: one over the mean time between tokens.
Both of the answers behind the first one, which warms up. Answers are greedy.
"""
import argparse
import asyncio
import json
import statistics
import sys

import sse_client
from servers import Server

NO_END = [0, 2, 4, 65]  # the tokens that end an answer of SmolLM2 or of a model of characters


async def answers(server, a):
    # Each prompt has a beginning of its own, so that none is in the server's cache.
    requests = [sse_client.Request([5 + i % 50] * a.prompt_tokens, a.gen_tokens) for i in range(1 + a.answers)]
    return [await sse_client.run(server, [request], NO_END) for request in requests]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-t", "--threads", default="2")
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--gen-tokens", type=int, default=200)
    parser.add_argument("--answers", type=int, default=5)
    a = parser.parse_args()
    try:
        with Server("folio", a.model, sequences=1, context=a.prompt_tokens + a.gen_tokens, threads=a.threads) as server:
            loads = asyncio.run(answers(server, a))[1:]
    except (OSError, RuntimeError) as error:
        sys.exit(f"serve_speed.py: {error}")
    first = statistics.mean(load.first_token()[0] for load in loads)
    between = statistics.mean(seconds for load in loads for seconds in load.between_tokens())
    print(json.dumps({"prefill_tokens_per_s": a.prompt_tokens / first, "decode_tokens_per_s": 1 / between}))


if __name__ == "__main__":
    main()
