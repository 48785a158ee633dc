"""Compares `export --type` with llama.cpp's quantizer: from an F32 or F16 file, both write bit-identical tensors."""

import subprocess

import gguf
import llama_cpp as lc
import numpy as np
import pytest
from safetensors.numpy import load_file

import golden_blocks
from engines import BUILD, SMOLLM2, LlamaCpp, assert_same_text, folio, folio_greedy
import random_models  # in tests/apps/files, which engines.py adds to sys.path
import sound

MIXTURES = {"q4_k_m": lc.LLAMA_FTYPE_MOSTLY_Q4_K_M, "q5_k_m": lc.LLAMA_FTYPE_MOSTLY_Q5_K_M,
            "q6_k": lc.LLAMA_FTYPE_MOSTLY_Q6_K}
K_TYPES = {"q4_k_m": {"Q4_K", "Q6_K"}, "q5_k_m": {"Q5_K", "Q6_K"}, "q6_k": {"Q6_K"}}
# K types require rows of a multiple of 256 elements. Mixtures such as Q4_K_M use other types in the first and last
# eighth of the layers, so most shapes have more than eight layers.
SHAPES = {
    "grouped, untied": sound.Shape(dim=256, hidden=512, layers=9, heads=8, kv_heads=2, tied=False),
    "tied": sound.Shape(dim=512, hidden=256, layers=17, heads=4, kv_heads=4),
    "qwen2": sound.Shape(dim=256, hidden=512, layers=11, heads=8, kv_heads=1, family="qwen2", tied=False),
    "qwen3, wide heads": sound.Shape(dim=256, hidden=768, layers=4, heads=4, kv_heads=2, family="qwen3",
                                     own_head_dim=128),
    "rows of 32 and of 48": sound.Shape(dim=96, hidden=48, layers=3, heads=2, kv_heads=1),
    "80 layers, as Llama 70B": sound.Shape(dim=256, hidden=32, layers=80, heads=4, kv_heads=2, own_head_dim=8),
    "80 layers, as Llama 65B": sound.Shape(dim=256, hidden=32, layers=80, heads=2, kv_heads=2, own_head_dim=8),
    "mixtral of 8": sound.Shape(dim=256, hidden=256, layers=9, heads=8, kv_heads=2, family="mixtral", experts=8),
    "mixtral of 4": sound.Shape(dim=256, hidden=256, layers=9, heads=8, kv_heads=2, family="mixtral", experts=4),
    "qwen3_moe": sound.Shape(dim=256, hidden=512, layers=11, heads=8, kv_heads=2, family="qwen3_moe", experts=3,
                             tied=False, own_head_dim=64),
    "80 layers, as Qwen2 72B": sound.Shape(dim=256, hidden=32, layers=80, heads=2, kv_heads=2, family="qwen2"),
}


def both(source, type_, folder):
    """Quantizes with Folio and llama.cpp, and checks that the tensors are equal. Returns the path of Folio's file and
    the set of its tensors' types."""
    ours, theirs = folder / f"ours.{type_}.gguf", folder / f"theirs.{type_}.gguf"
    folio("export", source, "--out", ours, "--type", type_)
    params = lc.llama_model_quantize_default_params()
    params.ftype, params.nthread = MIXTURES[type_], 2
    assert lc.llama_model_quantize(str(source).encode(), str(theirs).encode(), params) == 0
    a, b = gguf.GGUFReader(ours), gguf.GGUFReader(theirs)
    for key in ("general.file_type", "general.quantization_version"):
        assert a.fields[key].contents() == b.fields[key].contents(), key
    theirs_by_name = {t.name: t for t in b.tensors}
    assert {t.name for t in a.tensors} == theirs_by_name.keys()
    for t in a.tensors:
        other = theirs_by_name[t.name]
        assert t.tensor_type.name == other.tensor_type.name, t.name
        wrong = np.flatnonzero(np.asarray(t.data).view(np.uint8).ravel() != np.asarray(other.data).view(np.uint8).ravel())
        assert wrong.size == 0, (t.name, t.tensor_type.name, wrong[:5])
    return ours, {t.tensor_type.name for t in a.tensors}


