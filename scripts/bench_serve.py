#!/usr/bin/env python3
"""Compares Folio's server with llama.cpp's: same prompts, lengths, sequences, threads and type of KV cache.

Usage: scripts/bench_serve.py [MODEL.gguf ...] [--rates R ...] [--requests N] [--rounds N] [--shared-prefix N]
       scripts/bench_serve.py --prefix [MODEL.gguf ...]
       scripts/bench_serve.py --slow-clients 1000 --only folio [MODEL.gguf ...]

`make interop` builds llama-server; FOLIO_LLAMA_SERVER selects another. Default models: SmolLM2-135M-Instruct in Q8_0
and Q4_0, made by build/export. scripts/servers.py starts both servers.

Load (the first form). For each rate, and then all at once, --requests streamed greedy completions arrive as a Poisson
process. Prompts are random windows of TinyShakespeare's tokens, so that they share no cacheable prefix (--shared-prefix
N gives all of them the same first N tokens). Prompt lengths are log-normal with median 128 and sigma 0.8, clipped to 16
... 640; completion lengths have median 64 and sigma 0.6, clipped to 8 ... 256. End tokens are suppressed, so that each
completion has exactly its length. All random draws depend only on --seed, the round and the rate: both servers get the
same requests. Each round starts each server again, in alternating order. Prints medians over the rounds, with the range
in brackets: tokens/s from the first arrival to the last byte, time to first token and time between tokens (median, 99th
percentile), and this client's share of all cores. --out saves all rounds and a picture.

Prefix (--prefix). One request at a time: a new prompt of 1,000 tokens and 16 more, then eight with the same 1,000 and
16 different ones. Reports the time to first token as measured by the client and by the server's /metrics (llama-server
reports only the time of the prompt).

Slow clients (--slow-clients). 50 concurrent streams, first alone, then with N slow clients: a third open a connection
and send nothing, a third send a request at one byte per second, and a third request /metrics repeatedly and read
nothing. Clients that are disconnected reconnect. They run on the server's cores; their own cost is measured with the
same clients on a port that isn't read. Reports the time between tokens of the 50 streams, and the server's threads and
resident memory."""
import argparse
import asyncio
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

from serve_picture import picture
from servers import BUILD, COMMANDS, LLAMA_SERVER, Server, raise_descriptor_limit
from slow_clients import SlowClients, unread_port
from sse_client import Request, run

ROOT = pathlib.Path(__file__).resolve().parents[1]
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = ROOT / "data" / "tinyshakespeare" / "input.txt"
PROMPT = dict(median=128, sigma=0.8, low=16, high=640)
OUTPUT = dict(median=64, sigma=0.6, low=8, high=256)
SEPARATE = 20  # prompt tokens, and also output tokens, of the unmeasured warm-up request
METRICS = {"tokens/s": 0, "first token, ms: median": 0, "99 %": 0, "between tokens, ms: median": 1, "99 % ": 1,
           "client, % of all cores": 1}


def exported(type_, out):
    path = out / f"SmolLM2-135M-Instruct.{type_.upper()}.gguf"
    if not path.exists():
        subprocess.run([BUILD / "export", SMOLLM2, "--out", path, "--type", type_], check=True, stdout=sys.stderr)
    return path


def llama_version():
    if not LLAMA_SERVER.exists():
        sys.exit(f"{LLAMA_SERVER} is not there: make interop builds it, and FOLIO_LLAMA_SERVER names another")
    done = subprocess.run([LLAMA_SERVER, "--version"], capture_output=True, text=True, check=True)
    return "llama-server " + (done.stdout + done.stderr).split("\n")[0].removeprefix("version: ")


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def length(draw, median, sigma, low, high):
    return min(high, max(low, round(draw.lognormvariate(math.log(median), sigma))))


def window(draw, tokens, n):
    start = draw.randrange(len(tokens) - n)
    return tokens[start:start + n]


def requests_for(tokens, rate, a, round_):
    draw = random.Random(f"{a.seed} {round_} {rate}")
    prefix = window(draw, tokens, a.shared_prefix) if a.shared_prefix else []
    at, requests = 0.0, []
    for _ in range(a.requests):
        requests.append(Request(prefix + window(draw, tokens, length(draw, **PROMPT)), length(draw, **OUTPUT), at))
        at += draw.expovariate(rate) if math.isfinite(rate) else 0.0
    return requests


