#!/usr/bin/env python3
"""Prints the ten golden losses of golden_losses_test.cpp, computed by PyTorch without Folio's code. Draws text, batches
and initial weights from SplitMix64 as Folio does (src/core/random.h). One batch of twice the rows replaces
accumulation. Prints losses in float64, and in float32 to show the effect of rounding (4e-7), which is far below the
test's tolerance of 1e-5. To update the test, copy the two lists into it."""

import math

import torch
import torch.nn.functional as F

MASK = 2**64 - 1
WORDS = ["the", "night", "is", "long,", "and", "no", "moon", "shines:", "O", "who", "goes", "there?"]
DIM, LAYERS, HEADS, KV_HEADS, HIDDEN, WINDOW = 32, 2, 4, 2, 48, 16
THETA, EPS = 500.0, 1e-6
BATCH, ACCUMULATION, SEED = 4, 2, 11
STEPS, LR, MIN_LR, WARMUP, CLIP = 12, 1e-2, 1e-3, 3, 0.5
BETAS, ADAM_EPS, DECAY = (0.9, 0.99), 1e-8, 0.1
WEIGHT_SEED = 2024


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def random_bits(seed, counter):
    return splitmix64(splitmix64(seed) ^ counter)


def random_below(seed, counter, n):
    return (random_bits(seed, counter) * n) >> 64


def small_text(words):
    return "".join(WORDS[random_below(7, i, len(WORDS))] + ("\n" if i % 7 == 6 else " ") for i in range(words))


def batch(tokens, number):
    starts = len(tokens) - WINDOW
    rows = [random_below(SEED, number * BATCH + row, starts) for row in range(BATCH)]
    return [tokens[r:r + WINDOW] for r in rows], [tokens[r + 1:r + WINDOW + 1] for r in rows]


def shapes(vocab):
    kv = DIM // HEADS * KV_HEADS
    yield "tok_embeddings", (vocab, DIM)
    for layer in range(LAYERS):
        yield from ((f"{layer}.{name}", shape) for name, shape in (
            ("attention_norm", (DIM,)), ("wq", (DIM, DIM)), ("wk", (kv, DIM)), ("wv", (kv, DIM)), ("wo", (DIM, DIM)),
            ("ffn_norm", (DIM,)), ("w1", (HIDDEN, DIM)), ("w3", (HIDDEN, DIM)), ("w2", (DIM, HIDDEN))))
    yield "norm", (DIM,)
    yield "output", (vocab, DIM)


def first_weights(vocab, dtype):
    """Returns weights in [-1/8, 1/8), plus 1 for norms. As multiples of 2^-18, they are exact in float32."""
    weights = {}
    for index, (name, shape) in enumerate(shapes(vocab)):
        n = math.prod(shape)
        values = [((random_bits(WEIGHT_SEED + index, i) >> 48) - 32768) / 262144 for i in range(n)]
        tensor = torch.tensor(values, dtype=dtype).reshape(shape)
        weights[name] = (tensor + (1 if len(shape) == 1 else 0)).requires_grad_()
    return weights


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rope(x_BTHD):
    """Rotates each adjacent pair (2i, 2i + 1) by position * theta^(-2i/d)."""
    T, d = x_BTHD.shape[1], x_BTHD.shape[3]
    angles = torch.arange(T, dtype=torch.float64)[:, None] * THETA ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    turn = torch.polar(torch.ones_like(angles), angles)
    turn = turn.to(torch.complex64 if x_BTHD.dtype == torch.float32 else torch.complex128)
    pairs = torch.view_as_complex(x_BTHD.reshape(*x_BTHD.shape[:3], d // 2, 2))
    return torch.view_as_real(pairs * turn[None, :, None]).flatten(3)


def forward(w, tokens):
    B, T = tokens.shape
    d = DIM // HEADS
    x = w["tok_embeddings"][tokens]
    for layer in range(LAYERS):
        p = lambda name: w[f"{layer}.{name}"]
        h = rms_norm(x, p("attention_norm"))
        q = rope((h @ p("wq").T).reshape(B, T, HEADS, d)).transpose(1, 2)
        k = rope((h @ p("wk").T).reshape(B, T, KV_HEADS, d)).transpose(1, 2).repeat_interleave(HEADS // KV_HEADS, 1)
        v = (h @ p("wv").T).reshape(B, T, KV_HEADS, d).transpose(1, 2).repeat_interleave(HEADS // KV_HEADS, 1)
        scores = q @ k.transpose(2, 3) / math.sqrt(d)
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, DIM) @ p("wo").T
        h = rms_norm(x, p("ffn_norm"))
        x = x + (F.silu(h @ p("w1").T) * (h @ p("w3").T)) @ p("w2").T
    return rms_norm(x, w["norm"]) @ w["output"].T


def learning_rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    return MIN_LR + (LR - MIN_LR) * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) / 2


def losses(dtype):
    text = small_text(600)
    characters = sorted(set(text))
    tokens = [characters.index(c) for c in text]
    tokens = tokens[:math.floor(len(tokens) * 0.9)]  # the training split
    w = first_weights(len(characters) + 1, dtype)  # + 1 for <|endoftext|>
    optimizer = torch.optim.AdamW([
        {"params": [t for name, t in w.items() if t.dim() == 2 and name != "tok_embeddings"], "weight_decay": DECAY},
        {"params": [t for name, t in w.items() if t.dim() == 1 or name == "tok_embeddings"], "weight_decay": 0.0},
    ], betas=BETAS, eps=ADAM_EPS)
    result, norms = [], []
    for step in range(10):
        parts = [batch(tokens, step * ACCUMULATION + part) for part in range(ACCUMULATION)]
        inputs = torch.tensor([row for part in parts for row in part[0]])
        targets = torch.tensor([row for part in parts for row in part[1]])
        loss = F.cross_entropy(forward(w, inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(w.values()), CLIP).item())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        result.append(loss.item())
    return result, norms


if __name__ == "__main__":
    torch.set_num_threads(1)
    double, norms = losses(torch.float64)
    single, _ = losses(torch.float32)
    print("losses      ", ", ".join(f"{x:.9f}" for x in double))
    print("norms       ", ", ".join(f"{x:.9f}" for x in norms))
    print(f"float32 differs by at most {max(abs(a - b) for a, b in zip(double, single)):.1e}")
