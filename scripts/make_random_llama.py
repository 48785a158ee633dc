#!/usr/bin/env python3
"""Makes a Llama of any shape with random weights and a published tokenizer, for measurements. Its output is noise.

Usage: build/venv/bin/python scripts/make_random_llama.py OUT_DIR [--types f16,q8_0,q4_0,q4_k_m,q5_k_m,q6_k]
       [--tokenizer FILE.gguf] [--layers N] [--width N] [--heads N] [--kv-heads N] [--head-dim N] [--hidden N]
       [--experts N --experts-per-token K] [--latent] [--untied] [--seed N]

The default shape is that of Llama 3.2 1B with the vocabulary of SmolLM2 (49,152 instead of 128,256 tokens): 1.07
billion weights. --experts makes a Qwen3-MoE, with --hidden as an expert's width: by default 24 layers of 32 experts, 8
per token, with 1.08 billion weights of which a token uses 0.40 billion. Relative to the
model's width, the experts of a token and the heads are as wide as in Qwen3-30B-A3B. --latent makes a DeepSeek-V2 with
V2-Lite's width, heads and latent: by default 8 layers, the first dense, 10 experts, 6 per token, and 2 shared.
transformers draws the weights, and build/export writes OUT_DIR/NAME.TYPE.gguf. Needs memory for the model in F16."""
import argparse
import pathlib
import tempfile

import torch
import transformers

from compare import BUILD, SMOLLM2, run

LLAMA_1B = {"name": "llama-1b", "layers": 16, "width": 2048, "heads": 32, "kv_heads": 8, "hidden": 8192}
MOE_1B = {"name": "qwen3-moe-1b", "layers": 24, "width": 1024, "heads": 16, "kv_heads": 4, "head_dim": 128,
          "hidden": 384, "experts": 32, "experts_per_token": 8}
DEEPSEEK_1B = {"name": "deepseek2-1b", "layers": 8, "width": 2048, "heads": 16, "kv_heads": 16, "head_dim": 192,
               "hidden": 1408, "experts": 10, "experts_per_token": 6}


def config_of(a, vocab_size):
    own = dict(vocab_size=vocab_size, hidden_size=a.width, num_hidden_layers=a.layers, num_attention_heads=a.heads,
               num_key_value_heads=a.kv_heads, max_position_embeddings=a.context, rms_norm_eps=1e-5,
               rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, tie_word_embeddings=not a.untied)
    if not a.experts:
        return transformers.LlamaConfig(**own, head_dim=a.head_dim, intermediate_size=a.hidden)
    own |= dict(num_experts_per_tok=a.experts_per_token, moe_intermediate_size=a.hidden)
    if not a.latent:
        return transformers.Qwen3MoeConfig(**own, head_dim=a.head_dim, num_experts=a.experts, norm_topk_prob=True)
    return transformers.DeepseekV2Config(**own, n_routed_experts=a.experts, n_shared_experts=2, first_k_dense_replace=1,
                                         intermediate_size=10944, kv_lora_rank=512, q_lora_rank=None, v_head_dim=128,
                                         qk_rope_head_dim=64, qk_nope_head_dim=a.head_dim - 64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--name")
    parser.add_argument("--types", default="q8_0,q4_0,q4_k_m,q5_k_m,q6_k")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=SMOLLM2)
    for option in ("layers", "width", "heads", "kv-heads", "head-dim", "hidden", "experts", "experts-per-token"):
        parser.add_argument(f"--{option}", type=int)
    for option, value in {"context": 8192, "seed": 1}.items():
        parser.add_argument(f"--{option}", type=int, default=value)
    parser.add_argument("--latent", action="store_true", help="a DeepSeek-V2 with latent attention")
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    a = parser.parse_args()
    given = {key for key, value in vars(a).items() if value is not None}
    for key, value in (DEEPSEEK_1B if a.latent else MOE_1B if a.experts else LLAMA_1B).items():
        if key not in given and not (key == "head_dim" and not a.latent and {"width", "heads"} & given):
            setattr(a, key, value)
    a.head_dim = a.head_dim or a.width // a.heads
    a.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=a.out) as scratch:
        folder = pathlib.Path(scratch, "hf")
        run(BUILD / "export", a.tokenizer, "--out", folder, "--format", "hf", "--type", "bf16")  # writes the tokenizer
        torch.manual_seed(a.seed)
        config = config_of(a, transformers.AutoConfig.from_pretrained(folder).vocab_size)
        transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).save_pretrained(folder)
        for type_ in a.types.split(","):
            out = a.out / f"{a.name}.{type_.upper()}.gguf"
            run(BUILD / "export", folder, "--out", out, "--type", type_)
            print(out, flush=True)


if __name__ == "__main__":
    main()
