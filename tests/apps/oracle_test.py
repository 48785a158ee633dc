"""Compares Folio's results with transformers, and its files with the packages gguf and safetensors.

The golden model (tests/golden/shakespeare_48) has grouped queries, an untied head and unusual norm_eps and rope_theta.
"""

import json
from pathlib import Path

import gguf
import gguf_copies
import numpy as np
import pytest
import sound
import torch
from safetensors import safe_open
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from support import ACCENTED, EXPECTED, FAILED, GOLDEN, assert_refused, export, generate, logits_of, run, succeed

torch.set_num_threads(1)
TOLERANCE = 1e-4  # absolute, of logits; float32 sums in another order differ by about 1e-6 per layer


@pytest.fixture(scope="module")
def golden_model():
    return AutoModelForCausalLM.from_pretrained(GOLDEN, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def golden_tokenizer():
    return AutoTokenizer.from_pretrained(GOLDEN)


def transformers_logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double().numpy()


def transformers_greedy(model, tokens, n, never):
    ids = torch.tensor([tokens])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, do_sample=False,
                         suppress_tokens=[never], pad_token_id=never)
    return out[0, len(tokens):].tolist()


# ---- The golden values equal the results of transformers ----

@pytest.mark.parametrize("entry", EXPECTED["greedy"], ids=lambda e: e["prompt"].split("\n")[0] or "newline")
def test_golden_text_matches_transformers(golden_model, golden_tokenizer, entry):
    assert golden_tokenizer(entry["prompt"])["input_ids"] == entry["prompt_tokens"]
    tokens = transformers_greedy(golden_model, entry["prompt_tokens"], 200, golden_tokenizer.eos_token_id)
    assert tokens == entry["tokens"]
    assert golden_tokenizer.decode(tokens) == entry["text"]
    assert entry["smallest_top_two_gap"] > 2e-3


def test_golden_logits_match_transformers(golden_model):
    golden = EXPECTED["logits"]
    ours = transformers_logits(golden_model, golden["tokens"])[golden["positions"]]
    assert np.abs(ours - np.array(golden["values"])).max() <= 1e-5


# ---- The engine compared with transformers ----

def test_logits_over_the_whole_context(golden_gguf, golden_model):
    tokens = [(7 * i * i + 3 * i) % 65 for i in range(256)]
    theirs = transformers_logits(golden_model, tokens)
    assert np.abs(theirs).max() > 3  # otherwise, errors in small logits could stay below TOLERANCE
    assert np.abs(logits_of(golden_gguf, tokens) - theirs).max() <= TOLERANCE


