"""Compares the outputs of generate and perplexity with --lora to those of peft, on SmolLM2 in float32. peft saves the
adapters."""

import shutil

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

import support
from adapters import ALL, change_config
from peft_models import adapted, scores, token_logprobs
from support import FAILED, GOLDEN, SMOLLM2, WRONG_USAGE, assert_refused, export, generate, run, succeed

torch.set_num_threads(1)
KINDS = {"queries and values": dict(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]),
         "all seven": dict(r=16, lora_alpha=16, target_modules=ALL),
         "rank-stabilized": dict(r=64, lora_alpha=8, use_rslora=True, target_modules=ALL),
         "one rank": dict(r=1, lora_alpha=2, target_modules=["k_proj", "o_proj"]),
         "the feed-forward of some layers": dict(r=5, lora_alpha=10, target_modules=["gate_proj", "up_proj", "down_proj"],
                                                 layers_to_transform=[0, 7, 29]),
         "256 ranks": dict(r=256, lora_alpha=32, target_modules="all-linear")}
PROMPT = "Once upon a time, there was a"
TEXT = "The three states of matter are solid, liquid and gas. Water boils at a hundred degrees, and freezes at zero."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lora")


@pytest.fixture(scope="module")
def f32(folder):
    return export(SMOLLM2, folder / "f32.gguf", "--type", "f32")


@pytest.fixture(scope="module")
def base(folder):
    """Writes the text to score, and returns the Hugging Face directory that peft and transformers load."""
    export(SMOLLM2, folder / "hf", "--format", "hf", "--type", "f32")
    (folder / "text.txt").write_text(TEXT)
    return folder / "hf"


@pytest.fixture(scope="module")
def loaded(base):
    """Returns the model, loaded once for all tests. Each test unloads its adapter at the end."""
    return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def plain(f32):
    return generate(f32, "-p", PROMPT, "-n", 24, "--temp", 0, "-t", 1)["tokens"]


@pytest.mark.parametrize("kind", KINDS if support.LONG else ["rank-stabilized", "the feed-forward of some layers"])
def test_outputs_and_probabilities_match_peft(folder, f32, base, loaded, plain, kind):
    model = adapted(loaded, **KINDS[kind])
    directory = folder / kind
    model.save_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(base)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    theirs = model.generate(**inputs, max_new_tokens=24, do_sample=False, pad_token_id=0, eos_token_id=None)[0]
    theirs = theirs[inputs["input_ids"].shape[1]:].tolist()
    ours = generate(f32, "-p", PROMPT, "-n", 24, "--temp", 0, "-t", 1, "--lora", directory)["tokens"]
    assert ours != plain
    assert ours == theirs[:len(ours)] and (len(ours) == 24 or theirs[len(ours)] in tokenizer.all_special_ids)

    scored = scores(f32, folder / "text.txt", "--lora", directory)
    assert np.abs(scored - token_logprobs(model, tokenizer(TEXT)["input_ids"])).max() <= 1e-4
    model.unload()


def test_scale_matches_peft(folder, f32, base, loaded):
    model = adapted(loaded, **KINDS["all seven"])
    model.save_pretrained(folder / "scaled:by")
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.scale_layer(0.3)
    score = lambda *flags: scores(f32, folder / "text.txt", *flags)
    expected = token_logprobs(model, AutoTokenizer.from_pretrained(base)(TEXT)["input_ids"])
    assert np.abs(score("--lora", f"{folder / 'scaled:by'}:0.3") - expected).max() <= 1e-4
    assert (score("--lora", f"{folder / 'scaled:by'}:0") == score()).all()
    model.unload()


