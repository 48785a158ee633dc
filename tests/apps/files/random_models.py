"""Makes small models of the supported families with transformers. All weights are random, also norms and biases."""

import json

import gguf
import numpy as np
import safetensors.torch
import sound
import torch
import transformers

# Grouped queries, unusual head dimensions and windows that end within a KV cache block reveal bugs that common
# sizes hide.
SHARED = dict(vocab_size=len(sound.CHARACTERS) + 1, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
              num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-6,
              bos_token_id=5, eos_token_id=5, pad_token_id=None)
# Latent attention with dimensions that all differ. rms_norm_eps differs from the 1e-6 that the latents' norms use. YaRN
# multiplies the attention scores by (1 + 0.0707 ln 8)².
LATENT = dict(rms_norm_eps=1e-2, num_key_value_heads=4, kv_lora_rank=24, q_lora_rank=20, qk_nope_head_dim=10,
              qk_rope_head_dim=8, v_head_dim=12)
LATENT_YARN = dict(rope_type="yarn", rope_theta=1e4, factor=8.0, mscale=0.707, mscale_all_dim=0.707,
                   original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0)
MODELS = {
    "llama": (transformers.LlamaConfig, dict(tie_word_embeddings=True)),
    "llama wide heads": (transformers.LlamaConfig, dict(head_dim=24)),
    "mistral": (transformers.MistralConfig, dict(sliding_window=None)),
    "mistral nemo": (transformers.MistralConfig, dict(sliding_window=None, head_dim=20, rope_theta=1e6)),
    "mistral window": (transformers.MistralConfig, dict(sliding_window=37)),
    "qwen2": (transformers.Qwen2Config, dict(tie_word_embeddings=True, rope_theta=1e6)),
    "qwen2 untied": (transformers.Qwen2Config, dict(rope_theta=1e4)),
    "qwen2 window": (transformers.Qwen2Config, dict(use_sliding_window=True, sliding_window=20, max_window_layers=0)),
    "qwen3": (transformers.Qwen3Config, dict(head_dim=16, tie_word_embeddings=True, rope_theta=1e6)),
    "qwen3 wide heads": (transformers.Qwen3Config, dict(head_dim=24)),
    "qwen3 window": (transformers.Qwen3Config,
                     dict(head_dim=16, use_sliding_window=True, sliding_window=50, max_window_layers=0)),
    "mixtral": (transformers.MixtralConfig, dict(num_local_experts=6, num_experts_per_tok=2)),
    "qwen2_moe": (transformers.Qwen2MoeConfig,
                  dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
                       shared_expert_intermediate_size=40)),
    "qwen3_moe": (transformers.Qwen3MoeConfig,
                  dict(head_dim=16, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=20,
                       norm_topk_prob=True)),
    # Has a window in even layers, which transformers writes to layer_types.
    "qwen2_moe window": (transformers.Qwen2MoeConfig,
                         dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
                              shared_expert_intermediate_size=40, use_sliding_window=True, sliding_window=20)),
    "qwen3_moe window": (transformers.Qwen3MoeConfig,
                         dict(head_dim=16, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=20,
                              norm_topk_prob=True, use_sliding_window=True, sliding_window=20)),
    # OLMoE has no grouped queries here, because llama.cpp requires as many KV heads as query heads.
    "olmoe": (transformers.OlmoeConfig, dict(num_experts=8, num_experts_per_tok=3, num_key_value_heads=4)),
    "dots1": (transformers.Dots1Config,
              dict(head_dim=16, n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=2, n_group=4, topk_group=2,
                   moe_intermediate_size=20, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5,
                   sliding_window=None, num_key_value_heads=4)),
    "glm4_moe": (transformers.Glm4MoeConfig,
                 dict(head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                      moe_intermediate_size=20, first_k_dense_replace=1, attention_bias=True)),
    "deepseek_v2": (transformers.DeepseekV2Config,
                    dict(LATENT, q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                         moe_intermediate_size=20, first_k_dense_replace=1)),
    "deepseek_v2 groups": (transformers.DeepseekV2Config,
                           dict(LATENT, n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=1, n_group=4,
                                topk_group=2, topk_method="group_limited_greedy", moe_intermediate_size=20,
                                routed_scaling_factor=4.0)),
    "deepseek_v3": (transformers.DeepseekV3Config,
                    dict(LATENT, n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2,
                         moe_intermediate_size=20, first_k_dense_replace=1, rope_parameters=LATENT_YARN)),
    "glm4_moe_lite": (transformers.Glm4MoeLiteConfig,
                      dict(LATENT, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                           mlp_layer_types=["dense", "dense", "sparse"])),
    "youtu": (transformers.YoutuConfig, dict(LATENT, tie_word_embeddings=True, rope_theta=1e6)),
    # The caps are low enough that scores and logits of random weights exceed them.
    "gemma2": (transformers.Gemma2Config,
               dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=37, attn_logit_softcapping=3.0,
                    final_logit_softcapping=5.0)),
    "gemma3_text": (transformers.Gemma3TextConfig,
                    dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=37, num_hidden_layers=7)),
    # In Gemma 3 4B and larger models, layers with global attention divide RoPE's frequencies by 8.
    "gemma3_text linear": (transformers.Gemma3TextConfig,
                           dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=37, num_hidden_layers=7,
                                rope_parameters={
                                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})),
    "llama linear": (transformers.LlamaConfig,
                     dict(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4})),
    "olmo2": (transformers.Olmo2Config, dict()),
    "granite": (transformers.GraniteConfig,
                dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=2.0)),
    "phi3": (transformers.Phi3Config, dict(sliding_window=None)),
    "phi3 long": (transformers.Phi3Config,
                  dict(sliding_window=None, original_max_position_embeddings=256,
                       rope_parameters=dict(rope_type="longrope", rope_theta=1e4, attention_factor=1.3,
                                            original_max_position_embeddings=256, short_factor=[1.0, 1.3, 1.7, 2.0],
                                            long_factor=[4.0] * 4))),
    "phi3 window": (transformers.Phi3Config, dict(sliding_window=37)),
    "glm": (transformers.GlmConfig, dict(head_dim=8, attention_bias=True)),
    "glm4": (transformers.Glm4Config, dict(head_dim=16, attention_bias=False)),
    "glm no bias": (transformers.GlmConfig, dict(head_dim=8, attention_bias=False)),
    "glm4 bias": (transformers.Glm4Config, dict(head_dim=16, attention_bias=True)),
    "gpt_oss": (transformers.GptOssConfig,
                dict(head_dim=16, num_local_experts=6, num_experts_per_tok=2, sliding_window=37, rope_theta=1e4)),
    # truncate=False, as published: the ends of YaRN's ramp aren't rounded to whole pairs.
    "gpt_oss yarn": (transformers.GptOssConfig,
                     dict(head_dim=16, num_local_experts=6, num_experts_per_tok=2, sliding_window=37,
                          rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=8.0, beta_fast=32.0,
                                               beta_slow=1.0, truncate=False, original_max_position_embeddings=64))),
}
# Gemma 2 27B divides attention scores by √(dim / heads) instead of √head_dim. llama.cpp recognizes it by its 46 layers.
GEMMA_27B = (transformers.Gemma2Config,
             dict(head_dim=16, query_pre_attn_scalar=8, sliding_window=37, num_hidden_layers=46))
