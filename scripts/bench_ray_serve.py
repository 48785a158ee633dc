#!/usr/bin/env python3
"""Measures folio.ray_serve with two single-threaded replicas, compared with build/serve with two threads.

Usage: build/venv-ray/bin/python scripts/bench_ray_serve.py [MODEL] [--streams N] [--at-once N] [--tokens N] [--rounds
N]

MODEL defaults to SmolLM2-135M-Instruct in Q4_1. Each round starts both servers, in alternating order, and streams
--streams completions of exactly --tokens tokens, --at-once at a time. Prints medians over the rounds: tokens/s from the
first request to the last byte, the time to first token, and CPU time per token and per stream by kind of process.
PYTHONPATH must contain the package if it isn't installed."""
import argparse
import asyncio
import contextlib
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from servers import BUILD
from sse_client import Connection, post, read

ROOT = pathlib.Path(__file__).resolve().parents[1]
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
KINDS = {"ServeReplica:default:Replica": "replicas", "ServeReplica:default:Ingress": "ingress", "ProxyActor": "proxy",
         "ServeController": "controller", "raylet": "raylet", "gcs_server": "gcs", "serve": "serve"}


def processor_seconds(of):
    """Returns {kind, from KINDS: CPU seconds} of the descendants of process `of`, which include Ray's processes."""
    parents, names, seconds = {}, {}, {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            seconds[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            names[pid] = (stat.parent / "cmdline").read_text().replace("\0", " ")
    found = {}
    for pid, name in names.items():
        ancestor = pid
        while ancestor not in (0, 1, of):
            ancestor = parents.get(ancestor, 0)
        if ancestor == of:
            kind = next((kind for part, kind in KINDS.items() if part in name.split(" ")[0]), "other")
            found[kind] = found.get(kind, 0) + seconds[pid]
    return found


@contextlib.contextmanager
def running(name, model):
    """Runs the server `name` during the `with` block, and yields (process, port)."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = ([BUILD / "serve", "-m", model, "--threads", "2"] if name.startswith("serve") else
               [sys.executable, "-m", "folio.ray_serve", model, "--replicas", "2"])
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled",
                                                 "RAY_ADDRESS": "local"})
    try:
        while not process.stdout.readline().startswith("http://"):
            if process.poll() is not None:
                raise RuntimeError(f"{name} did not start")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield process, port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


async def load(port, n, at_once, n_tokens, seed):
    draw = random.Random(seed)
    payloads = [post("/v1/completions", {"prompt": "".join(draw.choices("etaoin shrdlu", k=64)), "max_tokens": n_tokens,
                                         "seed": i, "stream": True, "stream_options": {"include_usage": True},
                                         "logit_bias": {"0": -100, "2": -100}}) for i in range(n)]
    turns = asyncio.Semaphore(at_once)
    loop = asyncio.get_running_loop()

    async def one(payload):
        async with turns:
            start, closed = time.perf_counter(), loop.create_future()
            _, connection = await loop.create_connection(lambda: Connection(payload, closed), "127.0.0.1", port)
            await closed
            return start, connection.pieces

    began = time.perf_counter()
    pieces = await asyncio.gather(*map(one, payloads))
    seconds = time.perf_counter() - began
    answers = [read(p, start) for start, p in pieces]
    assert all(answer.tokens == n_tokens for answer in answers), [answer.tokens for answer in answers]
    return n * n_tokens / seconds, statistics.median(1e3 * (a.times[0] - a.start) for a in answers), [a.text for a in answers]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=pathlib.Path, default=SMOLLM2)
    p.add_argument("--streams", type=int, default=64)
    p.add_argument("--at-once", type=int, default=16)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", choices=("serve", "ray_serve"))
    a = p.parse_args()
    results = {name: [] for name in ("serve, 2 threads", "ray_serve, 2 replicas of 1")
               if a.only is None or name.startswith(a.only + ",")}
    for round_ in range(a.rounds):
        texts = []
        for name in list(results)[::1 if round_ % 2 == 0 else -1]:
            with running(name, a.model) as (process, port):
                asyncio.run(load(port, a.at_once, a.at_once, a.tokens, "warm-up"))
                before = processor_seconds(process.pid)
                speed, first, text = asyncio.run(load(port, a.streams, a.at_once, a.tokens, round_))
                after = processor_seconds(process.pid)
            texts.append(text)
            results[name].append((speed, first, {kind: after[kind] - before.get(kind, 0) for kind in after}))
            print(f"round {round_ + 1}, {name}: {speed:.0f} tokens/s", file=sys.stderr)
        assert texts[0] == texts[-1], "the texts differ"
    print(f"{a.model.name}: {a.streams} streams of {a.tokens} tokens, {a.at_once} at once, {a.rounds} rounds; medians")
    for name, rounds in results.items():
        print(f"{name}: {statistics.median(r[0] for r in rounds):.0f} tokens/s, first token after "
              f"{statistics.median(r[1] for r in rounds):.0f} ms")
        for kind in sorted({kind for r in rounds for kind in r[2]}):
            seconds = statistics.median(r[2].get(kind, 0) for r in rounds)
            print(f"    {kind:10} {1e6 * seconds / a.streams / a.tokens:7.0f} µs a token, {1e3 * seconds / a.streams:6.1f} ms a stream")


if __name__ == "__main__":
    main()
