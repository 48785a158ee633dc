"""Compares RoPE scaling (Llama 3, YaRN, LongRoPE, linear) with transformers: frequencies, logits, files' parameters."""

import json

import gguf
import numpy as np
import pytest
import sound
import torch
import transformers
from random_models import write
from support import FAILED, assert_refused, export, logits_of, run

IDS = [2, 1, 4, 0, 3, 3, 1, 2] * 12


def llama(scaling, size=0.3):
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=len(sound.CHARACTERS) + 1, hidden_size=128, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=512, bos_token_id=5, eos_token_id=5,
        rope_theta=500000.0, initializer_range=size,  # so large that positions affect the logits
        rope_scaling=dict(scaling))  # a copy, as transformers modifies the dict
    return transformers.LlamaForCausalLM(config).eval()


def logits_by(model):
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0].numpy()


def scaling_of(folder):
    config = json.loads((folder / "config.json").read_text())
    return {k: v for k, v in (config.get("rope_scaling") or config.get("rope_parameters")).items() if k != "rope_theta"}


RAMP = [round(1 + 0.17 * i, 4) for i in range(32)]
def llama3(factor, original, low=1.0, high=4.0):
    return dict(rope_type="llama3", factor=factor, low_freq_factor=low, high_freq_factor=high,
                original_max_position_embeddings=original)


KINDS = {
    "llama3": llama3(8.0, 8192), "llama3, short": llama3(4.0, 64), "llama3, odd": llama3(32.0, 48, 1.5, 6.0),
    "linear": dict(rope_type="linear", factor=4.0),
    "yarn": dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64),
    "yarn with its numbers": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, beta_fast=20.0,
                                  beta_slow=2.0, attention_factor=1.25),
    "longrope": dict(rope_type="longrope", factor=8.0, original_max_position_embeddings=64,
                     short_factor=[1.0] * 32, long_factor=RAMP),
    "longrope in its own context": dict(rope_type="longrope", factor=2.0, original_max_position_embeddings=512,
                                        short_factor=RAMP, long_factor=[9.0] * 32),
}


@pytest.mark.parametrize("name", KINDS)
def test_logits_and_parameters_match_transformers(tmp_path, name):
    # YaRN and LongRoPE get smaller weights, because large scores amplify transformers' rounding of angles to float32.
    size = 0.3 if name.startswith("llama3") else 0.2
    model, unscaled = llama(KINDS[name], size), llama({"rope_type": "default", "rope_theta": 500000.0}, size)
    unscaled.load_state_dict(model.state_dict())
    expected = logits_by(model)
    assert np.abs(logits_by(unscaled) - expected).max() > 1e-2, "without scaling the logits are others"
    theirs = write(model, tmp_path / "theirs")
    export(theirs, tmp_path / "m.gguf")
    export(tmp_path / "m.gguf", tmp_path / "ours", "--format", "hf")
    for path in (theirs, tmp_path / "m.gguf", tmp_path / "ours"):
        assert np.abs(logits_of(path, IDS) - expected).max() < 1e-4, path
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours").eval()
    np.testing.assert_allclose(logits_by(again), expected, atol=1e-5)
    if name.startswith("llama3"):
        assert scaling_of(tmp_path / "ours") == scaling_of(theirs)
        factors = next(t for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors if t.name == "rope_freqs.weight")
        inv_freq = 500000.0 ** (-np.arange(32) / 32)
        np.testing.assert_allclose(inv_freq / factors.data, model.model.rotary_emb.inv_freq.numpy(), rtol=1e-6)


def test_dynamic_scaling_has_no_effect_within_the_context(tmp_path):
    model = llama(dict(rope_type="dynamic", factor=8.0))
    assert np.abs(logits_of(write(model, tmp_path / "theirs"), IDS) - logits_by(model)).max() < 1e-4
    done = run("generate", "--model", tmp_path / "theirs", "--max-tokens", "1", "a" * 600)
    assert_refused(done, FAILED, "context")  # 600 tokens exceed 512, the largest context that this scaling allows
