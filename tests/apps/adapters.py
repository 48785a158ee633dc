"""Writes random adapters in peft's format, without peft. lora_test.py tests adapters that peft itself saved."""

import json

import numpy as np
from safetensors.numpy import save_file

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def save_adapter(directory, shapes, seed=1, rank=2, size=1.0, alpha=None):
    """Writes an adapter of modules such as "0.mlp.up_proj" (with the layer's index). `shapes` is {module: (inputs,
    outputs)}. The elements of B have the standard deviation `size`; alpha is the rank by default."""
    random = np.random.default_rng(seed)
    tensors = {}
    for module, (n_in, n_out) in shapes.items():
        name = f"base_model.model.model.layers.{module}"
        tensors[f"{name}.lora_A.weight"] = random.normal(0, n_in ** -0.5, (rank, n_in)).astype(np.float32)
        tensors[f"{name}.lora_B.weight"] = random.normal(0, size, (n_out, rank)).astype(np.float32)
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "adapter_model.safetensors")
    targets = list(dict.fromkeys(module.split(".")[-1] for module in shapes))
    (directory / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": alpha or rank, "target_modules": targets, "bias": "none"}))
    return directory


def write_adapter(directory, model, seed, rank=4, targets=ALL, size=0.3, alpha=None):
    """Writes an adapter of the Hugging Face model in the directory `model`, as save_adapter() does."""
    config = json.loads((model / "config.json").read_text())
    dim, hidden, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or dim // heads
    kv_dim = config.get("num_key_value_heads", heads) * head_dim
    shapes = {"q_proj": (dim, heads * head_dim), "k_proj": (dim, kv_dim), "v_proj": (dim, kv_dim),
              "o_proj": (heads * head_dim, dim), "gate_proj": (dim, hidden), "up_proj": (dim, hidden),
              "down_proj": (hidden, dim)}
    part = lambda target: "self_attn" if target in ALL[:4] else "mlp"
    return save_adapter(directory, {f"{layer}.{part(target)}.{target}": shapes[target]
                                    for layer in range(config["num_hidden_layers"]) for target in targets},
                        seed, rank, size, alpha)


def change_config(directory, **fields):
    path = directory / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
