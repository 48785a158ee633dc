#!/usr/bin/env python3
"""Measures decode tokens/s of `serve` with adapters, compared with the base model.

    scripts/bench_adapters.py /tmp/smollm2.Q8_0.gguf --rounds 7

Creates random adapters of --rank on all seven target matrices. Each round alternates: one sequence with the base model,
one with an adapter; --batch concurrent sequences with the base model, with one adapter, with --batch adapters. Time is
that of the engine's steps from /metrics; ratios are taken within a round. Prints medians with minimum and maximum.

    scripts/bench_adapters.py /tmp/smollm2.Q8_0.gguf --beside --rounds 7

Compares with llama.cpp's server (built by `make interop`) and the same adapter, exported as GGUF: one sequence and four
concurrent ones, with the adapter and without. Time is the client's, from the first request to the last response."""
import concurrent.futures
import contextlib
import pathlib
import sys
import tempfile
import time

from compare import BUILD, ROOT, alternate, parser, ratios, report, run, with_range
from servers import Server

sys.path.append(str(ROOT / "tests" / "apps"))
from adapters import write_adapter  # noqa: E402


def decode(server, names, args):
    """Generates a sequence for each model name, concurrently. Returns the number of tokens. Suppresses end tokens."""
    def ask(i, name):
        _, answer = server.call("/v1/completions", {"model": name, "prompt": "A", "seed": i, "max_tokens": args.tokens,
                                                    "logit_bias": {token: -100 for token in args.ends.split(",")}})
        return answer["usage"]["completion_tokens"]

    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        n_tokens = list(pool.map(ask, range(len(names)), names))
    assert n_tokens == [args.tokens] * len(names), n_tokens
    return sum(n_tokens)


def speed(server, names, args, clock):
    """Generates a sequence for each model name. Returns tokens per second of `clock`, a function."""
    before = clock()
    n_tokens = decode(server, names, args)
    return n_tokens / (clock() - before)


def with_base(folder, args):
    """Returns {kind of batch: tokens/s of each round} for one server, and the pairs of kinds whose ratios are
    printed."""
    adapters = [f"a{i}" for i in range(args.batch)]
    names = {"one sequence": ["base"], "one sequence, an adapter": ["a0"], "a batch": ["base"] * args.batch,
             "a batch, one adapter": ["a0"] * args.batch, "a batch, an adapter each": adapters}
    flags = [word for name in adapters for word in ("--adapter", f"{name}={folder / name}")]
    with Server("folio", command=[BUILD / "serve", "-m", args.model, "--name", "base", "-t", args.threads,
                                  "--max-sequences", args.batch, *flags]) as server:
        in_steps = lambda: server.metric("step_seconds_total")
        results = alternate(names, lambda side, _: speed(server, names[side], args, in_steps), args, warm_up=1)
    return results, [(side, side.split(",")[0]) for side in names if "," in side]


def with_llama_server(folder, args):
    """Returns {description of the load and server: tokens/s of each round}, and the pairs of keys whose ratios are
    printed."""
    directory, file = folder / "a0", folder / "a0.gguf"
    run(BUILD / "export", directory, "--out", file, "--format", "gguf-lora", "--base", folder / "hf")
    with contextlib.ExitStack() as stack:
        start = lambda name, *more: stack.enter_context(Server(name, args.model, threads=args.threads, more=more))
        ours = start("folio", "--name", "base", "--adapter", f"a0={directory}")
        adapted, plain = start("llama-server", "--lora", file), start("llama-server")
        servers = {"with the adapter: folio": (ours, "a0"), "with the adapter: llama-server": (adapted, "a0"),
                   "without: folio": (ours, "base"), "without: llama-server": (plain, "base")}
        sides = {f"{n} at once, {side}": (server, [name] * n)
                 for n in (1, 4) for side, (server, name) in servers.items()}
        results = alternate(sides, lambda side, _: speed(*sides[side], args, time.perf_counter), args, warm_up=1)
    return results, [(side, side.replace(": folio", ": llama-server")) for side in results if side.endswith(": folio")]


def main():
    p = parser(__doc__, rounds=7)
    p.add_argument("model")
    p.add_argument("--rank", type=int, default=8)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--tokens", type=int, default=96)
    p.add_argument("--ends", default="0,2", help="tokens that end a text (default: SmolLM2's)")
    p.add_argument("--beside", action="store_true", help="compare with llama.cpp's server instead")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run(BUILD / "export", args.model, "--out", folder / "hf", "--format", "hf", "--type", "bf16")
        for i in range(args.batch):
            write_adapter(folder / f"a{i}", folder / "hf", i, rank=args.rank, size=0.02)
        results, pairs = with_llama_server(folder, args) if args.beside else with_base(folder, args)
    rows = [[f"{side}, tokens/s", with_range(speeds, 1)] for side, speeds in results.items()]
    rows += [[f"{side} / {base}", with_range(ratios(results[side], results[base]), 3)] for side, base in pairs]
    report(args, results, ["", f"median (range) of {args.rounds} rounds"], rows)


if __name__ == "__main__":
    main()