def numbers(load):
    first, between = load.first_token(), load.between_tokens()
    return dict(zip(METRICS, [load.tokens_per_s, 1e3 * statistics.median(first), 1e3 * percentile(first, 0.99),
                              1e3 * statistics.median(between), 1e3 * percentile(between, 0.99),
                              100 * load.client_share]))


def in_order(servers, round_):
    return servers if round_ % 2 == 0 else servers[::-1]


def with_range(values, digits):
    text = [f"{v:,.{digits}f}" for v in (statistics.median(values), min(values), max(values))]
    return text[0] if len(values) == 1 else f"{text[0]} ({text[1]}–{text[2]})"


def rate_name(rate):
    return f"{rate:g}/s" if math.isfinite(rate) else "all at once"


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def text_tokens(server):
    """Returns the tokens of the first 200,000 characters of TinyShakespeare."""
    text = TEXT.read_text()[:200_000]
    return sum((server.tokenize(text[i:i + 50_000]) for i in range(0, len(text), 50_000)), [])


async def measure_load(model, a):
    rates = [*a.rates, math.inf]
    results = {name: {rate: [] for rate in rates} for name in a.only}
    tokens = None
    for round_ in range(a.rounds):
        for name in in_order(a.only, round_):
            with Server(name, model, sequences=a.sequences, context=a.context, threads=a.threads,
                        cache_type=a.cache_type) as server:
                tokens = tokens or text_tokens(server)
                await run(server, [Request(tokens[-SEPARATE:], SEPARATE)], a.no_end)
                for rate in rates:
                    load = await run(server, requests_for(tokens, rate, a, round_), a.no_end)
                    results[name][rate].append(numbers(load))
                    print(f"round {round_ + 1}, {name}, {rate_name(rate)}: {load.tokens_per_s:.0f} tokens/s",
                          file=sys.stderr)
    return results


def report_load(model, results, a):
    rows = []
    for rate in results[a.only[0]]:
        for name in a.only:
            rounds = results[name][rate]
            rows.append([rate_name(rate), name] + [with_range([r[m] for r in rounds], d) for m, d in METRICS.items()])
    table(["requests", "server", *METRICS], rows)
    if len(a.only) == 2:
        ours, theirs = (results[name][math.inf] for name in a.only)
        for metric in ("tokens/s", "99 % "):
            ratios = [x[metric] / y[metric] for x, y in zip(ours, theirs)]
            what = "tokens/s" if metric == "tokens/s" else "99th percentile between tokens"
            print(f"All at once, {what}, {a.only[0]} / {a.only[1]}: {with_range(ratios, 2)}")
    share = max(r["client, % of all cores"] for by_rate in results.values() for rounds in by_rate.values()
                for r in rounds)
    print(f"The client's share of the processor is at most {share:.1f} %.\n", flush=True)
    name = pathlib.Path(model).stem
    plain = {server: {rate_name(rate): rounds for rate, rounds in by_rate.items()}
             for server, by_rate in results.items()}
    (a.out / f"{name}.json").write_text(json.dumps(plain, indent=1))
    panels = ["tokens/s", ("first token, ms: median", "99 %"), ("between tokens, ms: median", "99 % ")]
    subtitle = (f"{name}, {a.threads} threads, {a.sequences} sequences, {a.cache_type.upper()} cache; "
                f"medians and range of {a.rounds} rounds")
    (a.out / f"{name}.svg").write_text(picture(plain, panels, "Folio's server and llama.cpp's", subtitle))
    print(a.out / f"{name}.svg", file=sys.stderr)


async def measure_prefix(model, a):
    prefix, own, later = 1000, 16, 8
    rows = []
    for name in a.only:
        seen = {"client": ([], []), "server": ([], [])}
        with Server(name, model, sequences=a.sequences, context=1280, threads=a.threads,
                    cache_type=a.cache_type) as server:
            tokens = text_tokens(server)
            await run(server, [Request(tokens[-SEPARATE:], SEPARATE)], a.no_end)
            clock = "time_to_first_token_seconds_sum" if name == "folio" else "prompt_seconds_total"
            for round_ in range(a.rounds):
                draw = random.Random(f"{a.seed} {round_} prefix")
                shared = window(draw, tokens, prefix)
                for turn in range(1 + later):
                    before = server.metric(clock)
                    load = await run(server, [Request(shared + window(draw, tokens, own), 4)], a.no_end)
                    seen["client"][turn > 0].append(1e3 * load.first_token()[0])
                    if before is not None:
                        seen["server"][turn > 0].append(1e3 * (server.metric(clock) - before))
        for where, (first, others) in seen.items():
            if first:
                rows.append([name, where, with_range(first, 1), with_range(others, 1),
                             f"{statistics.median(first) / statistics.median(others):.1f}"])
    print(f"{pathlib.Path(model).name}: time to first token behind {prefix} shared tokens and {own} of one's own")
    table(["server", "measured at the", "first, ms", "later, ms", "times shorter"], rows)


