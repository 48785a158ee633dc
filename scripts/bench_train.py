#!/usr/bin/env python3
"""Compares a training step with the same Llama in plain PyTorch, in alternating rounds.

Usage: scripts/bench_train.py [--shape small large] [--dropout 0 0.2] [--rounds N] [--no-compile]

A step is a batch, forward, backward, clipping and AdamW. Small: 4 layers, width 128, 4 heads, 12 windows of 64 tokens.
Large: 6 layers, width 384, 6 heads, 8 windows of 256. PyTorch runs eager and compiled, in f32 and under bf16 autocast,
with fused AdamW; each variant in its own process. Prints the median over rounds of each process's median step time with
the range, the peak resident memory, and the ratio of Folio's faster type to PyTorch's best within a round."""
import argparse
import json
import re
import statistics
import sys

from compare import BUILD, alternate, parser, ratios, report, run, with_range

SHAPES = {"small": dict(layers=4, dim=128, heads=4, hidden=352, batch=12, context=64, steps=40),
          "large": dict(layers=6, dim=384, heads=6, hidden=1024, batch=8, context=256, steps=10)}
VOCABULARY = 66


def folio(shape, dropout, dtype, threads):
    command = [BUILD / "train", "tinyshakespeare", "--profile", "--layers", shape["layers"], "--dim", shape["dim"], "--heads",
               shape["heads"], "--hidden-dim", shape["hidden"], "--batch-size", shape["batch"], "--context",
               shape["context"], "--dropout", dropout, "--dtype", dtype, "--threads", threads]
    return timed(command, r"without the profiler: ([\d.]+) ms")


def pytorch(shape, dropout, dtype, threads, compiled):
    settings = dict(shape, dropout=dropout, dtype=dtype, threads=threads, compiled=compiled)
    return timed([sys.executable, __file__, "--step", json.dumps(settings)], r"([\d.]+) ms")


def timed(command, pattern):
    """Runs a command. Returns a step's ms, which `pattern` finds in its output, and its peak resident memory in MB."""
    done = run(*command)
    return float(re.search(pattern, done.out)[1]), done.peak_mb


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


def main():
    p = parser(__doc__, rounds=5)
    p.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    p.add_argument("--dropout", nargs="+", type=float, default=[0, 0.2])
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--step", type=json.loads, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.step:
        return step(a.step)
    variants = {f"Folio, {dtype}": (folio, dtype) for dtype in ("f32", "bf16")}
    for compiled in (False,) if a.no_compile else (False, True):
        for dtype in ("f32", "bf16"):
            variants[f"PyTorch {'compiled' if compiled else 'eager'}, {dtype}"] = (pytorch, dtype, compiled)
    for name in a.shape:
        for dropout in a.dropout:
            def measure(side, _):
                run_step, dtype, *more = variants[side[2]]
                return run_step(SHAPES[name], dropout, dtype, a.threads, *more)

            results = alternate([(name, dropout, variant) for variant in variants], measure, a)
            times = {variant: [r[0] for r in results[name, dropout, variant]] for variant in variants}
            rows = [[variant, with_range(ms, 1), f"{max(r[1] for r in results[name, dropout, variant]):.0f}"]
                    for variant, ms in times.items()]
            ours, theirs = ([min(of_round) for of_round in zip(*(times[v] for v in variants if v.startswith(who)))]
                            for who in ("Folio", "PyTorch"))
            rows.append(["Folio's best / PyTorch's best", with_range(ratios(ours, theirs)), ""])
            report(a, results, ["", "ms a step", "peak, MB"], rows, f"{name}, dropout {dropout:g}\n")


if __name__ == "__main__":
    main()