def test_several_adapters_add_up_like_peft(folder, f32, base, loaded):
    model = adapted(loaded, **KINDS["queries and values"])
    torch.manual_seed(2)
    model.add_adapter("other", peft.LoraConfig(task_type="CAUSAL_LM", r=3, lora_alpha=6, target_modules=ALL))
    for name, weight in model.named_parameters():
        if "lora_B.other" in name:
            torch.nn.init.normal_(weight, std=0.02)
    model.save_pretrained(folder / "both")
    # peft adds up the outputs of active adapters. An adapter adds nothing to matrices that it doesn't target.
    model.base_model.set_adapter(["default", "other"])
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.set_scale("other", 0.5)
    expected = token_logprobs(model.eval(), AutoTokenizer.from_pretrained(base)(TEXT)["input_ids"])
    scored = scores(f32, folder / "text.txt", "--lora", folder / "both", "--lora", f"{folder / 'both' / 'other'}:0.5")
    assert np.abs(scored - expected).max() <= 1e-4
    model.unload()


@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen3"])
def test_adapters_work_with_every_family(tmp_path, family):
    """Tests the families' differences: the row order of queries and keys, and the biases that qwen2 adds to them."""
    (tmp_path / "text.txt").write_text(support.TEXT)
    succeed("train", tmp_path / "text.txt", "--out", tmp_path / "run", "--family", family, *support.SMALL_RUN, "--steps", 8)
    directory = tmp_path / "run" / "checkpoints" / "last"
    model = adapted(directory, size=0.5, r=4, lora_alpha=4, target_modules=ALL)
    model.save_pretrained(tmp_path / "adapter")
    (tmp_path / "short.txt").write_text(support.TEXT[:30])
    plain, scored = (scores(directory, tmp_path / "short.txt", *flags) for flags in ([], ["--lora", tmp_path / "adapter"]))
    expected = token_logprobs(model, PreTrainedTokenizerFast.from_pretrained(directory)(support.TEXT[:30])["input_ids"])
    assert np.abs(scored - expected).max() <= 1e-4 < np.abs(plain - expected).max()


# ---- Rejected adapters, on the small golden model ----

SMALL = dict(r=4, lora_alpha=4, target_modules=["q_proj", "down_proj"])


@pytest.fixture
def small(tmp_path):
    adapted(GOLDEN, **SMALL).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def refused(golden_gguf, directory, *parts):
    assert_refused(run("generate", "-m", golden_gguf, "-n", 1, "--lora", directory, "ROMEO:"), FAILED, *parts)


@pytest.mark.parametrize("patterns", [
    dict(alpha_pattern={"q_proj": 2, "down_proj": 0.5}, use_rslora=True),
    dict(rank_pattern={r"layers\.0\.self_attn\.q_proj": 7, "q_proj": 2, "^model.layers.1.mlp.down_proj": 3}),
    dict(rank_pattern={"down_proj": 5, "mlp.*": 1, "self_attn.*": 2}, alpha_pattern={r"model.layers.[01]\..*_proj": 9, "proj": 100}),
    dict(rank_pattern={r"(0|2)\.mlp\.(down|up)_proj": 6, r"layers.\d+.self_attn.(?:q|v)_proj": 3}, alpha_pattern={"_proj": 50}),
], ids=str)
def test_rank_and_alpha_patterns(tmp_path, patterns):
    """Keys of rank_pattern and alpha_pattern must match modules as in peft. Saved files list the keys in sorted
    order."""
    model = adapted(GOLDEN, size=0.5, **{**SMALL, "lora_alpha": 6, **patterns})
    model.save_pretrained(tmp_path / "adapter")
    ids = AutoTokenizer.from_pretrained(GOLDEN)("ROMEO:\nWhat is he?")["input_ids"]
    (tmp_path / "text.txt").write_text("ROMEO:\nWhat is he?")
    scored = scores(GOLDEN, tmp_path / "text.txt", "--lora", tmp_path / "adapter")
    assert np.abs(scored - token_logprobs(model, ids)).max() <= 1e-4


