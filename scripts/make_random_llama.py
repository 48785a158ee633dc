#!/usr/bin/env python3
"""Makes a Llama of any shape with random weights and a published tokenizer, for measurements. Its output is noise.

Usage: build/venv/bin/python scripts/make_random_llama.py OUT_DIR [--types q8_0,q4_0,q4_k_m,q5_k_m,q6_k] [--keep-f16]
       [--tokenizer FILE.gguf] [--layers N] [--width N] [--heads N] [--kv-heads N] [--head-dim N] [--hidden N]
       [--experts N --experts-per-token K] [--untied] [--seed N]

The default shape is that of Llama 3.2 1B with the vocabulary of SmolLM2 (49,152 instead of 128,256 tokens): 1.07
billion weights. --experts makes a Qwen3-MoE, with --hidden as an expert's width: by default 24 layers of 32 experts, 8
per token, with 1.08 billion weights of which a token uses 0.40 billion. Its proportions (experts per token times their
width, heads, both relative to the model's width) are those of Qwen3-30B-A3B. Writes OUT_DIR/NAME.F16.gguf, and
quantizes it to the types with llama.cpp (quantize_llama_cpp.py). The same arguments give the same bytes. Needs `make
interop`, and memory for one tensor."""
import argparse
import os
import pathlib
import sys

import gguf
import numpy as np

import quantize_llama_cpp

SMOLLM2 = pathlib.Path(__file__).resolve().parents[1] / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


LLAMA_1B = {"name": "llama-1b", "layers": 16, "width": 2048, "heads": 32, "kv_heads": 8, "hidden": 8192}
MOE_1B = {"name": "qwen3-moe-1b", "layers": 24, "width": 1024, "heads": 16, "kv_heads": 4, "head_dim": 128,
          "hidden": 384, "experts": 32, "experts_per_token": 8}


def shapes(a, vocab):
    """Returns {name: shape} in the order of the file: (rows, columns) of a matrix, (experts, rows, columns) of a stack,
    (width,) of a norm."""
    query_width, kv_width = a.heads * a.head_dim, a.kv_heads * a.head_dim
    layer = {"attn_norm": (a.width,), "attn_q": (query_width, a.width), "attn_k": (kv_width, a.width),
             "attn_v": (kv_width, a.width), "attn_output": (a.width, query_width), "ffn_norm": (a.width,)}
    if a.experts:
        layer |= {"attn_q_norm": (a.head_dim,), "attn_k_norm": (a.head_dim,), "ffn_gate_inp": (a.experts, a.width)}
    stack, suffix = ((a.experts,), "_exps") if a.experts else ((), "")
    for name, shape in {"ffn_gate": (a.hidden, a.width), "ffn_up": (a.hidden, a.width),
                        "ffn_down": (a.width, a.hidden)}.items():
        layer[name + suffix] = stack + shape
    tensors = {"token_embd.weight": (vocab, a.width)}
    for i in range(a.layers):
        tensors |= {f"blk.{i}.{name}.weight": shape for name, shape in layer.items()}
    tensors["output_norm.weight"] = (a.width,)
    if a.untied:
        tensors["output.weight"] = (vocab, a.width)
    return tensors


def dtype_of(name, shape):
    """Returns the type as llama.cpp's converter chooses it: norms and routers are F32."""
    return np.dtype(np.float32 if len(shape) == 1 or "ffn_gate_inp" in name else np.float16)


def random_tensor(name, shape, a, index):
    """Returns ones for a norm, else normal values with variance 1 / columns, so that products preserve the scale of
    their inputs. Matrices before residual additions are scaled by 1 / sqrt(2 layers), as in GPT-2."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    scale = shape[-1] ** -0.5
    if "attn_output" in name or "ffn_down" in name:
        scale *= (2 * a.layers) ** -0.5
    random = np.random.default_rng([a.seed, index])
    tensor = np.empty(shape, dtype_of(name, shape))
    rows = tensor.reshape(-1, shape[-1])
    for row in range(0, len(rows), 1024):
        part = rows[row:row + 1024]
        part[:] = scale * random.standard_normal(part.shape, np.float32)
    return tensor


def write_f16(path, a):
    tokenizer = gguf.GGUFReader(a.tokenizer)
    vocab = len(tokenizer.fields["tokenizer.ggml.tokens"].data)
    writer = gguf.GGUFWriter(path, "qwen3moe" if a.experts else "llama")
    writer.add_name(a.name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_block_count(a.layers)
    writer.add_context_length(a.context)
    writer.add_embedding_length(a.width)
    writer.add_feed_forward_length(a.hidden)
    writer.add_head_count(a.heads)
    writer.add_head_count_kv(a.kv_heads)
    if a.experts:
        writer.add_key_length(a.head_dim)
        writer.add_value_length(a.head_dim)
        writer.add_expert_count(a.experts)
        writer.add_expert_used_count(a.experts_per_token)
        writer.add_expert_feed_forward_length(a.hidden)
    writer.add_rope_dimension_count(a.head_dim)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    for key, field in tokenizer.fields.items():
        if key.startswith("tokenizer."):
            writer.add_key_value(key, field.contents(), field.types[0], field.types[1] if field.types[1:] else None)
    tensors = shapes(a, vocab)
    for name, shape in tensors.items():
        dtype = dtype_of(name, shape)
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
    parser.add_argument("--name")
    parser.add_argument("--types", type=quantize_llama_cpp.type_names, default="q8_0,q4_0,q4_k_m,q5_k_m,q6_k")
    parser.add_argument("--keep-f16", action="store_true")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=SMOLLM2)
    for option in ("layers", "width", "heads", "kv-heads", "head-dim", "hidden", "experts", "experts-per-token"):
        parser.add_argument(f"--{option}", type=int)
    for option, value in {"context": 8192, "seed": 1, "threads": os.cpu_count()}.items():
        parser.add_argument(f"--{option}", type=int, default=value)
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    a = parser.parse_args()
    if not a.tokenizer.is_file():
        sys.exit(f"{a.tokenizer} is not there: make smollm2 puts it there, or --tokenizer names another GGUF")
    given = {key for key, value in vars(a).items() if value is not None}
    for key, value in (MOE_1B if a.experts else LLAMA_1B).items():
        if key not in given and not (key == "head_dim" and {"width", "heads"} & given):
            setattr(a, key, value)
    if not a.head_dim and a.width % a.heads or a.heads % a.kv_heads:
        sys.exit("--width has to be a multiple of --heads, or --head-dim given, and --heads a multiple of --kv-heads")
    a.head_dim = a.head_dim or a.width // a.heads
    if a.experts and a.experts_per_token > a.experts:
        sys.exit("--experts-per-token is more than --experts")
    a.out.mkdir(parents=True, exist_ok=True)
    f16 = a.out / f"{a.name}.F16.gguf"
    write_f16(f16, a)
    quantize_llama_cpp.quantize(f16, a.types, a.out, a.name, a.threads)
    if not a.keep_f16:
        f16.unlink()


if __name__ == "__main__":
    main()
