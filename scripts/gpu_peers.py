#!/usr/bin/env python3
"""Measures transformers and LibTorch on the same GPU, for comparison with cuda_bench, and plots the results.

Usage: scripts/gpu_peers.py decode [--json FILE]      transformers, eager and compiled with a static cache, 1.1 B shape
       scripts/gpu_peers.py attention [--json FILE]   scaled_dot_product_attention for a prompt of 8,192
       scripts/gpu_peers.py products [--json FILE]    the matrix products of a prompt of 2,048 in F16 (cuBLAS), 8 B shape
       scripts/gpu_peers.py plot ROWS.jsonl --out DIR time per token against context and batch, with the bandwidth bound

Prints each row and appends it to FILE as a line of JSON."""
import argparse
import collections
import json
import pathlib
import statistics
import sys
import time

import picture
from gpu_summary import read_rows

SHAPES = {"8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                     num_key_value_heads=8, vocab_size=128256),
          "1.1b": dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                       num_key_value_heads=4, vocab_size=32000),
          "tiny": dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, vocab_size=96)}


class Rows:
    def __init__(self, path):
        self.path = path

    def add(self, **row):
        print(" ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items()),
              flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")


def wait(device):
    import torch
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(run, device):
    wait(device)
    start = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - start


def per_token(generate, tokens, repetitions, device):
    """Returns the seconds per token after the first: the median over repetitions. generate(n) generates n tokens."""
    generate(tokens)  # compiles, and fills caches
    generate(tokens)
    first = statistics.median(seconds_of(lambda: generate(1), device) for _ in range(repetitions))
    all_of_them = statistics.median(seconds_of(lambda: generate(tokens), device) for _ in range(repetitions))
    return (all_of_them - first) / (tokens - 1)


def generated(model, prompt, length, **how):
    """Returns run(tokens), which generates this number of tokens greedily with transformers. If `how` has a
    cache_implementation, its length is fixed to `length` in versions of transformers that support this."""
    def run(tokens):
        with_length = dict(how)
        if "cache_implementation" in how:
            with_length["cache_config"] = {"max_cache_len": length}
        try:
            model.generate(prompt, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, **with_length)
        except (TypeError, ValueError):
            model.generate(prompt, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, **how)
    return run


def looped(model, prompt, length, device):
    """Returns a function that generates n tokens as in transformers' guide: with compiled steps and a static cache."""
    import torch
    from transformers import StaticCache

    def step(token, position, cache):
        logits = model(token, position_ids=position[None], cache_position=position, past_key_values=cache, use_cache=True,
                       return_dict=True).logits
        return logits[:, -1].argmax(-1, keepdim=True)

    compiled = torch.compile(step, mode="reduce-overhead", fullgraph=True)
    cache = StaticCache(config=model.config, max_cache_len=length)

    def run(tokens):
        cache.reset()
        token = step(prompt, torch.arange(prompt.shape[1], device=device), cache).clone()
        position = torch.tensor([prompt.shape[1]], device=device)
        for _ in range(tokens - 1):
            token = compiled(token, position, cache).clone()
            position = position + 1
        token.tolist()
    return run


def decode(args):
    import torch
    import transformers
    from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM
    device, rows = args.device, Rows(args.json)
    length = args.context + args.tokens + 8
    config = LlamaConfig(**SHAPES[args.shape], max_position_embeddings=length, tie_word_embeddings=False,
                         bos_token_id=None, eos_token_id=None, pad_token_id=None)
    torch.manual_seed(1)
    dtype = torch.float16 if device == "cuda" else torch.float32
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    prompt = torch.randint(0, config.vocab_size, (1, args.context), device=device)
    compiled = CompileConfig(mode="reduce-overhead", fullgraph=True)
    ways = {"generate": lambda: generated(model, prompt, length),
            "generate, static cache, reduce-overhead": lambda: generated(model, prompt, length, cache_implementation="static",
                                                                         compile_config=compiled),
            "loop, static cache, reduce-overhead": lambda: looped(model, prompt, length, device)}
    failed = 0
    with torch.inference_mode(False), torch.no_grad():
        for name, way in ways.items():
            try:
                seconds = per_token(way(), args.tokens, args.repetitions, device)
            except Exception as error:  # not supported by this version of transformers
                print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
                failed += 1
                continue
            rows.add(part="peer decode", peer=name, shape=args.shape, type=str(dtype).replace("torch.", ""),
                     context=args.context, us=1e6 * seconds, tokens_per_s=1 / seconds, transformers=transformers.__version__,
                     torch=torch.__version__)
    return 1 if failed == len(ways) else 0


def attention(args):
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    rows, device, n = Rows(args.json), args.device, args.positions
    dtype = torch.float16 if device == "cuda" else torch.float32
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, heads, n, 128, device=device, dtype=dtype) for heads in (32, 8, 8))
    wide_key, wide_value = (x.repeat_interleave(4, dim=1) for x in (key, value))
    ways = {"grouped": lambda: scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True),
            "repeated heads": lambda: scaled_dot_product_attention(query, wide_key, wide_value, is_causal=True)}
    for name, way in ways.items():
        for _ in range(3):
            way()
        us = 1e6 * statistics.median(seconds_of(lambda: [way() for _ in range(args.launches)], device) / args.launches
                                     for _ in range(args.repetitions))
        rows.add(part="peer attention", peer=f"scaled_dot_product_attention, {name}", context=n, us=us,
                 tflop_per_s=4 * 32 * 128 * n * (n + 1) / 2 / us / 1e6, torch=torch.__version__)
    return 0


