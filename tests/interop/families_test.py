"""Compares greedy outputs with llama.cpp for families other than Llama, on the same GGUF files, F32 and quantized."""

import json

import gguf
import pytest

from engines import LlamaCpp, assert_same_text, folio, folio_greedy
import gguf_copies  # in tests/apps/files, which engines.py adds to sys.path
import random_models

BLOCKS = dict(hidden_size=64, intermediate_size=96)  # sizes that are multiples of 32, as quantized blocks require
EXPERTS_OF = ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "dots1", "gpt_oss"]
EXPERTS = dict(moe_intermediate_size=32)
# For the norms inside latent attention, llama.cpp uses rms_norm_eps, but transformers always uses 1e-6. So set
# rms_norm_eps to 1e-6.
LATENT = dict.fromkeys(["deepseek_v2", "deepseek_v3", "glm4_moe_lite", "youtu"], dict(rms_norm_eps=1e-6))
MORE = {"mistral nemo": dict(head_dim=32), "glm": dict(head_dim=16), "qwen3_moe": EXPERTS, "dots1": EXPERTS,
        "qwen2_moe": dict(moe_intermediate_size=32, shared_expert_intermediate_size=64)}


def exported(model, folder, *flags):
    """Exports a transformers model as GGUF and returns the path of the file."""
    path = folder / "m.gguf"
    folio("export", random_models.write(model, folder / "m"), "--out", path, *flags)
    return path


def assert_same_output(path, prompt, n):
    with LlamaCpp(path) as theirs:
        ours = folio_greedy(path, prompt, n)
        assert theirs.tokenize(prompt) == ours["prompt_tokens"]
        assert_same_text(ours["tokens"], *theirs.greedy(ours["prompt_tokens"], len(ours["tokens"]), never=5))


def assert_mostly_equal(theirs, ours):
    """Asserts that 90% of tokens agree. Rounding may select another expert if router scores are close."""
    before = ours["prompt_tokens"] + ours["tokens"][:-1]
    choices = theirs.all_logits(before)[len(ours["prompt_tokens"]) - 1:, :5].argmax(-1)
    assert (choices == ours["tokens"]).mean() >= 0.9


# Omits models that llama.cpp computes differently from transformers. llama.cpp rounds the limits of gpt-oss's YaRN ramp
# to integers, and ranks DeepSeek-V2's groups of experts by their two best experts, as in DeepSeek-V3.
@pytest.mark.parametrize("name", [name for name in [*random_models.MODELS, "gemma2 27b"]
                                  if name not in ("gpt_oss yarn", "deepseek_v2 groups")])
def test_outputs_are_the_same(tmp_path, name):
    path = exported(random_models.make(name, **LATENT.get(name, {})), tmp_path)
    n = 30 if "window" in name else 200  # a window that GGUF can't store is exported as a shorter context
    for prompt in ("ab", "é a b"):
        assert_same_output(path, prompt, n)


@pytest.mark.parametrize("name", ["deepseek_v3", "glm4_moe"])
def test_files_with_a_module_of_multi_token_prediction(tmp_path, name):
    """llama.cpp counts the MTP module as a block but does not run it, so outputs must be equal."""
    directory = random_models.write_ahead(name, tmp_path / "m")
    config = directory / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | LATENT.get(name, {})))
    folio("export", directory, "--out", tmp_path / "m.gguf")
    assert_same_output(tmp_path / "m.gguf", "é a b", 60)


def test_chatglm_with_fused_qkv(tmp_path):
    """Outputs are equal for one fused matrix of queries, keys and values, as in GGUF files of ChatGLM2 and 3."""
    gguf_copies.copy(exported(random_models.make("glm"), tmp_path), tmp_path / "fused.gguf", gguf_copies.with_fused_qkv)
    assert_same_output(tmp_path / "fused.gguf", "ab é", 200)


@pytest.mark.parametrize("scaling", [dict(rope_type="linear", factor=4.0),
                                     dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)],
                         ids=lambda scaling: scaling["rope_type"])
def test_scaled_rope(tmp_path, scaling):
    model = random_models.make("llama wide heads", rope_parameters={"rope_theta": 1e4, **scaling})
    assert_same_output(exported(model, tmp_path), "ab é", 200)


@pytest.mark.parametrize("type_", ["q8_0", "q4_0", "q4_1"])
@pytest.mark.parametrize("name", ["mistral nemo", "qwen2", "qwen3 wide heads", *EXPERTS_OF, "gemma2", "granite",
                                  "phi3", "glm"])
def test_quantized_files(tmp_path, name, type_):
    """Both engines round inputs of products to 8 bits, but in different groups, so logits differ by about 1%."""
    path = exported(random_models.make(name, **BLOCKS, **MORE.get(name, {})), tmp_path, "--type", type_)
    types = {t.tensor_type.name for t in gguf.GGUFReader(path).tensors}
    assert types == {"F32", "Q8_0", type_.upper()}
    with LlamaCpp(path) as theirs:
        ours = folio_greedy(path, "ab é", 60)
        if name in EXPERTS_OF:
            return assert_mostly_equal(theirs, ours)
        assert_same_text(ours["tokens"], *theirs.greedy(ours["prompt_tokens"], len(ours["tokens"]), never=5), near=0.3)


def test_gpt_oss_in_mxfp4(tmp_path):
    """Experts are in MXFP4, as in published files."""
    directory = random_models.write_mxfp4(random_models.make("gpt_oss", hidden_size=64), tmp_path / "m")
    folio("export", directory, "--out", tmp_path / "m.gguf")
    assert "MXFP4" in {t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
    with LlamaCpp(tmp_path / "m.gguf") as theirs:
        assert_mostly_equal(theirs, folio_greedy(tmp_path / "m.gguf", "ab é", 60))
