#!/usr/bin/env python3
"""Writes infer/cuda/BOUNDS.md: bytes and operations of each kernel of a step, and lower bounds of its time on several
GPUs.

Usage: scripts/cuda_bounds.py [--check]

Keeps the contents of the columns "measured". --check writes nothing and exits with 1 if the file would change."""
import argparse
import dataclasses
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parents[1] / "infer/cuda/BOUNDS.md"
DECODED = (1, 1024)  # rows of a step, and the positions that its last row attends to
PROMPT = (2048, 2048)  # rows and positions of a prefill step of CudaOptions::max_rows rows


@dataclasses.dataclass
class Card:
    name: str
    bytes: float  # memory bandwidth, bytes/s
    rates: dict  # {Kernel.unit: operations per second, without sparsity}
    memory: float


# Bandwidths and rates are from NVIDIA's data sheets; F16 is for tensor cores with F32 accumulation.
CARDS = [Card("H100 SXM", 3.35e12, {"f16": 989e12, "s8": 1979e12, "f32": 67e12}, 80e9),
         Card("RTX 4090", 1.008e12, {"f16": 165e12, "s8": 661e12, "f32": 82.6e12}, 24e9),
         Card("T4", 0.32e12, {"f16": 65e12, "s8": 130e12, "f32": 8.1e12}, 16e9)]
TYPES = {"F16": 2, "Q8_0": 34 / 32, "Q4_0": 18 / 32}  # bytes per weight


@dataclasses.dataclass
class Shape:
    name: str
    dim: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int  # width of the feed-forward layer, or of one expert in mixtures
    vocab: int
    of_head: int = 0  # head dimension; 0: dim / heads
    experts: int = 0
    chosen: int = 0  # experts per token

    def head_dim(self):
        return self.of_head or self.dim // self.heads

    def taken(self, rows):
        """Returns the expected number of experts used by at least one row, if all are equally likely."""
        return self.experts * (1 - (1 - self.chosen / self.experts) ** rows)


SHAPES = [Shape("8 B (Llama 3)", 4096, 32, 32, 8, 14336, 128256), Shape("1.1 B (TinyLlama)", 2048, 22, 32, 4, 5632, 32000),
          Shape("30 B with experts (Qwen3-30B-A3B)", 2048, 48, 32, 4, 768, 151936, of_head=128, experts=128, chosen=8)]


@dataclasses.dataclass
class Kernel:
    name: str
    calls: int  # per step
    bytes: float  # read and written, per call
    operations: float
    unit: str = "f32"
    type: str = ""  # block type of the weights; "": the kernel is the same for all types

    def microseconds(self, card):
        return 1e6 * max(self.bytes / card.bytes, self.operations / card.rates[self.unit])


def kernels(s, rows, positions):
    """Returns the kernels of a step over the last `rows` of `positions` tokens. F32 activations, F16 cache."""
    q, kv = s.heads * s.head_dim(), s.kv_heads * s.head_dim()
    seen = sum(range(positions - rows + 1, positions + 1))  # positions attended to, summed over the rows
    all_kernels = []

    def product(name, calls, n, inputs, outputs, types=TYPES, residual=False, matrices=1):
        for t in types:
            weights = matrices * inputs * outputs * TYPES[t]
            activations = 4 * n * (inputs + outputs * (2 if residual else 1))
            all_kernels.append(Kernel(name, calls, weights + activations, 2 * n * inputs * outputs, "f16" if t == "F16" else "s8", t))

    def plain(name, calls, n_bytes, operations, unit="f32"):
        all_kernels.append(Kernel(name, calls, n_bytes, operations, unit))

    plain("embed", 1, rows * s.dim * (2 + 4), 0)
    plain("norm", 2 * s.layers, 4 * s.dim * (2 * rows + 1), 4 * rows * s.dim)
    product("product: q, k, v", s.layers, rows, s.dim, q + 2 * kv)
    plain("rope, store", s.layers, 4 * rows * (q + 2 * kv) + 4 * rows * q + 2 * rows * 2 * kv, 3 * rows * (q + kv))
    plain("attention", s.layers, 8 * rows * q + 2 * 2 * positions * kv, 4 * q * seen, "f16")
    product("product: heads to residual", s.layers, rows, q, s.dim, residual=True)
    if s.experts:
        takings = rows * s.chosen
        router = 4 * (s.dim * s.experts + rows * (s.dim + s.experts))  # in bytes; routers are F32
        plain("product: router", s.layers, router, 2 * rows * s.dim * s.experts)
        plain("route", s.layers, 4 * 2 * rows * s.experts, 20 * rows * s.experts)
        product("experts: gate, up", s.layers, takings, s.dim, 2 * s.hidden, matrices=s.taken(rows))
        plain("experts: swiglu", s.layers, 4 * 3 * takings * s.hidden, 20 * takings * s.hidden)
        product("experts: down", s.layers, takings, s.hidden, s.dim, matrices=s.taken(rows))
        plain("experts: combine", s.layers, 4 * (takings + 2 * rows) * s.dim, 2 * takings * s.dim)
    else:
        product("product: gate, up", s.layers, rows, s.dim, 2 * s.hidden)
        plain("swiglu", s.layers, 4 * 3 * rows * s.hidden, 20 * rows * s.hidden)
        product("product: hidden to residual", s.layers, rows, s.hidden, s.dim, residual=True)
    plain("norm, last row", 1, 4 * s.dim * 3, 4 * s.dim)
    product("product: output", 1, 1, s.dim, s.vocab, ["F16", "Q8_0"])
    plain("sample", 1, 4 * s.vocab, s.vocab)
    return all_kernels


