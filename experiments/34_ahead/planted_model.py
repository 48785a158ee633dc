#!/usr/bin/env python3
"""Makes a Llama whose module for multi-token prediction is right with a given probability, for measurements.

Usage: build/venv/bin/python experiments/34_ahead/planted_model.py OUT.gguf [--right 0.75] [--layers 24] [--width 1024]

By default, writes a Q8_0 GGUF of 416 million weights with SmolLM2's tokenizer. Greedy decoding follows a random cycle
through the vocabulary: a token's row of the output matrix is the embedding of the token before it on the cycle, and
layers add little to the residual stream. The module's projection passes the embedding on, so the module follows the
cycle, too, except after a fraction 1 - RIGHT of the tokens: element 1 of their embedding is large, which the projection
maps to one wrong token. All other weights are random. Needs gguf (make interop)."""
import argparse
import pathlib

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOLLM2 = ROOT / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FIRST = 100  # lower IDs are special tokens or bytes
FLAG = 8.0
Q8_0 = gguf.GGMLQuantizationType.Q8_0


def tensors_of(a, vocab):
    """Returns {tensor name: function that returns its array}, in the order in which the file stores the tensors."""
    random = np.random.default_rng(a.seed)
    cycle = FIRST + random.permutation(vocab - FIRST)
    table = random.standard_normal((vocab, a.width), np.float32)
    flagged = random.random(vocab) >= a.right
    table[:, 0], table[:, 1] = np.where(flagged, 0, FLAG), np.where(flagged, FLAG, 0)
    output = np.zeros_like(table)
    output[np.roll(cycle, -1)] = table[cycle]
    output[:, :2] = 0
    projection = np.eye(a.width, 2 * a.width, dtype=np.float32)
    projection[:, :2] = 0
    projection[:, 1] = table[cycle[0]] * [0, 0, *np.ones(a.width - 2)]
    hidden, kv = 4 * a.width, a.width // 4
    shapes = {"attn_q": (a.width, a.width), "attn_k": (kv, a.width), "attn_v": (kv, a.width),
              "attn_output": (a.width, a.width), "ffn_gate": (hidden, a.width), "ffn_up": (hidden, a.width),
              "ffn_down": (a.width, hidden)}

    def matrix(name, shape):
        scale = shape[1] ** -0.5 * (0.05 if name in ("attn_output", "ffn_down") else 1)
        return lambda: scale * np.random.default_rng(a.seed + 1).standard_normal(shape, np.float32)

    ones = lambda: np.ones(a.width, np.float32)
    tensors = {"token_embd.weight": lambda: table}
    for i in range(a.layers + 1):
        tensors[f"blk.{i}.attn_norm.weight"] = tensors[f"blk.{i}.ffn_norm.weight"] = ones
        tensors |= {f"blk.{i}.{name}.weight": matrix(name, shape) for name, shape in shapes.items()}
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        tensors[f"blk.{a.layers}.nextn.{norm}.weight"] = ones
    tensors[f"blk.{a.layers}.nextn.eh_proj.weight"] = lambda: projection
    return tensors | {"output_norm.weight": ones, "output.weight": lambda: output}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--right", type=float, default=0.75)
    for name, value in {"layers": 24, "width": 1024, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    if a.width < 256 or a.width % 256:
        parser.error(f"--width is {a.width}, but must be a multiple of 256: heads have 64 elements, four share keys")
    tokenizer = gguf.GGUFReader(SMOLLM2)
    vocab = len(tokenizer.fields["tokenizer.ggml.tokens"].data)
    writer = gguf.GGUFWriter(a.out, "llama")
    writer.add_name("planted")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_block_count(a.layers + 1)
    writer.add_uint32("llama.nextn_predict_layers", 1)
    writer.add_context_length(4096)
    writer.add_embedding_length(a.width)
    writer.add_feed_forward_length(4 * a.width)
    writer.add_head_count(a.width // 64)
    writer.add_head_count_kv(a.width // 256)
    writer.add_rope_dimension_count(64)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    for key, field in tokenizer.fields.items():
        if key.startswith("tokenizer."):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[1] if field.types[1:] else None)
    for name, make in tensors_of(a, vocab).items():
        array = make()
        if array.ndim == 1:
            writer.add_tensor(name, array)
        else:
            writer.add_tensor(name, gguf.quants.quantize(array, Q8_0), raw_dtype=Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
