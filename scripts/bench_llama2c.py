#!/usr/bin/env python3
"""Compares decoding with llama2.c's `run`, on the same weights, alternating.

Usage: build/venv/bin/python scripts/bench_llama2c.py MODEL.gguf --run PATH [--rounds 9]

PATH is llama2.c's program, built as it recommends: gcc -Ofast -fopenmp -march=native run.c -lm -o run
Each round runs llama2.c with 1 and 2 threads and Folio's generate with 1 and 2, decoding greedily until the context is
full. Prints medians of tokens/s; llama2.c's figure is the one it prints itself."""
import pathlib
import statistics
import struct
import tempfile

import numpy
from gguf import GGUFReader

from compare import BUILD, alternate, json_of, parser, ratios, report, run, speeds_of_llama2c, with_range

STOP = 1  # llama2.c stops at this id, so its embedding is swapped with the last token's, which is hardly ever chosen


def write_llama2c(model, weights_path, tokenizer_path):
    """Writes the model in llama2.c's version 0 (seven integers, then F32 matrices, grouped by kind) and a tokenizer
    with placeholder tokens. Returns the context length."""
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


def main():
    p = parser(__doc__, rounds=9, threads=None)
    p.add_argument("model")
    p.add_argument("--run", required=True, help="llama2.c's program")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weights, tokenizer = f"{folder}/model.bin", f"{folder}/tokenizer.bin"
        context = write_llama2c(a.model, weights, tokenizer)

        def llama2c(threads):
            done = run(pathlib.Path(a.run).resolve(), weights, "-z", tokenizer, "-t", 0, "-n", context,
                       environment={"OMP_NUM_THREADS": str(threads)})
            return speeds_of_llama2c(done, None)["decode"]

        def folio(threads):
            return json_of(BUILD / "generate", "--json", "-m", a.model, "--temp", 0, "-n", context - 1,
                           "-t", threads)["decode_tokens_per_s"]

        sides = {"folio": folio, "llama2.c": llama2c}
        names = [(side, threads) for threads in (1, 2) for side in sides]
        results = alternate(names, lambda name, _: sides[name[0]](name[1]), a)
    best = [max((results[side, threads] for threads in (1, 2)), key=statistics.median) for side in sides]
    rows = [[*name, with_range(speeds, 0)] for name, speeds in results.items()]
    rows.append(["the best: folio / llama2.c", "", with_range(ratios(*best))])
    report(a, results, ["", "threads", "tokens/s"], rows)


if __name__ == "__main__":
    main()
