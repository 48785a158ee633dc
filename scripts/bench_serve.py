#!/usr/bin/env python3
"""Compares Folio's server with llama.cpp's or vLLM's: same prompts, lengths, sequences, threads and type of KV cache.

Usage: scripts/bench_serve.py [MODEL.gguf ...] [--rates R ...] [--requests N] [--rounds N] [--shared-prefix N]
       scripts/bench_serve.py [MODEL.gguf ...] --prefix
       scripts/bench_serve.py [MODEL.gguf ...] --slow-clients 1000 --only folio

`make interop` builds llama-server; FOLIO_LLAMA_SERVER selects another. `--only "folio --fast" vllm` compares the
arithmetic of 16-bit models; FOLIO_VLLM selects vLLM's program, which reads a directory made by build/export. Default
models: SmolLM2-135M-Instruct in Q8_0 and Q4_0, made by build/export. scripts/servers.py starts the servers.

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
import asyncio
import json
import math
import pathlib
import random
import statistics
import sys

from compare import BUILD, SMOLLM2, TINYSHAKESPEARE, alternate, parser, positive, ratios, report, run as run_program, with_range
from picture import Panel, plot
from servers import COMMANDS, LLAMA_SERVER, Server, kind_of, raise_descriptor_limit
from slow_clients import SlowClients, unread_port
from sse_client import Request, run

PROMPT = dict(median=128, sigma=0.8, low=16, high=640)
OUTPUT = dict(median=64, sigma=0.6, low=8, high=256)
SEPARATE = 20  # number of prompt tokens and of output tokens of the warm-up request, which is not measured
METRICS = {"tokens/s": 0, "first token, ms: median": 0, "99 %": 0, "between tokens, ms: median": 1, "99 % ": 1,
           "client, % of all cores": 1}


def exported(type_, out):
    path = out / f"SmolLM2-135M-Instruct.{type_.upper()}.gguf"
    if not path.exists():
        run_program(BUILD / "export", SMOLLM2, "--out", path, "--type", type_)
    return path


def llama_version():
    if not LLAMA_SERVER.exists():
        sys.exit(f"llama-server is not at {LLAMA_SERVER}: build it with `make interop`, set FOLIO_LLAMA_SERVER to "
                 "another, or measure with --only folio")
    done = run_program(LLAMA_SERVER, "--version")
    return "llama-server " + (done.out + done.error).split("\n")[0].removeprefix("version: ")


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


def rate_name(rate):
    return f"{rate:g}/s" if math.isfinite(rate) else "all at once"


def text_tokens(server):
    """Returns the tokens of the first 200,000 characters of TinyShakespeare."""
    text = TINYSHAKESPEARE.read_text()[:200_000]
    return sum((server.tokenize(text[i:i + 50_000]) for i in range(0, len(text), 50_000)), [])


def directory_of(model, out):
    """Exports a model file to a Hugging Face directory in BF16, if that wasn't done before. Returns the directory."""
    path = out / f"{pathlib.Path(model).stem}-{pathlib.Path(model).stat().st_mtime_ns}.hf"
    if not path.exists():
        run_program(BUILD / "export", model, "--out", path, "--format", "hf", "--type", "bf16")
    return path


def server_of(name, model, a, **more):
    model = directory_of(model, a.out) if kind_of(name) == "vllm" else model
    return Server(name, model, **{"sequences": a.sequences, "context": a.context, "threads": a.threads,
                                  "cache_type": a.cache_type, **more})


