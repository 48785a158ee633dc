"""Tests adapter files: the gguf package reads those exported in llama.cpp's format, and merged weights equal peft's.
lora_train_test.py compares those that train writes with peft; tests/interop/adapters_test.py runs llama.cpp itself."""

import json
import shutil

import gguf
import gguf_copies
import numpy as np
import pytest
import sound
import torch
from gguf import GGMLQuantizationType as Q
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from adapters import ALL, change_config, write_adapter
from peft_models import adapted, scores
from support import FAILED, GOLDEN, WRONG_USAGE, assert_refused, export, run, succeed

torch.set_num_threads(1)


# ---- llama.cpp's adapter format ----


@pytest.fixture
def adapter(tmp_path):
    """Writes an adapter of the golden model with an alpha that differs from its rank."""
    return write_adapter(tmp_path / "adapter", GOLDEN, seed=5, alpha=6)


def to_gguf(adapter, *flags):
    return export(adapter, adapter.with_suffix(".gguf"), "--format", "gguf-lora", "--base", GOLDEN, *flags)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("ROMEO:\nWhat say you, and be gone. I will not stay.\n")
    return tmp_path / "text.txt"


def test_gguf_package_reads_adapters(adapter):
    reader = gguf.GGUFReader(to_gguf(adapter))
    field = lambda key: reader.get_field(key).contents()
    assert [field(f"general.{key}") for key in ("type", "architecture", "name")] == ["adapter", "llama", "adapter"]
    assert (field("adapter.type"), field("adapter.lora.alpha")) == ("lora", 6.0)
    theirs = load_file(adapter / "adapter_model.safetensors")
    assert len(reader.tensors) == len(theirs)
    config = json.loads((GOLDEN / "config.json").read_text())
    for tensor in reader.tensors:
        base, which = tensor.name.rsplit(".", 1)
        name = f"base_model.model.{sound.hf_name(base).removesuffix('.weight')}.{which[:-1]}{which[-1].upper()}.weight"
        data = tensor.data
        if which == "lora_b" and ("attn_q" in base or "attn_k" in base):
            data = sound.split_halves(data, config["hidden_size"] // config["num_attention_heads"])
        assert tensor.tensor_type == Q.F32 and (data == theirs[name].numpy()).all(), tensor.name


def test_gguf_adapter_matches_the_directory(golden_gguf, adapter, text):
    """A peft directory and its GGUF export have equal effects. GGUF lacks use_rslora, so alpha includes sqrt(rank)."""
    for stabilized in (False, True):
        change_config(adapter, use_rslora=stabilized)
        file = to_gguf(adapter)
        expected = scores(golden_gguf, text, "--lora", f"{adapter}:0.5")
        assert (scores(golden_gguf, text, "--lora", f"{file}:0.5") == expected).all()
        assert (expected != scores(golden_gguf, text)).any()
        assert gguf.GGUFReader(file).get_field("adapter.lora.alpha").contents() == 6.0 * (2.0 if stabilized else 1.0)


@pytest.mark.parametrize("type_, bits", [("f16", 11), ("bf16", 8)])
def test_adapters_with_16_bits(adapter, type_, bits):
    exact = {t.name: t.data for t in gguf.GGUFReader(to_gguf(adapter)).tensors}
    for tensor in gguf.GGUFReader(to_gguf(adapter, "--type", type_)).tensors:
        assert tensor.tensor_type == Q[type_.upper()]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert (np.abs(values - exact[tensor.name]) <= 2.0 ** -bits * np.abs(exact[tensor.name]) + 2.0 ** -25).all()


def test_base_is_found_from_the_config(adapter, tmp_path):
    assert_refused(run("export", adapter, "--out", tmp_path / "a.gguf", "--format", "gguf-lora"), WRONG_USAGE, "--base")
    change_config(adapter, base_model_name_or_path="HuggingFaceTB/SmolLM2-135M")
    assert_refused(run("export", adapter, "--out", tmp_path / "a.gguf", "--format", "gguf-lora"), WRONG_USAGE,
                   "HuggingFaceTB/SmolLM2-135M", "--base")
    change_config(adapter, base_model_name_or_path=str(GOLDEN))
    export(adapter, tmp_path / "a.gguf", "--format", "gguf-lora")
    assert (tmp_path / "a.gguf").read_bytes() == to_gguf(adapter).read_bytes()


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_scale_defaults_to_one_without_alpha(golden_gguf, adapter, text, tmp_path, alpha):
    """If alpha is missing or 0, the scale is 1, as in llama.cpp (llama_adapter_lora_weight::get_scale)."""
    file, key = tmp_path / "plain.gguf", "adapter.lora.alpha"
    gguf_copies.copy(to_gguf(adapter), file, keys={} if alpha is None else {key: alpha}, without=[key])
    change_config(adapter, lora_alpha=4)  # equals the rank, so the scale is 1
    assert (scores(golden_gguf, text, "--lora", file) == scores(golden_gguf, text, "--lora", adapter)).all()


A, B = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"


@pytest.mark.parametrize("change, fields, parts", [
    (lambda t: {**t, A: t[A][:, :-1]}, {}, [A, "[4, 47]", "[4, 48]"]),
    (lambda t: {**t, B: t[B][:, :-1]}, {}, [B, "[48, 3]", "[48, 4]"]),
    (lambda t: {**t, A: np.zeros((257, 48), np.float32)}, {}, [A, "[1, 256]"]),
    (lambda t: {n: d for n, d in t.items() if n != B}, {}, ["blk.0.attn_q.weight", "only one of lora_a and lora_b"]),
    (lambda t: {**t, "blk.0.attn_norm.weight": t[A][0]}, {}, ["blk.0.attn_norm.weight", "no linear layer"]),
    (lambda t: {n.replace("blk.1.", "blk.2."): d for n, d in t.items()}, {}, ["blk.2.", "2 blocks"]),
    (lambda t: {**t, A: t[A].astype(np.int32)}, {}, [A, "I32"]),
    (lambda t: {}, {}, ["no adapter"]),
    (lambda t: t, {"general.type": "model"}, ["is not an adapter: general.type"]),
    (lambda t: t, {"adapter.type": "ia3"}, ["ia3"]),
    (lambda t: t, {"general.architecture": "qwen2"}, ["qwen2", "llama"]),
    (lambda t: t, {"adapter.lora.alpha": float("nan")}, ["adapter.lora.alpha"]),
    (lambda t: t, {"adapter.alora.invocation_tokens": 1.0}, ["adapter.alora.invocation_tokens"]),
])
def test_invalid_gguf_adapters_are_rejected_by_name(golden_gguf, adapter, tmp_path, change, fields, parts):
    changed = lambda tensors: {name: (array, None) for name, array in change({n: a for n, (a, _) in tensors.items()}).items()}
    gguf_copies.copy(to_gguf(adapter), tmp_path / "other.gguf", changed, keys=fields)
    assert_refused(run("generate", "-m", golden_gguf, "-n", 1, "--lora", tmp_path / "other.gguf", "A"), FAILED, "other.gguf", *parts)


def test_adapters_and_models_are_distinguished(golden_gguf, adapter):
    assert_refused(run("generate", "-m", golden_gguf, "--lora", golden_gguf, "A"), FAILED, "is not an adapter: general.type")
    for program in (["generate", "A", "-m"], ["export", "--out", "/nonexistent/x"]):
        assert_refused(run(*program, to_gguf(adapter)), FAILED, "adapter", "--lora")
        assert_refused(run(*program, adapter), FAILED, "adapter", "--lora")


# ---- Merged adapters ----


def random_model(directory, **fields):
    """Writes a copy of the golden model's directory with changed fields in config.json and random weights."""
    config = {**json.loads((GOLDEN / "config.json").read_text()), **fields}
    shutil.copytree(GOLDEN, directory)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).save_pretrained(directory)
    return directory


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_merged_weights_match_peft(tmp_path, family):
    """Merged weights equal those of peft, up to the order in which the eight products per element are added."""
    base = GOLDEN if family == "llama" else random_model(tmp_path / "base", model_type=family)
    model = adapted(base, size=0.5, r=8, lora_alpha=12, target_modules=ALL)
    model.save_pretrained(tmp_path / "adapter")
    export(base, tmp_path / "hf", "--format", "hf", "--merge", tmp_path / "adapter")
    ours = load_file(tmp_path / "hf" / "model.safetensors")
    before = load_file(base / "model.safetensors")
    changed = 0
    for name, theirs in model.merge_and_unload().state_dict().items():
        assert (ours[name] - theirs).abs().max() <= 1e-6 * theirs.abs().max(), name
        changed += not torch.equal(ours[name], before[name])
    assert changed == 2 * len(ALL)


