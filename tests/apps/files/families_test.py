"""The families against transformers: log-probabilities, greedy text, and files in both directions."""

import json
import os
import pathlib
import subprocess

import gguf
import numpy as np
import pytest
import random_models
import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from support import ACCENTED, FAILED, TEXT, assert_refused, generate, run, succeed

BUILD = pathlib.Path(os.environ["FOLIO_BUILD_DIR"])
IDS = [int(i) for i in np.random.default_rng(3).integers(0, 5, 120)]


def log_probabilities(path, ids):
    done = subprocess.run([BUILD / "tests" / "logits_tool", path, *map(str, ids)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return torch.tensor(json.loads(done.stdout), dtype=torch.float64).log_softmax(-1)


def by_transformers(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def assert_same_text(ours, theirs, gaps):
    """Sums in another order move a logit by some 1e-5: where the best two are closer, either may be drawn."""
    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b:
            assert gaps[at] < 1e-4, f"they part at token {at}, where the gap is {gaps[at]:.1e}"
            return


def assert_whole(loading):
    assert not loading["missing_keys"] and not loading["mismatched_keys"], loading
    assert all(key.startswith("__pad__.") for key in loading["unexpected_keys"]), loading


@pytest.mark.parametrize("name", random_models.MODELS)
def test_log_probabilities_and_text_are_those_of_transformers(tmp_path, name):
    model = random_models.make(name)
    theirs = random_models.write(model, tmp_path / "theirs")
    expected = by_transformers(model, IDS)
    assert (log_probabilities(theirs, IDS) - expected).abs().max() <= 1e-4
    window = random_models.window_of(model)
    if window:  # the border counts
        assert window < len(IDS) / 2
        whole = random_models.make(name, sliding_window=None, **({} if "mistral" in name else {"use_sliding_window": False}))
        assert (by_transformers(whole, IDS) - expected).abs().max() > 1e-2

    ours = generate(theirs, "-p", "ab é", "-n", "100", "--temp", "0")
    text, gaps = random_models.greedy(model, ours["prompt_tokens"], 100)
    assert_same_text(ours["tokens"], text, gaps)


@pytest.mark.parametrize("name", random_models.MODELS)
def test_a_gguf_and_back(tmp_path, name):
    model = random_models.make(name)
    theirs = random_models.write(model, tmp_path / "theirs")
    done = succeed("export", theirs, "--out", tmp_path / "m.gguf")
    window = random_models.window_of(model)
    family = model.config.model_type
    architecture = {"mistral": "llama"}.get(family, family)
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    field = lambda key: reader.fields[key].contents()  # noqa: E731
    assert field("general.architecture") == architecture
    context = min(window or 256, 256)
    assert field(f"{architecture}.context_length") == context
    assert ("sliding window" in done.stderr) == bool(window)
    ids = IDS[:context]
    assert (log_probabilities(tmp_path / "m.gguf", ids) - by_transformers(model, ids)).abs().max() <= 1e-4

    # From a GGUF a Mistral without a window is a Llama: the same tensors.
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "again", "--format", "hf")
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert_whole(loading)
    assert again.config.model_type == architecture
    assert (by_transformers(again, ids) - by_transformers(model, ids)).abs().max() <= 1e-5


@pytest.mark.parametrize("name", random_models.MODELS)
def test_a_hugging_face_directory_comes_back_bit_for_bit(tmp_path, name):
    model = random_models.make(name)
    theirs = random_models.write(model, tmp_path / "theirs")
    succeed("export", theirs, "--out", tmp_path / "ours", "--format", "hf")
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert_whole(loading)
    assert type(again) is type(model)
    for key, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key
    np.testing.assert_array_equal(by_transformers(again, IDS).numpy(), by_transformers(model, IDS).numpy())


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_a_gguf_that_the_package_gguf_wrote(tmp_path, name):
    """With the names and keys of llama.cpp's converter, not ours; RoPE's halves stay where they are."""
    model = random_models.make(name)
    config, arch = model.config, model.config.model_type
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", arch)
    writer.add_context_length(256)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(1e6)
    if name == "qwen3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config.num_hidden_layers)
    for key, tensor in model.state_dict().items():
        if key != "lm_head.weight":
            writer.add_tensor(names.get_name(key, (".weight", ".bias")), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert (log_probabilities(tmp_path / "m.gguf", IDS) - by_transformers(model, IDS)).abs().max() <= 1e-4


def test_a_directory_as_qwen2_is_published(tmp_path):
    """Byte-level BPE behind NFC, added tokens, bfloat16, and more rows than there are tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT, ACCENTED], trainers.BpeTrainer(
        vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False)
                                  for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>",
                                                pad_token="<|endoftext|>")
    rows = (len(fast) + 64) // 64 * 64
    model = random_models.make("qwen2", vocab_size=rows, eos_token_id=fast.eos_token_id, bos_token_id=None)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "theirs")
    fast.save_pretrained(tmp_path / "theirs")

    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs", dtype=torch.float32)
    prompt = "The old cat, cafe\u0301 12 <tool_call>e\u0301"
    ids = tokenizer(prompt, return_tensors="pt")
    expected = model.generate(**ids, max_new_tokens=40, do_sample=False)[0, ids.input_ids.shape[1]:].tolist()
    succeed("export", tmp_path / "theirs", "--out", tmp_path / "m.gguf")
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "again", "--format", "hf")
    for path in (tmp_path / "theirs", tmp_path / "m.gguf", tmp_path / "again"):
        ours = generate(path, "-p", prompt, "-n", "40", "--temp", "0")
        assert ours["prompt_tokens"] == ids.input_ids[0].tolist(), path
        assert ours["tokens"] == expected[:len(ours["tokens"])] and len(ours["tokens"]) > 10, path
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "again")(prompt).input_ids == ours["prompt_tokens"]


def changed(name, folder, change):
    directory = random_models.write(random_models.make(name), folder)
    config = json.loads((directory / "config.json").read_text())
    change(config)
    (directory / "config.json").write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize("name, keys, missing", [
    ("llama", {"model_type": "gemma3"}, "gemma3"),
    ("qwen3", {"model_type": "qwen3_moe"}, "qwen3_moe"),
    ("qwen3", {"num_experts": 8}, "num_experts = 8"),
    ("mistral", {"num_local_experts": 8}, "num_local_experts = 8"),
    ("llama", {"attention_bias": True}, "attention_bias = true"),
    ("qwen3", {"attention_bias": True}, "attention_bias = true"),
    ("qwen2", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6}}, "RoPE scaling of type yarn"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 20, "layer_types": None, "max_window_layers": 1},
     "a sliding window in 2 of 3 layers"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 20,
               "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
     "a sliding window in 1 of 3 layers"),
    ("mistral", {"sliding_window": -4}, "sliding_window is -4"),
    ("mistral", {"sliding_window": 0}, "sliding_window is 0"),
    ("qwen3", {"head_dim": 15}, "head_dim is 15"),
    ("llama", {"head_dim": 0}, "head_dim is 0"),
    ("qwen3", {"head_dim": 1 << 40}, "head_dim is 1099511627776"),
    ("qwen3", {"hidden_act": "gelu"}, "hidden_act = \"gelu\""),
])
def test_a_part_that_is_not_there_is_refused_by_name(tmp_path, name, keys, missing):
    directory = changed(name, tmp_path / "m", lambda config: config.update(keys))
    assert_refused(run("export", directory, "--out", tmp_path / "m.gguf"), FAILED, missing)


@pytest.mark.parametrize("name, tensor, missing", [
    ("llama", "model.layers.0.self_attn.q_norm.weight", "llama with norms of q and k"),
    ("llama", "model.layers.1.self_attn.k_proj.bias", "llama with biases"),
    ("qwen3", "model.layers.1.self_attn.sinks", "qwen3 with attention sinks"),
    ("qwen2", "model.layers.1.mlp.experts.3.up_proj.weight", "qwen2 with experts"),
])
def test_a_tensor_that_is_not_of_the_family_is_refused_by_name(tmp_path, name, tensor, missing):
    from safetensors.torch import load_file, save_file
    directory = random_models.write(random_models.make(name), tmp_path / "m")
    tensors = load_file(directory / "model.safetensors")
    save_file({**tensors, tensor: torch.ones(4)}, directory / "model.safetensors")
    assert_refused(run("export", directory, "--out", tmp_path / "m.gguf"), FAILED, missing)


def test_llama2c_has_no_place_for_them(tmp_path):
    for name, why in (("qwen2", "family qwen2"), ("mistral window", "sliding window"), ("llama wide heads", "heads")):
        directory = random_models.write(random_models.make(name, rms_norm_eps=1e-5), tmp_path / name)
        done = run("export", directory, "--out", tmp_path / "m.bin", "--format", "llama2c")
        assert_refused(done, FAILED, why)
        assert not (tmp_path / "m.bin").exists()