def of_model(all_kernels, t):
    """Returns the kernels of a model with matrices of type t. Kernels without a version for t, such as the output
    matrix of Q4_0 files, use Q8_0."""
    has = {k.name for k in all_kernels if k.type == t}
    return [k for k in all_kernels if k.type in ("", t) or (k.name not in has and k.type == "Q8_0")]


def weight_bytes(s, t):
    q, kv = s.heads * s.head_dim(), s.kv_heads * s.head_dim()
    ends = 2 * s.vocab * s.dim * TYPES["Q8_0" if t == "Q4_0" else t]
    networks = max(1, s.experts)
    return s.layers * s.dim * ((2 * q + 2 * kv + 3 * networks * s.hidden) * TYPES[t] + 4 * s.experts) + ends


def figure(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


INTRODUCTION = """\
# Lower bounds of the kernels' time

Generated by `scripts/cuda_bounds.py`, which keeps the contents of the columns "measured".

A kernel takes at least the time in which memory transfers its bytes, and at least the time in which the arithmetic
units compute its operations. The tables have the larger of the two, in microseconds per call.

The bytes are every weight once (of experts, the mean number that the rows use), the cache (F16) once, and the input and
output activations (F32). Products with F16 and attention are counted at the tensor cores' rate for F16 with sums in
F32, products with Q8_0 and Q4_0 at the rate for 8-bit integers, and everything else at the rate for F32. With Q4_0, the
output matrix is Q8_0, as `export` writes it.

Data that the previous kernel has just written may still be in the L2 cache. Therefore kernels that mostly move
activations (`norm`, `rope`, `swiglu`, `sample`) may be faster than their bound, and so may two fused kernels. Launches
are not counted. A step is the sum of its calls.

| | memory | F16 | 8-bit integers | F32 |
|---|--:|--:|--:|--:|
"""


def cells(row):
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def measured_cells():
    """Returns {(section, kernel, weights, card): cell} of the columns "measured" in BOUNDS.md."""
    kept, section = {}, ""
    for line in FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []:
        if line.startswith("## "):
            section = line
        row = cells(line)
        if line.startswith("| ") and len(row) == 5 + 2 * len(CARDS):
            for i, card in enumerate(CARDS):
                kept[section, row[0], row[1], card.name] = row[6 + 2 * i]
    return kept


def section(title, s, step, kept):
    lines = [title, "", "| kernel | weights | calls | MB | GFLOP |" + "".join(f" {c.name} | measured |" for c in CARDS),
             "|---|---|--:|--:|--:|" + "--:|--:|" * len(CARDS)]

    def add(name, t, calls, n_bytes, operations, bounds):
        line = f"| {name} | {t} | {calls} | {figure(n_bytes / 1e6)} | {figure(operations / 1e9)} |"
        for card, bound in zip(CARDS, bounds):
            line += f" {bound} | {kept.get((title, name, t, card.name), '')} |"
        lines.append(line)

    all_kernels = kernels(s, *step)
    for k in all_kernels:
        add(k.name, k.type, k.calls, k.bytes, k.operations, [figure(k.microseconds(card)) for card in CARDS])
    for t in TYPES:
        some = of_model(all_kernels, t)
        total = lambda of: sum(k.calls * of(k) for k in some)
        bounds = [figure(total(lambda k: k.microseconds(card))) if weight_bytes(s, t) < card.memory else "too large" for card in CARDS]
        add("**the step**", t, "", total(lambda k: k.bytes), total(lambda k: k.operations), bounds)
    return lines + [""]


def text():
    kept = measured_cells()
    lines = [INTRODUCTION + "".join(
        f"| {c.name} | {c.bytes / 1e9:,.0f} GB/s | {c.rates['f16'] / 1e12:.0f} TFLOP/s | {c.rates['s8'] / 1e12:.0f} TOP/s | "
        f"{c.rates['f32'] / 1e12:g} TFLOP/s |\n" for c in CARDS),
        "The T4 is listed only for comparison: it lacks the Ampere instructions that the kernels use.", ""]
    for s in SHAPES:
        lines += section(f"## {s.name}: a decoding step, one row that attends to {DECODED[1]} positions", s, DECODED, kept)
        lines += section(f"## {s.name}: a prompt's step, its first {PROMPT[0]} rows", s, PROMPT, kept)
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file would change")
    check = parser.parse_args().check
    now = text()
    if not check:
        FILE.write_text(now, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != now:
        sys.exit("cuda_bounds: infer/cuda/BOUNDS.md is not up to date; run scripts/cuda_bounds.py")


if __name__ == "__main__":
    main()