def products(args):
    """Times a prompt's products, with q, k and v as one matrix and gate and up as another."""
    import torch
    shape, n = SHAPES[args.shape], args.positions
    dim, hidden, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"]
    kv = dim // shape["num_attention_heads"] * shape["num_key_value_heads"]
    dtype = torch.float16 if args.device == "cuda" else torch.float32
    torch.manual_seed(1)
    us = 0.0
    for outputs, inputs, rows, calls in ((dim + 2 * kv, dim, n, layers), (dim, dim, n, layers), (2 * hidden, dim, n, layers),
                                         (dim, hidden, n, layers), (shape["vocab_size"], dim, 1, 1)):
        x, weight = (torch.randn(rows_of, inputs, device=args.device, dtype=dtype) for rows_of in (rows, outputs))
        for _ in range(3):
            x @ weight.T
        us += calls * 1e6 * statistics.median(seconds_of(lambda: [x @ weight.T for _ in range(args.launches)], args.device) / args.launches
                                              for _ in range(args.repetitions))
    Rows(args.json).add(part="peer products", shape=args.shape, rows=n, us=us, torch=torch.__version__)
    return 0


def plot(args):
    rows = [row for row in read_rows(args.rows) if row["part"] == "decode" and not row["fast"]]
    batch_context = [row["context"] for row in rows if row["batch"] > 1]
    pictures = {"context": ("positions before it", lambda row: row["batch"] == 1),
                "batch": ("sequences decoded together", lambda row: row["context"] in batch_context)}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, (label, wanted) in pictures.items():
        lines = collections.defaultdict(dict)
        for row in filter(wanted, rows):
            lines[row["shape"], row["type"]][row[name]] = row
        lines = {key: line for key, line in sorted(lines.items()) if len(line) > 1}
        kinds = sorted({kind for _, kind in lines})
        panels = []
        for shape in dict.fromkeys(shape for shape, _ in lines):
            own = {kind: line for (of, kind), line in lines.items() if of == shape}
            labels = [str(x) for x in sorted({x for line in own.values() for x in line})]
            drawn = []
            for kind, line in own.items():
                for key, dashed in (("us", ""), ("bound_us", " dashed")):
                    points = [(str(x), [line[x][key] / line[x]["batch"]]) for x in sorted(line)]
                    drawn.append((f"s{kinds.index(kind)}{dashed}", points))
            panels.append(picture.Panel(f"{shape}: µs a token", drawn, labels, log=True))
        if panels:
            path = args.out / f"decode_{name}.svg"
            path.write_text(picture.plot(panels, kinds, "Decoding on a GPU", "Dashed: the bytes at a copy's bandwidth",
                                         label, width=400, height=300))
            print(path)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)

    def command(run, *flags):
        sub = commands.add_parser(run.__name__)
        sub.set_defaults(run=run)
        for name, value in flags:
            sub.add_argument(name, type=type(value), default=value)
        return sub

    command(decode, ("--json", ""), ("--device", "cuda"), ("--shape", "1.1b"), ("--context", 128), ("--tokens", 128),
            ("--repetitions", 5))
    command(attention, ("--json", ""), ("--device", "cuda"), ("--positions", 8192), ("--launches", 10), ("--repetitions", 5))
    command(products, ("--json", ""), ("--device", "cuda"), ("--shape", "8b"), ("--positions", 2048), ("--launches", 10), ("--repetitions", 5))
    pictures = command(plot)
    pictures.add_argument("rows", type=pathlib.Path)
    pictures.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if getattr(args, "device", "") == "cuda":
        try:
            import torch
        except ImportError:
            sys.exit("gpu_peers.py: this Python has no torch")
        if not torch.cuda.is_available():
            sys.exit("gpu_peers.py: torch sees no GPU")
    sys.exit(args.run(args))


if __name__ == "__main__":
    main()
