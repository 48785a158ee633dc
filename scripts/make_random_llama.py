#!/usr/bin/env python3
"""Makes a Llama of any shape with random weights and a published tokenizer: for measurements, its text is noise.

Usage: build/venv/bin/python scripts/make_random_llama.py OUT_DIR [--types q8_0,q4_0,q4_k_m,q5_k_m,q6_k] [--keep-f16]
       [--tokenizer FILE.gguf] [--layers N] [--width N] [--heads N] [--kv-heads N] [--hidden N] [--untied] [--seed N]

The shape is by default that of Llama 3.2 1B, with the vocabulary of SmolLM2 (49,152 instead of 128,256 tokens), so 1.07
billion weights. Writes OUT_DIR/NAME.F16.gguf, and from it the types by llama.cpp's quantizer (quantize_llama_cpp.py).
The same arguments give the same bytes. Needs `make interop`, and memory for one matrix.
"""
import argparse
import os
import pathlib
import sys

import gguf
import numpy as np

import quantize_llama_cpp

SMOLLM2 = pathlib.Path(__file__).resolve().parents[1] / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def shapes(a, vocab):
    """Name → (rows, columns) of a matrix or (width,) of a norm, in the order of the file."""
    kv_width = a.width // a.heads * a.kv_heads
    tensors = {"token_embd.weight": (vocab, a.width)}
    for i in range(a.layers):
        tensors |= {f"blk.{i}.{name}.weight": shape for name, shape in {
            "attn_norm": (a.width,), "attn_q": (a.width, a.width), "attn_k": (kv_width, a.width),
            "attn_v": (kv_width, a.width), "attn_output": (a.width, a.width), "ffn_norm": (a.width,),
            "ffn_gate": (a.hidden, a.width), "ffn_up": (a.hidden, a.width), "ffn_down": (a.width, a.hidden)}.items()}
    tensors["output_norm.weight"] = (a.width,)
    if a.untied:
        tensors["output.weight"] = (vocab, a.width)
    return tensors


def random_tensor(name, shape, a, index):
    """Ones for a norm. Else normal with variance 1 / columns, so that each product keeps its input's scale; what is
    added to the residual is scaled by 1 / sqrt(2 layers) as in GPT-2."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    scale = shape[1] ** -0.5
    if "attn_output" in name or "ffn_down" in name:
        scale *= (2 * a.layers) ** -0.5
    random = np.random.default_rng([a.seed, index])
    matrix = np.empty(shape, np.float16)
    for row in range(0, shape[0], 1024):
        part = matrix[row:row + 1024]
        part[:] = scale * random.standard_normal(part.shape, np.float32)
    return matrix


def write_f16(path, a):
    tokenizer = gguf.GGUFReader(a.tokenizer)
    vocab = len(tokenizer.fields["tokenizer.ggml.tokens"].data)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(a.name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_block_count(a.layers)
    writer.add_context_length(a.context)
    writer.add_embedding_length(a.width)
    writer.add_feed_forward_length(a.hidden)
    writer.add_head_count(a.heads)
    writer.add_head_count_kv(a.kv_heads)
    writer.add_rope_dimension_count(a.width // a.heads)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    for key, field in tokenizer.fields.items():
        if key.startswith("tokenizer."):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[1] if field.types[1:] else None)
    tensors = shapes(a, vocab)
    for name, shape in tensors.items():
        dtype = np.dtype(np.float32 if len(shape) == 1 else np.float16)
        writer.add_tensor_info(name, shape, dtype, int(np.prod(shape)) * dtype.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for index, (name, shape) in enumerate(tensors.items()):
        writer.write_tensor_data(random_tensor(name, shape, a, index))
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--name", default="llama-1b")
    parser.add_argument("--types", type=quantize_llama_cpp.type_names, default="q8_0,q4_0,q4_k_m,q5_k_m,q6_k")
    parser.add_argument("--keep-f16", action="store_true")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=SMOLLM2)
    for option, value in {"layers": 16, "width": 2048, "heads": 32, "kv-heads": 8, "hidden": 8192, "context": 8192,
                          "seed": 1, "threads": os.cpu_count()}.items():
        parser.add_argument(f"--{option}", type=int, default=value)
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    a = parser.parse_args()
    if not a.tokenizer.is_file():
        sys.exit(f"{a.tokenizer} is not there: make smollm2 puts it there, or --tokenizer names another GGUF")
    if a.width % a.heads or a.heads % a.kv_heads:
        sys.exit("--width has to be a multiple of --heads, and --heads of --kv-heads")
    a.out.mkdir(parents=True, exist_ok=True)
    f16 = a.out / f"{a.name}.F16.gguf"
    write_f16(f16, a)
    quantize_llama_cpp.quantize(f16, a.types, a.out, a.name, a.threads)
    if not a.keep_f16:
        f16.unlink()


if __name__ == "__main__":
    main()
