"""RoPE's scalings against transformers: the frequencies, the logits, and the parameters in files."""

import json
import os
import pathlib
import subprocess

import gguf
import numpy as np
import pytest
import sound
import torch
import transformers
from support import FAILED, assert_refused, run, succeed

BUILD = pathlib.Path(os.environ["FOLIO_BUILD_DIR"])
IDS = [2, 1, 4, 0, 3, 3, 1, 2] * 12


def scaled_llama(factor, original, low=1.0, high=4.0):
    return llama({"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                  "original_max_position_embeddings": original})


def llama(scaling, size=0.3):
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=len(sound.CHARACTERS) + 1, hidden_size=128, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=512, bos_token_id=5, eos_token_id=5,
        rope_theta=500000.0, initializer_range=size,  # scores that differ, so that positions count
        rope_scaling=dict(scaling))  # transformers writes into it
    return transformers.LlamaForCausalLM(config).eval()


def written(model, folder):
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(sound.character_json()))
    return folder


def logits_of(path):
    done = subprocess.run([BUILD / "tests" / "logits_tool", path, *map(str, IDS)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout))


def scaling_of(folder):
    config = json.loads((folder / "config.json").read_text())
    return {k: v for k, v in (config.get("rope_scaling") or config.get("rope_parameters")).items() if k != "rope_theta"}


@pytest.mark.parametrize("numbers", [(8.0, 8192), (4.0, 64), (32.0, 48, 1.5, 6.0)], ids=["llama", "short", "odd"])
def test_logits_and_numbers_are_those_of_transformers(tmp_path, numbers):
    model = scaled_llama(*numbers)
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0].numpy()
        plain = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{
            **model.config.to_dict(), "rope_scaling": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})).eval()
        plain.load_state_dict(model.state_dict())
        unscaled = plain(torch.tensor([IDS])).logits[0].numpy()
    theirs = written(model, tmp_path / "theirs")
    succeed("export", theirs, "--out", tmp_path / "m.gguf")
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "ours", "--format", "hf")
    for path in (theirs, tmp_path / "m.gguf", tmp_path / "ours"):
        assert np.abs(logits_of(path) - expected).max() < 1e-4, path
    assert np.abs(unscaled - expected).max() > 1e-2, "without scaling the logits are others"
    assert scaling_of(tmp_path / "ours") == scaling_of(theirs)
    factors = next(t for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors if t.name == "rope_freqs.weight")
    inv_freq = 500000.0 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(inv_freq / factors.data, model.model.rotary_emb.inv_freq.numpy(), rtol=1e-6)
    with torch.no_grad():
        again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours").eval()
        np.testing.assert_array_equal(again(torch.tensor([IDS])).logits[0].numpy(), expected)


RAMP = [round(1 + 0.17 * i, 4) for i in range(32)]
OTHERS = {
    "linear": dict(rope_type="linear", factor=4.0),
    "yarn": dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64),
    "yarn with its numbers": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, beta_fast=20.0,
                                  beta_slow=2.0, attention_factor=1.25),
    "longrope": dict(rope_type="longrope", factor=8.0, original_max_position_embeddings=64,
                     short_factor=[1.0] * 32, long_factor=RAMP),
    "longrope in its own context": dict(rope_type="longrope", factor=2.0, original_max_position_embeddings=512,
                                        short_factor=RAMP, long_factor=[9.0] * 32),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_are_those_of_transformers(tmp_path, name):
    # YaRN and LongRoPE make scores larger, and with them what transformers loses where it rounds angles to floats.
    model = llama(OTHERS[name], size=0.2)
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0].numpy()
        unscaled = llama({"rope_type": "default", "rope_theta": 500000.0}, size=0.2)
        unscaled.load_state_dict(model.state_dict())
        assert np.abs(unscaled(torch.tensor([IDS])).logits[0].numpy() - expected).max() > 1e-2
    theirs = written(model, tmp_path / "theirs")
    succeed("export", theirs, "--out", tmp_path / "m.gguf")
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "ours", "--format", "hf")
    for path in (theirs, tmp_path / "m.gguf", tmp_path / "ours"):
        assert np.abs(logits_of(path) - expected).max() < 1e-4, path
    with torch.no_grad():
        again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours").eval()
        np.testing.assert_allclose(again(torch.tensor([IDS])).logits[0].numpy(), expected, atol=1e-5)


def test_llama2c_has_no_place_for_it(tmp_path):
    done = run("export", written(scaled_llama(8.0, 8192), tmp_path / "theirs"), "--out", tmp_path / "m.bin", "--format",
               "llama2c")
    assert_refused(done, FAILED, "llama2.c")
    assert not (tmp_path / "m.bin").exists()


def test_dynamic_scaling_is_none_within_the_context(tmp_path):
    model = llama(dict(rope_type="dynamic", factor=8.0))
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0].numpy()
    assert np.abs(logits_of(written(model, tmp_path / "theirs")) - expected).max() < 1e-4
    done = run("generate", "--model", tmp_path / "theirs", "--max-tokens", "1", "a" * 600)
    assert_refused(done, FAILED, "context")  # of 512, behind which the angles would be others


@pytest.mark.parametrize("kind", ["su", "mrope"])
def test_other_kinds_are_refused_by_name(tmp_path, kind):
    theirs = written(scaled_llama(8.0, 8192), tmp_path / "theirs")
    config = json.loads((theirs / "config.json").read_text())
    for key in ("rope_scaling", "rope_parameters"):
        if config.get(key):
            config[key]["rope_type"] = kind
    (theirs / "config.json").write_text(json.dumps(config))
    done = run("export", theirs, "--out", tmp_path / "m.gguf")
    assert_refused(done, FAILED, f"RoPE scaling of type {kind} is not supported here")