def measure_load(model, a):
    """Saves the results of all rounds as JSON, and a plot. Like every measure_…(), returns arguments of report():
    {name of each side: [result of each round]}, and the table's head, rows and title."""
    tokens = []

    def side(name, round_):
        with server_of(name[1], model, a) as server:
            tokens[:] = tokens or text_tokens(server)
            asyncio.run(run(server, [Request(tokens[-SEPARATE:], SEPARATE)], a.no_end))
            return {rate_name(rate): numbers(asyncio.run(run(server, requests_for(tokens, rate, a, round_), a.no_end)))
                    for rate in [*a.rates, math.inf]}

    results = alternate([(model, server) for server in a.only], side, a)
    name = pathlib.Path(model).stem
    rates = [rate_name(rate) for rate in [*a.rates, math.inf]]
    of = lambda server, rate, metric: [r[rate][metric] for r in results[model, server]]
    rows = [[rate, server] + [with_range(of(server, rate, metric), digits) for metric, digits in METRICS.items()]
            for rate in rates for server in a.only]
    if len(a.only) == 2:
        ratio = lambda metric: with_range(ratios(*(of(server, rates[-1], metric) for server in a.only)))
        rows.append([rates[-1], " / ".join(a.only), *(ratio(m) if m in ("tokens/s", "99 % ") else "" for m in METRICS)])
    (a.out / f"{name}.json").write_text(json.dumps({s: results[model, s] for s in a.only}, indent=1))
    panels = []
    for title, metrics in (("tokens/s", ["tokens/s"]), ("first token, ms", ["first token, ms: median", "99 %"]),
                           ("between tokens, ms", ["between tokens, ms: median", "99 % "])):
        lines = [(f"s{i}{dash}", [(rate, of(server, rate, metric)) for rate in rates])
                 for i, server in enumerate(a.only) for metric, dash in zip(metrics, ("", " dashed"))]
        two = len(metrics) > 1
        panels.append(Panel(title + (": median and 99 % (dashed)" if two else ""), lines, rates, log=two))
    subtitle = (f"{name}, {a.threads} threads, {a.sequences} sequences, {a.cache_type.upper()} cache; "
                f"medians and range of {a.rounds} rounds")
    svg = a.out / f"{name}.svg"
    svg.write_text(plot(panels, a.only, "Folio's server and others", subtitle, "requests a second"))
    print(svg, file=sys.stderr)
    return results, ["requests", "server", *METRICS], rows, (
        f"{a.version}{name}, {a.threads} threads, {a.sequences} sequences of {a.context}, {a.cache_type} cache, "
        f"{a.requests} requests, {a.rounds} rounds, seed {a.seed}\n")


def measure_prefix(model, a):
    prefix, own, later = 1000, 16, 8

    def times(name, server, tokens, round_):
        """Returns {"client": times, "server": times}: times to first token in ms, measured by the client and by the
        server. The first time is for a new prompt. All later prompts share a prefix with it."""
        clock = "time_to_first_token_seconds_sum" if kind_of(name) == "folio" else "prompt_seconds_total"
        draw = random.Random(f"{a.seed} {round_} prefix")
        shared, seen = window(draw, tokens, prefix), {"client": [], "server": []}
        for _ in range(1 + later):
            before = server.metric(clock)
            load = asyncio.run(run(server, [Request(shared + window(draw, tokens, own), 4)], a.no_end))
            seen["client"].append(1e3 * load.first_token()[0])
            if before is not None:
                seen["server"].append(1e3 * (server.metric(clock) - before))
        return seen

    results, rows = {}, []
    for name in a.only:
        with server_of(name, model, a, context=1280) as server:
            tokens = text_tokens(server)
            asyncio.run(run(server, [Request(tokens[-SEPARATE:], SEPARATE)], a.no_end))
            results |= alternate([(model, name, "prefix")], lambda _, round_: times(name, server, tokens, round_), a)
        rounds = results[model, name, "prefix"]
        for where in ("client", "server"):
            first = [r[where][0] for r in rounds if r[where]]
            others = [ms for r in rounds for ms in r[where][1:]]
            if first:
                rows.append([name, where, with_range(first, 1), with_range(others, 1),
                             f"{statistics.median(first) / statistics.median(others):.1f}"])
    return results, ["server", "measured at the", "first, ms", "later, ms", "times shorter"], rows, (
        f"{pathlib.Path(model).name}: time to first token of prompts of {prefix} shared and {own} other tokens\n")