def test_merged_models_keep_the_bases_types(tmp_path):
    """Matrices without an adapter keep their bits. Merged matrices keep the type, except that Q4_0 becomes Q8_0."""
    model = random_model(tmp_path / "base", hidden_size=64, intermediate_size=96, head_dim=16)
    adapter = write_adapter(tmp_path / "adapter", model, seed=7, targets=["k_proj", "down_proj"])
    for type_, merged_type in (("q8_0", "q8_0"), ("q4_0", "q8_0"), ("bf16", "bf16")):
        base = export(model, tmp_path / f"{type_}.gguf", "--type", type_)
        done = succeed("export", base, "--out", tmp_path / "merged.gguf", "--merge", adapter)
        assert ("become Q8_0" in done.stderr) == (type_ == "q4_0")
        floats = export(base, tmp_path / "floats.gguf", "--merge", adapter, "--type", "f32")
        again = export(floats, tmp_path / "again.gguf", "--type", merged_type)
        tensors = lambda path: {t.name: (t.tensor_type, t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}
        before, after, expected = map(tensors, (base, tmp_path / "merged.gguf", again))
        for name in before:
            changed = "attn_k." in name or "ffn_down" in name
            assert after[name] == (expected if changed else before)[name] and changed == (after[name] != before[name])


@pytest.mark.parametrize("flags, code, parts", [
    (["--merge", "/nonexistent"], FAILED, ["/nonexistent"]),
    (["--merge", "x:loud"], WRONG_USAGE, ["--merge", "loud"]),
    (["--base", "x"], WRONG_USAGE, ["--base", "gguf-lora"]),
    (["--format", "gguf-lora", "--merge", "x"], WRONG_USAGE, ["--merge", "gguf-lora"]),
    (["--format", "gguf-lora", "--type", "q8_0"], WRONG_USAGE, ["q8_0", "f16"]),
    (["--format", "gguf-lora", "--base", GOLDEN], FAILED, ["adapter_config.json"]),
])
def test_invalid_flags_are_rejected(tmp_path, flags, code, parts):
    assert_refused(run("export", GOLDEN, "--out", tmp_path / "out", *flags), code, *parts)
    assert not (tmp_path / "out").exists()
