#!/usr/bin/env python3
"""Makes a Llama of any shape with random weights and a published tokenizer, for measurements. Its output is noise.

Usage: build/venv/bin/python scripts/make_random_llama.py OUT_DIR [--types q8_0,q4_0,q4_k_m,q5_k_m,q6_k] [--keep-f16]
       [--tokenizer FILE.gguf] [--layers N] [--width N] [--heads N] [--kv-heads N] [--head-dim N] [--hidden N]
       [--experts N --experts-per-token K] [--latent] [--untied] [--seed N]

The default shape is that of Llama 3.2 1B with the vocabulary of SmolLM2 (49,152 instead of 128,256 tokens): 1.07
billion weights. --experts makes a Qwen3-MoE, with --hidden as an expert's width: by default 24 layers of 32 experts, 8
per token, with 1.08 billion weights of which a token uses 0.40 billion. Its proportions (experts per token times their
width, heads, both relative to the model's width) are those of Qwen3-30B-A3B. --latent makes a DeepSeek-V2 with
V2-Lite's width, heads and latent: by default 8 layers, the first dense, 10 experts, 6 per token, and 2 shared. Writes
OUT_DIR/NAME.F16.gguf, and quantizes it to the types with llama.cpp (quantize_llama_cpp.py). The same arguments give the
same bytes. Needs `make interop`, and memory for one tensor."""
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
DEEPSEEK_1B = {"name": "deepseek2-1b", "layers": 8, "width": 2048, "heads": 16, "kv_heads": 16, "head_dim": 192,
               "hidden": 1408, "experts": 10, "experts_per_token": 6}
LATENT, ROPE, VALUE, SHARED, DENSE_HIDDEN = 512, 64, 128, 2, 10944  # of DeepSeek-V2-Lite


def shapes(a, vocab):
    """Returns {name: shape} in the order of the file: (rows, columns) of a matrix, (experts, rows, columns) of a stack,
    (width,) of a norm."""
    query_width, kv_width = a.heads * a.head_dim, a.kv_heads * a.head_dim
    layer = {"attn_norm": (a.width,), "attn_q": (query_width, a.width), "attn_k": (kv_width, a.width),
             "attn_v": (kv_width, a.width), "attn_output": (a.width, query_width), "ffn_norm": (a.width,)}
    if a.latent:
        layer = {"attn_norm": (a.width,), "attn_q": (query_width, a.width), "attn_kv_a_mqa": (LATENT + ROPE, a.width),
                 "attn_kv_a_norm": (LATENT,), "attn_k_b": (a.heads, LATENT, a.head_dim - ROPE),
                 "attn_v_b": (a.heads, VALUE, LATENT), "attn_output": (a.width, a.heads * VALUE),
                 "ffn_norm": (a.width,)}
    elif a.experts:
        layer |= {"attn_q_norm": (a.head_dim,), "attn_k_norm": (a.head_dim,)}

    def network(suffix, hidden, stack=()):
        return {f"ffn_gate{suffix}": stack + (hidden, a.width), f"ffn_up{suffix}": stack + (hidden, a.width),
                f"ffn_down{suffix}": stack + (a.width, hidden)}

    dense = layer | network("", DENSE_HIDDEN if a.latent else a.hidden)
    if a.experts:
        layer |= {"ffn_gate_inp": (a.experts, a.width)} | network("_exps", a.hidden, (a.experts,))
    if a.latent:
        layer |= network("_shexp", SHARED * a.hidden)
    tensors = {"token_embd.weight": (vocab, a.width)}
    for i in range(a.layers):
        of_layer = dense if not a.experts or a.latent and i == 0 else layer
        tensors |= {f"blk.{i}.{name}.weight": shape for name, shape in of_layer.items()}
    tensors["output_norm.weight"] = (a.width,)
    if a.untied:
        tensors["output.weight"] = (vocab, a.width)
    return tensors


def dtype_of(name, shape):
    """Returns the type that llama.cpp's converter would choose: F32 for norms and routers, otherwise F16."""
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
    writer = gguf.GGUFWriter(path, "deepseek2" if a.latent else "qwen3moe" if a.experts else "llama")
    writer.add_name(a.name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_block_count(a.layers)
    writer.add_context_length(a.context)
    writer.add_embedding_length(a.width)
    writer.add_feed_forward_length(DENSE_HIDDEN if a.latent else a.hidden)
    writer.add_head_count(a.heads)
    writer.add_head_count_kv(1 if a.latent else a.kv_heads)
    if a.latent:
        writer.add_q_lora_rank(0)  # none for queries; llama.cpp requires the key
        writer.add_kv_lora_rank(LATENT)
        writer.add_key_length_mla(a.head_dim)
        writer.add_value_length_mla(VALUE)
        writer.add_leading_dense_block_count(1)
        writer.add_expert_shared_count(SHARED)
        writer.add_expert_weights_scale(1.0)
    if a.experts:
        writer.add_key_length(LATENT + ROPE if a.latent else a.head_dim)
        writer.add_value_length(LATENT if a.latent else a.head_dim)
        writer.add_expert_count(a.experts)
        writer.add_expert_used_count(a.experts_per_token)
        writer.add_expert_feed_forward_length(a.hidden)
    writer.add_rope_dimension_count(ROPE if a.latent else a.head_dim)
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
    parser.add_argument("--latent", action="store_true", help="a DeepSeek-V2 with latent attention")
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    a = parser.parse_args()
    if not a.tokenizer.is_file():
        sys.exit(f"{a.tokenizer} is not there: make smollm2 puts it there, or --tokenizer names another GGUF")
    given = {key for key, value in vars(a).items() if value is not None}
    for key, value in (DEEPSEEK_1B if a.latent else MOE_1B if a.experts else LLAMA_1B).items():
        if key not in given and not (key == "head_dim" and not a.latent and {"width", "heads"} & given):
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