def measure_slow(model, a):
    streams, prompt, output = 50, 16, 96
    context = 128  # small, so that the warm-up fills each KV cache and later growth of memory is due to the clients

    async def load(server, tokens, seed):
        draw = random.Random(f"{a.seed} {seed} slow")
        load = await run(server, [Request(window(draw, tokens, prompt), output) for _ in range(streams)], a.no_end)
        between = load.between_tokens()
        return (1e3 * statistics.median(between), 1e3 * percentile(between, 0.99), server.threads(),
                server.resident_mb(), 100 * load.client_share)

    async def load_beside(server, port, tokens, seed):
        """Runs load() while slow clients are connected. Returns the values of load(), the number of connected slow
        clients, and how often the server disconnected one."""
        async with SlowClients(port, a.slow_clients) as slow:
            return *await load(server, tokens, seed), len(slow.open), slow.cut_off

    def load_of(what, server, tokens, round_):
        if what == "alone":
            return asyncio.run(load(server, tokens, round_))
        with unread_port() as unread:
            port = unread if what == "clients elsewhere" else server.port
            return asyncio.run(load_beside(server, port, tokens, round_))

    sides = ("alone", "clients elsewhere", "clients of the server")
    rows, results, title = [], {}, f"{pathlib.Path(model).name}: {streams} streams, and {a.slow_clients} slow clients\n"
    for name in a.only:
        with server_of(name, model, a, sequences=streams, context=context) as server:
            tokens = text_tokens(server)
            for seed in ("warm-up", "warm-up again"):
                asyncio.run(load(server, tokens, seed))
            results |= alternate([(model, name, what) for what in sides],
                                 lambda side, round_: load_of(side[2], server, tokens, round_), a)
        seen = {what: results[model, name, what] for what in sides}
        for what in sides:
            values = list(zip(*seen[what]))
            rows.append([name, what] + [with_range(v, d) for v, d in zip(values, [1, 1, 0, 1, 1])])
        between = {what: [r[0] for r in seen[what]] for what in sides}
        for x, y in (("clients of the server", "alone"), ("clients elsewhere", "alone"),
                     ("clients of the server", "clients elsewhere")):
            rows.append([name, f"{x} / {y}", with_range(ratios(between[x], between[y]), 3), *[""] * 4])
        memory = max(r[3] for r in seen["clients of the server"]) - min(r[3] for r in seen["alone"])
        *_, connected, cut_off = seen["clients of the server"][-1]
        title += (f"{name}: {memory:.1f} MB more with slow clients; at the end {connected} of them were connected, "
                  f"after {cut_off} disconnections\n")
    return results, ["server", "streams", "between tokens, ms: median", "99 %", "server's threads", "resident, MB",
                     "client, % of all cores"], rows, title


def main():
    p = parser(__doc__, rounds=5)
    p.add_argument("models", nargs="*")
    p.add_argument("--only", nargs="+", default=["folio", "llama-server"],
                   help="these servers (folio, llama-server, vllm), with flags: \"folio --max-batch-tokens 128\"")
    p.add_argument("--rates", nargs="+", type=float, default=[1, 2, 4], help="requests/s")
    p.add_argument("--requests", type=positive, default=64)
    p.add_argument("--sequences", type=positive, default=16)
    p.add_argument("--context", type=int, default=1024, help="of a sequence")
    p.add_argument("--cache-type", choices=["f16", "f32"], default="f16")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--no-end", nargs="+", type=int, default=[0, 2, 4], help="tokens that end an answer")
    p.add_argument("--out", type=pathlib.Path, default=BUILD / "bench_serve")
    p.add_argument("--shared-prefix", type=int, default=0, metavar="TOKENS")
    p.add_argument("--prefix", action="store_true")
    p.add_argument("--slow-clients", type=int, default=0, metavar="N")
    a = p.parse_args()
    kinds = [kind_of(name) for name in a.only]
    for kind in kinds:
        if kind not in COMMANDS:
            p.error(f"--only {kind!r} is not one of {', '.join(COMMANDS)}")
    if "vllm" in kinds and (a.prefix or a.shared_prefix or a.slow_clients or a.cache_type != "f16"):
        p.error("vllm is measured only under load, without a shared prefix and with a cache in 16 bits")
    for file in a.models:
        if not pathlib.Path(file).exists():
            p.error(f"there is no {file}")
    a.version = f"{llama_version()}: " if "llama-server" in kinds else ""
    a.out.mkdir(parents=True, exist_ok=True)
    raise_descriptor_limit()
    for model in map(str, a.models or [exported("q8_0", a.out), exported("q4_0", a.out)]):
        measure = measure_prefix if a.prefix else measure_slow if a.slow_clients else measure_load
        try:
            results, *arguments = measure(model, a)
        except (OSError, RuntimeError) as error:
            sys.exit(f"bench_serve.py: {str(error).strip()}")
        own = {name: rounds for name, rounds in results.items() if name[0] == model}  # --keep may add other models
        report(a, own, *arguments)


if __name__ == "__main__":
    main()