# {model_type: (architecture in GGUF, model_type after export from this GGUF)}. The default architecture is model_type
# without "_", and the default second value is model_type.
ARCHITECTURES = {"mistral": ("llama", "llama"), "mixtral": ("llama", "mixtral"), "gemma3_text": ("gemma3", "gemma3_text"),
                 "deepseek_v2": ("deepseek2", "deepseek_v2"), "deepseek_v3": ("deepseek2", "deepseek_v3"),
                 "glm4_moe_lite": ("deepseek2", "deepseek_v3"), "youtu": ("deepseek2", "youtu"),
                 "glm": ("chatglm", "glm"), "gpt_oss": ("gpt-oss", "gpt_oss")}
GGUF_WINDOWS = ("gemma2", "gemma3_text", "phi3", "gpt_oss")  # families whose sliding window GGUF can store


def config_of(name, **more):
    config_class, own = GEMMA_27B if name == "gemma2 27b" else MODELS[name]
    own = {**SHARED, **own, **more}
    if "rope_theta" in own:
        own["rope_parameters"] = {"rope_type": "default", "rope_theta": own.pop("rope_theta")}
    return config_class(**own)


def make(name, **more):
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config_of(name, **more)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
            else:
                parameter.normal_(0.0 if key.endswith("bias") else 1.0, 0.3)
            if "gpt_oss" in name and key.endswith("gate_up_proj"):
                parameter.mul_(6)  # so large that gpt-oss clamps some activations
            if "gemma" in name and parameter.dim() == 1:  # w is bfloat16, as published, so 1 + w is exact in float32
                parameter.copy_((parameter - 1).bfloat16().float())
        for key, buffer in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                buffer.normal_(0.0, 0.3)
    return model


def write(model, folder, **options):
    """Saves the model with a tokenizer of six tokens. `options` are those of save_pretrained()."""
    model.save_pretrained(folder, **options)
    (folder / "tokenizer.json").write_text(json.dumps(sound.character_json()))
    return folder


def write_ahead(name, folder):
    """Saves a model of three layers with an MTP module (multi-token prediction), which is made from a fourth layer."""
    write(make(name, num_hidden_layers=4), folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for key in ("enorm", "hnorm", "shared_head.norm"):
        tensors[f"model.layers.3.{key}.weight"] = torch.empty(32).normal_(1.0, 0.3)
    tensors["model.layers.3.eh_proj.weight"] = torch.empty(32, 64).normal_(0.0, 0.2)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3, "num_nextn_predict_layers": 1}))
    return folder


def write_mxfp4(model, folder):
    """Saves the model like published gpt-oss: experts in MXFP4 (elements 2i and 2i + 1 in a byte), the rest in BF16."""
    model.to(torch.bfloat16)
    write(model, folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for key in [key for key in tensors if key.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        rows = tensors.pop(key).float().transpose(1, 2).contiguous().numpy()
        blocks = gguf.quants.quantize(rows, gguf.GGMLQuantizationType.MXFP4).reshape(*rows.shape[:2], -1, 17)
        halves = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], -1)
        tensors[key + "_blocks"] = torch.from_numpy(halves[..., ::2] | halves[..., 1::2] << 4)
        tensors[key + "_scales"] = torch.from_numpy(blocks[..., 0].copy())
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def window_of(model):
    return getattr(model.config, "sliding_window", None)


def choices(model, prompt, tokens):
    """Returns transformers' greedy choice at each index of `tokens`, given `prompt` and the earlier tokens, and the
    differences of the two highest logits.

    If the choices equal `tokens`, these are transformers' greedy output. As in Folio, <|endoftext|> is never chosen.
"""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1]
    logits[:, -1] = -torch.inf
    best = logits.topk(2)
    return best.indices[:, 0].tolist(), (best.values[:, 0] - best.values[:, 1]).tolist()
