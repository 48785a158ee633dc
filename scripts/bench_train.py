#!/usr/bin/env python3
"""Compares a training step with the same Llama in plain PyTorch, in alternating rounds.

Usage: scripts/bench_train.py [--shape small large] [--dropout 0 0.2] [--rounds N] [--no-compile]

A step is a batch, forward, backward, clipping and AdamW. Small: 4 layers, width 128, 4 heads, 12 windows of 64 tokens.
Large: 6 layers, width 384, 6 heads, 8 windows of 256. PyTorch runs eager and compiled, in f32 and under bf16 autocast,
with fused AdamW; each variant in its own process. Prints the median over rounds of each process's median step time with
the range, the peak resident memory, and the ratio of Folio's faster type to PyTorch's best within a round."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))
SHAPES = {"small": dict(layers=4, dim=128, heads=4, hidden=352, batch=12, context=64, steps=40),
          "large": dict(layers=6, dim=384, heads=6, hidden=1024, batch=8, context=256, steps=10)}
VOCABULARY = 66


def folio(shape, dropout, dtype, threads):
    command = [BUILD / "train", "tinyshakespeare", "--profile", "--layers", shape["layers"], "--dim", shape["dim"], "--heads",
               shape["heads"], "--hidden-dim", shape["hidden"], "--batch-size", shape["batch"], "--context",
               shape["context"], "--dropout", dropout, "--dtype", dtype, "--threads", threads]
    return timed([str(part) for part in command], r"without the profiler: ([\d.]+) ms")


def pytorch(shape, dropout, dtype, threads, compiled):
    settings = dict(shape, dropout=dropout, dtype=dtype, threads=threads, compiled=compiled)
    return timed([sys.executable, __file__, "--step", json.dumps(settings)], r"([\d.]+) ms")


def timed(command, pattern):
    """Runs a command. Returns a step's ms, which `pattern` finds in its output, and its peak resident memory in MB."""
    done = subprocess.run(["/usr/bin/env", "python3", "-c", """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([done.returncode, done.stdout, done.stderr, kb / 1024]))
""", *command], capture_output=True, text=True, check=True)
    code, out, error, megabytes = json.loads(done.stdout)
    if code != 0:
        raise SystemExit(f"{' '.join(command)}: {error}")
    return float(re.search(pattern, out)[1]), megabytes


def step(settings):
    """Runs PyTorch and prints the median step time."""
    import contextlib
    import time

    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    s = argparse.Namespace(**settings)
    torch.manual_seed(1)
    torch.set_num_threads(s.threads)
    head_dim = s.dim // s.heads
    angles = torch.outer(torch.arange(s.context), 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim))
    cos, sin = angles.cos(), angles.sin()

    def rotated(x):
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack((u * cos - v * sin, u * sin + v * cos), -1).flatten(-2)

    def linear(n_in, n_out):
        return nn.Linear(n_in, n_out, bias=False)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.ffn_norm = (nn.RMSNorm(s.dim, eps=1e-5) for _ in range(2))
            self.qkv, self.wo = linear(s.dim, 3 * s.dim), linear(s.dim, s.dim)
            self.gate_up, self.down = linear(s.dim, 2 * s.hidden), linear(s.hidden, s.dim)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = (y.view(b, t, s.heads, head_dim).transpose(1, 2)
                       for y in self.qkv(self.attention_norm(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True, dropout_p=s.dropout)
            x = x + F.dropout(self.wo(y.transpose(1, 2).reshape(b, t, d)), s.dropout)
            gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
            return x + F.dropout(self.down(F.silu(gate) * up), s.dropout)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, s.dim)
            self.blocks = nn.ModuleList(Block() for _ in range(s.layers))
            self.norm = nn.RMSNorm(s.dim, eps=1e-5)
            for p in self.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=0.02)

        def forward(self, tokens):
            x = F.dropout(self.embedding(tokens), s.dropout)
            for block in self.blocks:
                x = block(x)
            return F.linear(self.norm(x), self.embedding.weight)

    model = Llama()
    run = torch.compile(model) if s.compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), fused=True)
    text = torch.randint(0, VOCABULARY - 1, (100_000,))
    times = []
    for _ in range(5 + s.steps):
        start = time.perf_counter()
        first = torch.randint(len(text) - s.context, (s.batch, 1))
        rows = text[first + torch.arange(s.context + 1)]
        with torch.autocast("cpu", torch.bfloat16) if s.dtype == "bf16" else contextlib.nullcontext():
            logits = run(rows[:, :-1])
        F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - start))
    print(f"{statistics.median(times[5:]):.2f} ms")


def with_range(values, digits=0):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dropout", nargs="+", type=float, default=[0, 0.2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--step", type=json.loads, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.step:
        return step(a.step)
    for name in a.shape:
        for dropout in a.dropout:
            variants = {f"Folio, {dtype}": (folio, dtype) for dtype in ("f32", "bf16")}
            for compiled in (False,) if a.no_compile else (False, True):
                for dtype in ("f32", "bf16"):
                    variants[f"PyTorch {'compiled' if compiled else 'eager'}, {dtype}"] = (pytorch, dtype, compiled)
            seen = {variant: [] for variant in variants}
            for _ in range(a.rounds):
                for variant, (measure, dtype, *more) in variants.items():
                    seen[variant].append(measure(SHAPES[name], dropout, dtype, a.threads, *more))
            print(f"\n{name}, dropout {dropout:g}\n\n| | ms a step | peak, MB |\n|---|---|---|")
            for variant, rounds in seen.items():
                times, memory = zip(*rounds)
                print(f"| {variant} | {with_range(times, 1)} | {max(memory):.0f} |")
            ours, theirs = ([min(seen[v][i][0] for v in variants if v.startswith(who)) for i in range(a.rounds)]
                            for who in ("Folio", "PyTorch"))
            print(f"\nFolio's best / PyTorch's best: {with_range([x / y for x, y in zip(ours, theirs)], 2)}", flush=True)


if __name__ == "__main__":
    main()