async def measure_slow(model, a):
    streams, prompt, output = 50, 16, 96
    context = 128  # small, so that the warm-up fills each KV cache and later growth of memory is due to the clients
    rows = []
    for name in a.only:
        seen = {"alone": [], "clients elsewhere": [], "clients of the server": []}
        with Server(name, model, sequences=streams, context=context, threads=a.threads,
                    cache_type=a.cache_type) as server:
            tokens = text_tokens(server)

            async def load(seed):
                draw = random.Random(f"{a.seed} {seed} slow")
                load = await run(server, [Request(window(draw, tokens, prompt), output) for _ in range(streams)],
                                 a.no_end)
                between = load.between_tokens()
                return (1e3 * statistics.median(between), 1e3 * percentile(between, 0.99), server.threads(),
                        server.resident_mb(), 100 * load.client_share)

            await load("warm-up")
            await load("warm-up again")
            for round_ in range(a.rounds):
                seen["alone"].append(await load(round_))
                with unread_port() as port:
                    async with SlowClients(port, a.slow_clients):
                        seen["clients elsewhere"].append(await load(round_))
                async with SlowClients(server.port, a.slow_clients) as slow:
                    seen["clients of the server"].append(await load(round_))
                    here = slow.connected()
        for what, rounds in seen.items():
            rows.append([name, what] + [with_range(values, d) for values, d in zip(zip(*rounds), [1, 1, 0, 1, 1])])
        alone, elsewhere, beside = ([round_[0] for round_ in rounds] for rounds in seen.values())
        for what, x, y in (("the server's / alone", alone, beside), ("elsewhere / alone", alone, elsewhere),
                           ("the server's / elsewhere", elsewhere, beside)):
            print(f"{name}: between tokens, {a.slow_clients} clients, {what}: "
                  f"{with_range([b / a for a, b in zip(x, y)], 3)}")
        memory = [[round_[3] for round_ in seen[what]] for what in ("alone", "clients of the server")]
        print(f"{name}: {max(memory[1]) - min(memory[0]):.1f} MB more; {here} of the slow clients connected at the "
              f"end, who were cut off {slow.cut_off} times")
    print(f"{pathlib.Path(model).name}: {streams} streams, and {a.slow_clients} slow clients")
    table(["server", "streams", "between tokens, ms: median", "99 %", "server's threads", "resident, MB",
           "client, % of all cores"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS), help="these servers")
    parser.add_argument("--rates", nargs="+", type=float, default=[1, 2, 4], help="requests/s")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--context", type=int, default=1024, help="of a sequence")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache-type", choices=["f16", "f32"], default="f16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-end", nargs="+", type=int, default=[0, 2, 4], help="tokens that end an answer")
    parser.add_argument("--out", type=pathlib.Path, default=BUILD / "bench_serve")
    parser.add_argument("--shared-prefix", type=int, default=0, metavar="TOKENS")
    parser.add_argument("--prefix", action="store_true")
    parser.add_argument("--slow-clients", type=int, default=0, metavar="N")
    a = parser.parse_args()
    for file in a.models:
        if not pathlib.Path(file).exists():
            parser.error(f"there is no {file}")
    a.out.mkdir(parents=True, exist_ok=True)
    raise_descriptor_limit()
    for model in a.models or [exported("q8_0", a.out), exported("q4_0", a.out)]:
        if a.prefix:
            asyncio.run(measure_prefix(model, a))
        elif a.slow_clients:
            asyncio.run(measure_slow(model, a))
        else:
            print(f"{llama_version()}: " if "llama-server" in a.only else "", end="")
            print(f"{pathlib.Path(model).name}, {a.threads} threads, {a.sequences} sequences of {a.context}, "
                  f"{a.cache_type} cache, {a.requests} requests, {a.rounds} rounds, seed {a.seed}\n")
            report_load(model, asyncio.run(measure_load(model, a)), a)


if __name__ == "__main__":
    main()