def assert_both_run(path, prompt):
    """Checks that greedy outputs are equal, at least up to a token whose best two logits are close: the engines round
    inputs to 8 bits differently, so later tokens may differ."""
    with LlamaCpp(path) as theirs:
        ours = folio_greedy(path, prompt, 12)
        assert_same_text(ours["tokens"], *theirs.greedy(ours["prompt_tokens"], len(ours["tokens"]), never=[]), near=0.5)


def test_golden_blocks_match_llama_cpp():
    stored, made = load_file(golden_blocks.GOLDEN), golden_blocks.golden()
    assert stored.keys() == made.keys()
    for name, array in made.items():
        assert stored[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("qtype", golden_blocks.TYPES, ids=lambda q: q.name)
def test_blocks_of_all_kinds_of_values(tmp_path, qtype):
    for kind, x in golden_blocks.rows(1000, seed=int(qtype)).items():
        x.tofile(tmp_path / "in")
        subprocess.run([BUILD / "tests" / "format_tool", "quantize", str(int(qtype)), tmp_path / "in",
                        tmp_path / "out"], check=True, timeout=60)
        expected = golden_blocks.quantized(qtype, x)
        wrong = np.flatnonzero((np.fromfile(tmp_path / "out", np.uint8).reshape(expected.shape) != expected).any(axis=1))
        assert wrong.size == 0, (kind, wrong[:5])


@pytest.mark.parametrize("type_", MIXTURES)
@pytest.mark.parametrize("half", ["f32", "f16"])
def test_smollm2(tmp_path, type_, half):
    """K types require rows that are multiples of 256, but only W2 has such rows (1536 elements; others have 576).
    Tensors must match nevertheless."""
    folio("export", SMOLLM2, "--out", tmp_path / "m.gguf", "--type", half)
    path, types = both(tmp_path / "m.gguf", type_, tmp_path)
    assert types == {"F32", "Q8_0"} | K_TYPES[type_] | {"q4_k_m": {"Q5_0"}, "q5_k_m": {"Q5_1"}}.get(type_, set())
    if half == "f32":
        assert_both_run(path, "The capital of France is")


@pytest.mark.parametrize("type_", MIXTURES)
@pytest.mark.parametrize("name", SHAPES)
def test_random_models(tmp_path, name, type_):
    shape = SHAPES[name]
    arrays = sound.weights(shape)
    (tmp_path / "m.gguf").write_bytes(sound.Gguf(shape, arrays).pack())
    path, types = both(tmp_path / "m.gguf", type_, tmp_path)
    if "80" in name:
        assert ("Q5_K" in types) == (type_ == "q5_k_m" or (type_ == "q4_k_m" and name.endswith(("70B", "72B"))))
    elif name == "mixtral of 8":
        assert types == {"F32", "Q8_0"} | K_TYPES[type_] | ({"Q5_K"} if type_ == "q4_k_m" else set())
    elif "48" not in name:
        assert types == {"F32"} | K_TYPES[type_]
    folio("generate", "-m", path, "-n", 4, "-p", "ab")
    with LlamaCpp(path, n_ctx=16) as theirs:
        assert np.isfinite(theirs.decode([2, 3])).all()


EXPERTS = dict(moe_intermediate_size=256)
FAMILIES = {"phi3": {}, "glm": dict(head_dim=64), "glm4": dict(head_dim=64), "olmo2": {}, "granite": {},
            "gemma2": dict(head_dim=64, query_pre_attn_scalar=64), "olmoe": {},
            "qwen2_moe": dict(moe_intermediate_size=256, shared_expert_intermediate_size=512),
            "dots1": dict(head_dim=64, **EXPERTS), "glm4_moe": dict(head_dim=64, **EXPERTS)}


@pytest.mark.parametrize("type_", ["q4_k_m", "q5_k_m"])
@pytest.mark.parametrize("name", FAMILIES)
def test_models_of_other_families(tmp_path, name, type_):
    """Quantized tensors match for families with fused matrices, shared experts, or first layers without experts."""
    model = random_models.make(name, hidden_size=256, intermediate_size=512, num_hidden_layers=9, **FAMILIES[name])
    folio("export", random_models.write(model, tmp_path / "hf"), "--out", tmp_path / "m.gguf", "--type", "f32")
    both(tmp_path / "m.gguf", type_, tmp_path)