def available_isas():
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = set(next((line for line in lines if line.startswith("flags")), "").split())
    sets = {"reference": set(), "avx2": {"avx2", "fma", "f16c"},
            "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}}
    return [name for name, needed in sets.items() if needed <= flags]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("entry", EXPECTED["greedy"], ids=lambda e: e["prompt"].split("\n")[0] or "newline")
def test_every_instruction_set_gives_the_golden_text(golden_gguf, entry, isa, threads):
    ours = generate(golden_gguf, entry["prompt"], "-n", 200, "--temp", 0, "-t", threads, FOLIO_ISA=isa)
    assert ours["prompt_tokens"] == entry["prompt_tokens"]
    assert ours["tokens"] == entry["tokens"]
    assert ours["text"] == entry["text"]
    assert ours["finish_reason"] == "length"


def test_unknown_prefetch_level_is_an_error(golden_gguf):
    done = run("generate", "-m", golden_gguf, FOLIO_PREFETCH="l9")
    assert_refused(done, FAILED, "FOLIO_PREFETCH=l9: unknown value, expected none, l1, l2, l3 or once")


# ---- The exported file, read by the gguf package ----

def test_gguf_package_reads_the_same_weights(golden_gguf):
    config = json.loads((GOLDEN / "config.json").read_text())
    expected = load_file(GOLDEN / "model.safetensors")
    reader = gguf.GGUFReader(golden_gguf)
    assert {sound.hf_name(tensor.name) for tensor in reader.tensors} == {n for n in expected if not n.startswith("__pad__.")}
    for tensor in reader.tensors:
        data, values = expected[sound.hf_name(tensor.name)], tensor.data
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32 and tensor.data_offset % 32 == 0
        assert values.shape == data.shape, tensor.name
        if "attn_q" in tensor.name or "attn_k" in tensor.name:
            assert values.tobytes() != data.tobytes(), "the permutation does nothing"
            values = sound.split_halves(values, config["hidden_size"] // config["num_attention_heads"])
        assert values.tobytes() == data.tobytes(), tensor.name


# ---- Multi-byte characters ----

def test_accented_run_loads_in_transformers(accented_run):
    checkpoint = accented_run / "checkpoints" / "last"
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model, loading = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["mismatched_keys"]
    model.eval()
    for text in ("é", "中文😀", "Où est le café", "naïve œuvre 🚀!\n"):
        ours = generate(accented_run / "model.gguf", "-p", text, "-n", 200, "--temp", 0)
        ids = tokenizer(text)["input_ids"]
        assert ours["prompt_tokens"] == ids and len(ids) == len(text)
        assert tokenizer.decode(ids) == text
        assert ours["tokens"] == transformers_greedy(model, ids, 200, tokenizer.eos_token_id)
        assert ours["text"] == tokenizer.decode(ours["tokens"])
        ids += ours["tokens"]
        difference = logits_of(accented_run / "model.gguf", ids) - transformers_logits(model, ids)
        assert np.abs(difference).max() <= TOLERANCE
    characters = sorted(set(ACCENTED))
    assert [tokenizer.decode([i]) for i in range(len(characters))] == characters
    assert tokenizer.convert_tokens_to_ids("<|endoftext|>") == len(characters) == len(tokenizer) - 1


# ---- The program verify, which compares a checkpoint with exported files ----

def formats(run, folder):
    """Exports a run's checkpoint to every file format. Returns {name: (path, additional flags for verify)}."""
    checkpoint = run / "checkpoints" / "best"
    files = {"gguf": (run / "model.gguf", []), "directory": (checkpoint, [])}
    for type_ in ("f16", "bf16"):
        files[f"gguf-{type_}"] = (export(checkpoint, folder / f"{type_}.gguf", "--type", type_), [])
        files[f"hf-{type_}"] = (export(checkpoint, folder / type_, "--format", "hf", "--type", type_), [])
    embeddings = next(t for t in gguf.GGUFReader(run / "model.gguf").tensors if t.name == "token_embd.weight")
    gguf_copies.copy(folder / "f16.gguf", folder / "mixed.gguf",
                     lambda tensors: tensors | {embeddings.name: (embeddings.data, embeddings.tensor_type)})
    files["gguf-f16 with embeddings in f32"] = (folder / "mixed.gguf", [])
    for version, type_ in ((0, "f32"), (1, "f32"), (2, "q8_0")):
        path = export(checkpoint, folder / f"v{version}.bin", "--format", "llama2c", "--version", version, "--type",
                      type_)
        files[f"llama2c-v{version}"] = (path, ["--tokenizer", path.with_suffix(".tokenizer.bin")])
    return files


def test_verify_rejects_quantized_files(accented_run, tmp_path):
    succeed("export", accented_run / "model.gguf", "--out", tmp_path / "q8.gguf", "--type", "q8_0")
    refused = run("verify", accented_run / "checkpoints/best", tmp_path / "q8.gguf")
    assert_refused(refused, FAILED, tmp_path / "q8.gguf", "Q8_0", "perplexity")


def test_verify_agrees_on_every_format(accented_run, tmp_path):
    for name, (path, flags) in formats(accented_run, tmp_path).items():
        done = succeed("verify", accented_run / "checkpoints" / "best", path, *flags, "-t", "1")
        assert "weights: 20 tensors equal" in done.stdout, name
        assert "greedy output: 200 tokens equal" in done.stdout, name
        assert done.stdout.splitlines()[-1] == "LibTorch and the engine agree", name
        if name == "gguf":  # results must not depend on sharding, so verify must print the same text
            shards = succeed("verify", accented_run / "checkpoints" / "best", path, *flags, "--shards", "2")
            assert shards.stdout == done.stdout


def test_verify_names_a_planted_error(accented_run, tmp_path):
    """If one weight is changed in the file, verify must name its tensor, both values and the first wrong activation."""
    with safe_open(accented_run / "checkpoints" / "best" / "model.safetensors", "np") as file:
        right = file.get_tensor("model.layers.0.mlp.up_proj.weight")[1, 5]  # verify must report this row and column
    planted = tmp_path / "off.gguf"
    data = (accented_run / "model.gguf").read_bytes()
    assert data.count(right.tobytes()) == 1, "the number is not alone in the file"
    planted.write_bytes(data.replace(right.tobytes(), np.float32(9).tobytes()))
    done = run("verify", accented_run / "checkpoints" / "best", planted, "-t", "1")
    assert done.returncode == 1
    expected = f"weights differ, first in blk.0.ffn_up.weight: row 1, column 5: checkpoint {right:.9g}, {planted} 9"
    assert expected in done.stdout, done.stdout
    assert "first difference in layers.0.ffn_hidden: position" in done.stdout
    assert done.stdout.splitlines()[-1] == "LibTorch and the engine DISAGREE"


def test_verify_accepts_any_text_and_models(accented_run, tmp_path):
    (tmp_path / "text.txt").write_text(ACCENTED, encoding="utf-8")
    other = export(accented_run / "model.gguf", tmp_path / "model", "--format", "hf")
    done = succeed("verify", other, accented_run / "model.gguf", "--text", tmp_path / "text.txt", "-t", "1")
    assert done.stdout.splitlines()[-1] == "LibTorch and the engine agree"
    refused = run("verify", other, accented_run / "model.gguf", "-t", "1")
    assert refused.returncode == 1 and "--text FILE" in refused.stderr
    refused = run("verify", GOLDEN, accented_run / "model.gguf", "-t", "1")
    assert refused.returncode == 1 and "different models" in refused.stderr
