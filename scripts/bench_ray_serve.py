#!/usr/bin/env python3
"""Measures folio.ray_serve with two single-threaded replicas, compared with build/serve with two threads.

Usage: build/venv-ray/bin/python scripts/bench_ray_serve.py [MODEL] [--streams N] [--at-once N] [--tokens N] [--rounds N]

MODEL defaults to SmolLM2-135M-Instruct in Q4_1. Each round starts both servers, in alternating order, and streams
--streams completions of exactly --tokens tokens, --at-once at a time. Prints medians over the rounds: tokens/s from the
first request to the last byte, the time to first token, and CPU time per token and per stream by kind of process.
PYTHONPATH must contain the package if it isn't installed."""
import asyncio
import contextlib
import os
import pathlib
import random
import statistics
import sys

from compare import BUILD, SMOLLM2, alternate, parser, report, with_range
from servers import Server
from sse_client import Request, run

KINDS = {"ServeReplica:default:Replica": "replicas", "ServeReplica:default:Ingress": "ingress", "ProxyActor": "proxy",
         "ServeController": "controller", "raylet": "raylet", "gcs_server": "gcs", "serve": "serve"}


def processor_seconds(of):
    """Returns {kind of process: CPU seconds} of all descendants of the process with ID `of`. The kinds are the values
    of KINDS and "other"."""
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


def measure(command, round_, a):
    """Starts the server. Returns tokens/s, time to first token, CPU seconds by kind of process, and generated texts."""
    def load(n, seed):
        draw = random.Random(seed)
        requests = [Request("".join(draw.choices("etaoin shrdlu", k=64)), a.tokens) for _ in range(n)]
        return asyncio.run(run(server, requests, no_end=[0, 2], at_once=a.at_once, temperature=0.8, seed=1))

    with Server("folio", command=command) as server:
        load(a.at_once, "warm-up")
        before = processor_seconds(server.process.pid)
        found = load(a.streams, round_)
        after = processor_seconds(server.process.pid)
    return {"tokens/s": found.tokens_per_s, "first token, ms": 1e3 * statistics.median(found.first_token()),
            "cpu": {kind: after[kind] - before.get(kind, 0) for kind in after},
            "texts": [answer.text for answer in found.answers]}


def main():
    p = parser(__doc__, rounds=3, threads=None)
    p.add_argument("model", nargs="?", type=pathlib.Path, default=SMOLLM2)
    p.add_argument("--streams", type=int, default=64)
    p.add_argument("--at-once", type=int, default=16)
    p.add_argument("--tokens", type=int, default=64)
    a = p.parse_args()
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_ADDRESS="local")
    commands = {"serve, 2 threads": [BUILD / "serve", "-m", a.model, "--threads", 2],
                "ray_serve, 2 replicas of 1": [sys.executable, "-m", "folio.ray_serve", a.model, "--replicas", 2]}
    results = alternate(commands, lambda name, round_: measure(commands[name], round_, a), a)
    for of_round in zip(*results.values()):
        assert all(side["texts"] == of_round[0]["texts"] for side in of_round), "the texts differ"
    rows = []
    for name, rounds in results.items():
        rows += [[name, what, with_range([r[what] for r in rounds], 0)] for what in ("tokens/s", "first token, ms")]
        for kind in sorted({kind for r in rounds for kind in r["cpu"]}):
            seconds = [r["cpu"].get(kind, 0) for r in rounds]
            rows += [[name, f"{kind}, µs a token", with_range([1e6 * s / a.streams / a.tokens for s in seconds], 0)],
                     [name, f"{kind}, ms a stream", with_range([1e3 * s / a.streams for s in seconds], 1)]]
    report(a, results, ["", "", "median (range)"], rows,
           f"{a.model.name}: {a.streams} streams of {a.tokens} tokens, {a.at_once} at once, {a.rounds} rounds\n")


if __name__ == "__main__":
    main()
