"""Small models of the families that run here, made with transformers: all weights random, norms and biases too."""

import json

import sound
import torch
import transformers

# Heads that are not hidden_size / heads wide, grouped queries, windows that are no multiple of a cache block.
SHARED = dict(vocab_size=len(sound.CHARACTERS) + 1, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
              num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-6,
              bos_token_id=5, eos_token_id=5, pad_token_id=None)
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
}


def make(name, **more):
    torch.manual_seed(7)
    config_class, own = MODELS[name]
    own = {**SHARED, **own, **more}
    if "rope_theta" in own:
        own["rope_parameters"] = {"rope_type": "default", "rope_theta": own.pop("rope_theta")}
    model = transformers.AutoModelForCausalLM.from_config(config_class(**own)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
            else:
                parameter.normal_(0.0 if key.endswith("bias") else 1.0, 0.3)
    return model


def write(model, folder):
    """As people have it on disk, with a tokenizer of six tokens."""
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(sound.character_json()))
    return folder


def window_of(model):
    return getattr(model.config, "sliding_window", None)


def greedy(model, tokens, n):
    """As Folio draws from a character model, which never takes <|endoftext|>. The gap is between the best two."""
    tokens, gaps = list(tokens), []
    with torch.no_grad():
        for _ in range(n):
            logits = model(torch.tensor([tokens])).logits[0, -1]
            logits[-1] = -torch.inf
            best = logits.topk(2)
            gaps.append(float(best.values[0] - best.values[1]))
            tokens.append(int(best.indices[0]))
    return tokens[-n:], gaps
