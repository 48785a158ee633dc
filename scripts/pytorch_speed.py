#!/usr/bin/env python3
"""Measures training steps of a Llama in plain PyTorch: batch, forward, backward, clipping and fused AdamW.

Usage: scripts/pytorch_speed.py [--layers N] [--dim N] [--heads N] [--hidden-dim N] [--batch-size N] [--context N]
       [--dropout P] [--dtype f32|bf16] [--threads N] [--steps N] [--compile]

Flags and defaults are those of train's preset tiny; bf16 is autocast. Prints one JSON object: tokens/s, from the median
time of a step after five steps of warm-up."""
import argparse
import contextlib
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 66


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads, self.dropout = s.heads, s.dropout
        self.attention_norm, self.ffn_norm = (nn.RMSNorm(s.dim, eps=1e-5) for _ in range(2))
        self.qkv, self.wo = linear(s.dim, 3 * s.dim), linear(s.dim, s.dim)
        self.gate_up, self.down = linear(s.dim, 2 * s.hidden_dim), linear(s.hidden_dim, s.dim)

    def forward(self, x, cos, sin):
        def rotated(y):
            u, v = y[..., 0::2], y[..., 1::2]
            return torch.stack((u * cos - v * sin, u * sin + v * cos), -1).flatten(-2)

        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in self.qkv(self.attention_norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True, dropout_p=self.dropout)
        x = x + F.dropout(self.wo(y.transpose(1, 2).flatten(2)), self.dropout)
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + F.dropout(self.down(F.silu(gate) * up), self.dropout)


class Llama(nn.Module):
    def __init__(self, s):
        super().__init__()
        head_dim = s.dim // s.heads
        angles = torch.outer(torch.arange(s.context), 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim))
        self.cos, self.sin, self.dropout = angles.cos(), angles.sin(), s.dropout
        self.embedding = nn.Embedding(VOCABULARY, s.dim)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.dim, eps=1e-5)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens):
        x = F.dropout(self.embedding(tokens), self.dropout)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.linear(self.norm(x), self.embedding.weight)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"layers": 4, "dim": 128, "heads": 4, "hidden-dim": 352, "batch-size": 4, "context": 256,
                        "dropout": 0.0, "threads": 2, "steps": 40}.items():
        p.add_argument(f"--{name}", type=type(value), default=value)
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    p.add_argument("--compile", action="store_true")
    s = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(s.threads)
    model = Llama(s)
    run = torch.compile(model) if s.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), fused=True)
    text = torch.randint(0, VOCABULARY - 1, (100_000,))
    seconds = []
    for _ in range(5 + s.steps):
        start = time.perf_counter()
        first = torch.randint(len(text) - s.context, (s.batch_size, 1))
        rows = text[first + torch.arange(s.context + 1)]
        with torch.autocast("cpu", torch.bfloat16) if s.dtype == "bf16" else contextlib.nullcontext():
            logits = run(rows[:, :-1])
        F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"steps_tokens_per_s": s.batch_size * s.context / statistics.median(seconds[5:])}))


if __name__ == "__main__":
    main()