@pytest.mark.parametrize("patterns, parts", [
    (dict(rank_pattern={"(?=q)q_proj": 4}), ["rank_pattern", "(?=q)q_proj", "character"]),
    (dict(rank_pattern={"q_proj": 1.5}), ["rank_pattern", "q_proj", "[1, 256]"]),
    (dict(alpha_pattern={"q_proj": "a"}), ["alpha_pattern", "q_proj", "finite number"]),
    (dict(alpha_pattern=[1]), ["alpha_pattern", "object"]),
    (dict(rank_pattern={"q_proj": 3}), ["adapter_model.safetensors", "q_proj", "[4, 48]", "[3, 48]"]),
], ids=str)
def test_invalid_patterns_are_rejected(golden_gguf, small, patterns, parts):
    change_config(small, **patterns)
    refused(golden_gguf, small, "adapter_", *parts)


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens"])
def test_adapters_of_embeddings_are_rejected_by_name(golden_gguf, tmp_path, target):
    adapted(GOLDEN, **{**SMALL, "target_modules": ["q_proj", target]}).save_pretrained(tmp_path / "adapter")
    refused(golden_gguf, tmp_path / "adapter", "adapter_", target)


def test_adapters_of_another_base_are_rejected(f32, small):
    """If the base model named in adapter_config.json is available, the error also shows how the bases differ."""
    flags = ["generate", "-m", f32, "-n", 1, "--lora", small, "a"]
    parts = ["adapter_model.safetensors", "layers.0.", "[4, 48]", "[4, 576]"]
    assert_refused(run(*flags), FAILED, *parts, GOLDEN, "dim 48 -> 576")
    change_config(small, base_model_name_or_path="somebody/golden")
    done = run(*flags)
    assert_refused(done, FAILED, *parts)
    assert "->" not in done.stderr


@pytest.mark.parametrize("fields, part", [
    (dict(r=257), "[1, 256]"), (dict(r="4"), "\"r\""), (dict(lora_alpha=None), "lora_alpha"),
    (dict(init_lora_weights="pissa"), "pissa"), (dict(peft_type=3), "peft_type"), (dict(r=2), "[2, 48]"),
    (dict(lora_alpha=1e300), "lora_alpha"), (dict(fan_in_fan_out=True), "fan_in_fan_out"),
    (dict(use_dora=True), "use_dora"), (dict(bias="all"), '"bias"'), (dict(lora_bias=True), "lora_bias"),
    (dict(modules_to_save=["lm_head"]), "modules_to_save"), (dict(peft_type="IA3"), "peft_type is IA3, expected LORA"),
    (dict(use_bdlora={"nblocks": 2}), "use_bdlora"), (dict(of_a_later_peft=1), "of_a_later_peft"),
])
def test_invalid_configs_are_rejected(golden_gguf, small, fields, part):
    change_config(small, **fields)
    refused(golden_gguf, small, part)


def test_damaged_files_are_rejected(golden_gguf, small):
    weights = small / "adapter_model.safetensors"
    tensors = load_file(weights)
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    for change, part in ((lambda t: t.pop(name), "only one of lora_A and lora_B"),
                         (lambda t: t.update({name: t[name].to(torch.int32)}), "I32"),
                         (lambda t: t.update({name.replace("q_proj", "qkv_proj"): t[name].clone()}), "qkv_proj")):
        changed = dict(tensors)
        change(changed)
        save_file({n: t.contiguous() for n, t in changed.items()}, weights)
        refused(golden_gguf, small, "adapter_model.safetensors", part)
    weights.write_bytes(weights.read_bytes()[:20])
    refused(golden_gguf, small, "adapter_model.safetensors")
    weights.unlink()
    refused(golden_gguf, small, "adapter_model.safetensors")
    (small / "adapter_model.bin").write_bytes(b"")
    refused(golden_gguf, small, "adapter_model.bin", "safe_serialization")
    shutil.rmtree(small)
    refused(golden_gguf, small, "adapter_config.json")


@pytest.mark.parametrize("flag, parts", [("x:", ["\"\"", "[-1000, 1000]"]), ("x:nan", ["nan"]), ("x:1001", ["1001"]),
                                         ("x:0.5x", ["0.5x"]), ("", ["empty"])])
def test_invalid_lora_flags_are_rejected(golden_gguf, flag, parts):
    assert_refused(run("generate", "-m", golden_gguf, "--lora", flag), WRONG_USAGE, "--lora", *parts)
