#!/usr/bin/env python3
"""Compares decoding with llama2.c's `run`, on the same weights, alternating.

Usage: build/venv/bin/python scripts/bench_llama2c.py MODEL.gguf --run PATH [--rounds 9]

PATH is llama2.c's program, built as it recommends: gcc -Ofast -fopenmp -march=native run.c -lm -o run
Each round runs llama2.c with 1 and 2 threads and Folio's generate with 1 and 2, decoding greedily until the context is
full. Prints medians of tokens/s; llama2.c's figure is the one it prints itself."""
import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import tempfile

import numpy
from gguf import GGUFReader

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build"
STOP = 1  # llama2.c stops at this id, so its embedding is swapped with the last token's, which is hardly ever chosen


def write_llama2c(model, weights_path, tokenizer_path):
    """Writes llama2.c's version-0 format: seven integers, then all matrices by kind, f32."""
    reader = GGUFReader(model)
    field = lambda name: reader.fields["llama." + name].contents()
    tensor = {t.name: numpy.array(t.data, dtype=numpy.float32) for t in reader.tensors}
    dim, hidden, layers = field("embedding_length"), field("feed_forward_length"), field("block_count")
    heads, kv_heads, context = field("attention.head_count"), field("attention.head_count_kv"), field("context_length")
    vocabulary = tensor["token_embd.weight"].shape[0]
    embedding = tensor["token_embd.weight"].copy()
    embedding[[STOP, -1]] = embedding[[-1, STOP]]
    with open(weights_path, "wb") as out:
        out.write(struct.pack("7i", dim, hidden, layers, heads, kv_heads, vocabulary, context))
        out.write(embedding.tobytes())
        for kind in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_down", "ffn_up"):
            for layer in range(layers):
                out.write(tensor[f"blk.{layer}.{kind}.weight"].tobytes())
        out.write(tensor["output_norm.weight"].tobytes())
        out.write(bytes(4 * context * (dim // heads)))  # RoPE tables that run.c skips
    with open(tokenizer_path, "wb") as out:
        out.write(struct.pack("i", 8))
        for token in range(vocabulary):
            piece = b"%04d" % token  # any string: only the speed is measured
            out.write(struct.pack("fi", 0.0, len(piece)) + piece)
    return context


def llama2c(run, weights, tokenizer, context, threads):
    done = subprocess.run([run, weights, "-z", tokenizer, "-t", "0", "-n", str(context)], capture_output=True, text=True,
                          errors="replace", env={**os.environ, "OMP_NUM_THREADS": str(threads)}, check=True)
    return float(re.search(r"achieved tok/s: ([\d.]+)", done.stderr).group(1))


def folio(model, context, threads):
    done = subprocess.run([BUILD / "generate", "-m", model, "--temp", "0", "-n", str(context - 1), "-t", str(threads), "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["decode_tokens_per_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--run", required=True, help="llama2.c's program")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weights, tokenizer = f"{folder}/model.bin", f"{folder}/tokenizer.bin"
        context = write_llama2c(arguments.model, weights, tokenizer)
        figures = {}
        for _ in range(arguments.rounds):
            for threads in (1, 2):
                figures.setdefault(f"llama2.c {threads}", []).append(
                    llama2c(arguments.run, weights, tokenizer, context, threads))
                figures.setdefault(f"folio {threads}", []).append(folio(arguments.model, context, threads))
    median = {name: round(statistics.median(values)) for name, values in figures.items()}
    best = {who: max(median[f"{who} 1"], median[f"{who} 2"]) for who in ("llama2.c", "folio")}
    print(json.dumps({"tokens_per_s": median, "folio_over_llama2c": round(best["folio"] / best["llama2.c"], 2)}))


if __name__ == "__main__":
    main()
