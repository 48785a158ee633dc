"""Compares models of each family with transformers: log probabilities, greedy outputs, and files written by either."""

import json

import gguf
import gguf_copies
import numpy as np
import pytest
import random_models
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from adapters import save_adapter
from support import (ACCENTED, FAILED, LONG, TEXT, WRONG_USAGE, assert_refused, generate, logits_of, run,
                     succeed)

IDS = [int(i) for i in np.random.default_rng(3).integers(0, 5, 120)]


def log_probabilities(path, ids):
    return torch.tensor(logits_of(path, ids), dtype=torch.float64).log_softmax(-1)


def by_transformers(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def assert_same_text(ours, theirs, gaps):
    """Asserts equal tokens, except where the two highest logits differ by less than 1e-4 (`gaps`), because rounding
    changes logits by 1e-5."""
    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert a == b or gaps[at] < 1e-4, f"they part at token {at}, where the gap is {gaps[at]:.1e}"


def assert_whole(loading):
    assert not loading["missing_keys"] and not loading["mismatched_keys"], loading
    assert all(key.startswith("__pad__.") for key in loading["unexpected_keys"]), loading


@pytest.mark.parametrize("name", random_models.MODELS)
def test_log_probabilities_and_text_match_transformers(tmp_path, name):
    model = random_models.make(name)
    theirs = random_models.write(model, tmp_path / "theirs")
    expected = by_transformers(model, IDS)
    assert (log_probabilities(theirs, IDS) - expected).abs().max() <= 1e-4
    window = random_models.window_of(model)
    if window:  # IDS is longer than the window, so the window must affect the logits
        assert window < len(IDS) / 2
        whole = random_models.make(name, sliding_window=1000)
        assert (by_transformers(whole, IDS) - expected).abs().max() > 1e-2

    ours = generate(theirs, "-p", "ab é", "-n", "100", "--temp", "0")
    assert len(ours["tokens"]) == 100
    assert_same_text(ours["tokens"], *random_models.choices(model, ours["prompt_tokens"], ours["tokens"]))


@pytest.mark.parametrize("name", random_models.MODELS)
def test_gguf_round_trip(tmp_path, name):
    model = random_models.make(name)
    theirs = random_models.write(model, tmp_path / "theirs")
    done = succeed("export", theirs, "--out", tmp_path / "m.gguf")
    window = random_models.window_of(model)
    family = model.config.model_type
    architecture, read_as = random_models.ARCHITECTURES.get(family, (family.replace("_", ""), family))
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    field = lambda key: reader.fields[key].contents()  # noqa: E731
    assert field("general.architecture") == architecture
    lost = window if family not in random_models.GGUF_WINDOWS else None
    context = lost or 256
    assert field(f"{architecture}.context_length") == context
    assert ("sliding window" in done.stderr) == bool(lost)
    ids = IDS[:context]
    assert (log_probabilities(tmp_path / "m.gguf", ids) - by_transformers(model, ids)).abs().max() <= 1e-4

    # Export may change the family. For example, GGUF stores a Mistral without a window as a Llama, with equal tensors.
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "again", "--format", "hf")
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert_whole(loading)
    assert again.config.model_type == read_as
    assert (by_transformers(again, ids) - by_transformers(model, ids)).abs().max() <= 1e-5


def test_gemma2_27b_attention_scale(tmp_path):
    model = random_models.make("gemma2 27b")
    theirs = random_models.write(model, tmp_path / "theirs")
    succeed("export", theirs, "--out", tmp_path / "m.gguf")
    expected = by_transformers(model, IDS)
    assert (log_probabilities(tmp_path / "m.gguf", IDS) - expected).abs().max() <= 1e-4
    other = random_models.write(random_models.make("gemma2", query_pre_attn_scalar=8), tmp_path / "other")
    done = run("export", other, "--out", tmp_path / "other.gguf")
    assert_refused(done, FAILED, "cannot store the attention scale", "use --format hf")


# `make test` omits names without a space, because test_gguf_round_trip exports those models to Hugging Face, too.
@pytest.mark.parametrize("name", [name for name in random_models.MODELS if " " in name or LONG])
def test_hugging_face_round_trip_is_exact(tmp_path, name):
    model = random_models.make(name)
    theirs = random_models.write(model, tmp_path / "theirs")
    succeed("export", theirs, "--out", tmp_path / "ours", "--format", "hf")
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert_whole(loading)
    assert type(again) is type(model)
    for key, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key
    np.testing.assert_array_equal(by_transformers(again, IDS).numpy(), by_transformers(model, IDS).numpy())


def test_gpt_oss_as_published(tmp_path):
    """Published files store experts in MXFP4. transformers dequantizes them, as does export with --type f32 or bf16."""
    theirs = random_models.write_mxfp4(random_models.make("gpt_oss yarn", hidden_size=64), tmp_path / "theirs")
    model = transformers.AutoModelForCausalLM.from_pretrained(theirs, dtype=torch.bfloat16).float()
    expected = by_transformers(model, IDS)
    for type_ in ("f32", "bf16"):  # bfloat16 represents MXFP4 values exactly
        succeed("export", theirs, "--out", tmp_path / f"{type_}.gguf", "--type", type_)
        assert (log_probabilities(tmp_path / f"{type_}.gguf", IDS) - expected).abs().max() <= 1e-4
    succeed("export", theirs, "--out", tmp_path / "m.gguf")
    tensors = {t.name: t for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
    assert {n.split(".")[2] for n, t in tensors.items() if t.tensor_type.name == "MXFP4"} == {
        "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
    assert {t.tensor_type.name for t in tensors.values()} == {"F32", "BF16", "MXFP4"}
    gate_up = model.state_dict()["model.layers.1.mlp.experts.gate_up_proj"].transpose(1, 2)
    for name, first in (("gate", 0), ("up", 1)):
        ours = tensors[f"blk.1.ffn_{name}_exps.weight"]
        np.testing.assert_array_equal(gguf.quants.dequantize(ours.data, ours.tensor_type), gate_up[:, first::2])
    # The engine rounds inputs of quantized weights to 8 bits, so a router with close scores may select a different
    # expert than in transformers. Therefore, at least 90 % of the predicted tokens must be equal.
    in_blocks = log_probabilities(tmp_path / "m.gguf", IDS)
    assert (in_blocks == log_probabilities(theirs, IDS)).all()
    assert (in_blocks.argmax(-1) == expected.argmax(-1)).double().mean() >= 0.9
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "again", "--format", "hf", "--type", "f32")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    for key, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key


@pytest.mark.parametrize("change, why", [
    (lambda t, key: t.pop(key + "_scales"), "gate_up_proj_scales of shape [6, 128, 2] is missing"),
    (lambda t, key: t.update({key + "_scales": t[key + "_scales"].to(torch.int16)}), "has type I16, expected U8"),
    (lambda t, key: t.update({key + "_blocks": t[key + "_blocks"][:5]}), "has shape [5, 128, 2, 16], expected"),
    (lambda t, key: t.update({key: torch.ones(2)}), "gate_up_proj matches no expert of the model"),
])
def test_damaged_mxfp4_is_rejected_by_name(tmp_path, change, why):
    directory = random_models.write_mxfp4(random_models.make("gpt_oss", hidden_size=64), tmp_path / "m")
    tensors = load_file(directory / "model.safetensors")
    change(tensors, "model.layers.1.mlp.experts.gate_up_proj")
    save_file(tensors, directory / "model.safetensors")
    assert_refused(run("export", directory, "--out", tmp_path / "m.gguf"), FAILED, why)


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_gguf_written_by_the_gguf_package(tmp_path, name):
    """Reads a GGUF with llama.cpp's names and keys. For these families, the rows of Wq and Wk aren't permuted."""
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
    gguf_copies.finish(writer)
    assert (log_probabilities(tmp_path / "m.gguf", IDS) - by_transformers(model, IDS)).abs().max() <= 1e-4


@pytest.mark.parametrize("name, type_", [("glm", "f32"), ("qwen2", "f16"), ("glm", "q8_0")])
def test_gguf_with_fused_qkv(tmp_path, name, type_):
    """GGUF files of ChatGLM2 and 3 have one tensor attn_qkv, which must be split into q, k and v, even if quantized."""
    model = random_models.make(name, hidden_size=64, intermediate_size=96)
    succeed("export", random_models.write(model, tmp_path / "hf"), "--out", tmp_path / "m.gguf", "--type", type_)
    gguf_copies.copy(tmp_path / "m.gguf", tmp_path / "fused.gguf", gguf_copies.with_fused_qkv)
    names = {t.name for t in gguf.GGUFReader(tmp_path / "fused.gguf").tensors}
    assert "blk.2.attn_qkv.bias" in names and "blk.2.attn_q.weight" not in names
    fused = log_probabilities(tmp_path / "fused.gguf", IDS)
    assert (fused == log_probabilities(tmp_path / "m.gguf", IDS)).all()
    if type_ == "f32":
        assert (fused - by_transformers(model, IDS)).abs().max() <= 1e-4


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v3", "youtu"])
@pytest.mark.parametrize("type_", ["f32", "q8_0"])
def test_older_gguf_of_latent_attention(tmp_path, name, type_):
    """Older files store kv_b_proj as one tensor, attn_kv_b, and the dimensions of heads under other keys."""
    blocks = dict(kv_lora_rank=32, qk_nope_head_dim=32, q_lora_rank=None, v_head_dim=8)
    blocks |= dict(moe_intermediate_size=32) if name != "youtu" else {}
    model = random_models.make(name, **(blocks if type_ == "q8_0" else {}))
    succeed("export", random_models.write(model, tmp_path / "hf"), "--out", tmp_path / "m.gguf", "--type", type_)
    config = model.config
    keys = {"attention.head_count_kv": config.num_attention_heads, "attention.value_length": config.v_head_dim,
            "attention.key_length": config.qk_nope_head_dim + config.qk_rope_head_dim}
    gguf_copies.copy(tmp_path / "m.gguf", tmp_path / "old.gguf", lambda t: gguf_copies.with_one_latent_matrix(t, model),
                     keys={f"deepseek2.{key}": value for key, value in keys.items()},
                     without=["deepseek2.attention.key_length_mla", "deepseek2.attention.value_length_mla"])
    for path in ("m", "old"):
        succeed("export", tmp_path / f"{path}.gguf", "--out", tmp_path / path, "--format", "hf", "--type", "f32")
    new, old = (transformers.AutoModelForCausalLM.from_pretrained(tmp_path / path).state_dict() for path in ("m", "old"))
    for key, tensor in new.items():
        exact = type_ == "f32" or "kv_b_proj" not in key
        expected = tensor if exact else model.state_dict()[key]
        assert (old[key] - expected).abs().max() <= (0 if exact else 5e-3), key


def change_config(directory, keys):
    """Changes the keys of config.json, and removes those whose value is `...`."""
    config = json.loads((directory / "config.json").read_text()) | keys
    (directory / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


@pytest.mark.parametrize("name, keys, missing", [
    ("deepseek_v3", {"rope_interleave": False}, "rope_interleave = false"),
    ("deepseek_v3", {"rope_interleave": None}, "\"rope_interleave\" is not true or false"),
    ("deepseek_v3", {"norm_topk_prob": ...}, "the key \"norm_topk_prob\" is missing"),
    ("deepseek_v3", {"routed_scaling_factor": ...}, "the key \"routed_scaling_factor\" is missing"),
    ("deepseek_v3", {"n_group": ...}, "the key \"n_group\" is missing"),
    ("deepseek_v3", {"topk_group": ...}, "the key \"topk_group\" is missing"),
    ("deepseek_v3", {"scoring_func": "softmax"}, "scoring_func = \"softmax\""),
    ("deepseek_v3", {"kv_lora_rank": None}, "kv_lora_rank"),
    ("deepseek_v3", {"kv_lora_rank": 0}, "kv_lora_rank is 0"),
    ("deepseek_v3", {"num_key_value_heads": 2}, "n_kv_heads is 2, but latent attention has one per query head, 4"),
    ("deepseek_v3", {"attention_bias": True}, "attention_bias = true"),
    ("deepseek_v3", {"qk_rope_head_dim": 7}, "qk_rope_head_dim is 7"),
    ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method = \"noaux_tc\""),
    ("deepseek_v2", {"norm_topk_prob": True}, "deepseek_v2 does not normalize routing weights"),
    ("glm4_moe_lite", {"mlp_layer_types": ["sparse", "dense", "sparse"]}, "first those that are \"dense\""),
    ("youtu", {"n_routed_experts": 4}, "n_routed_experts = 4"),
    ("qwen2_moe", {"shared_expert_intermediate_size": 0}, "shared_expert_intermediate_size is 0"),
    ("olmoe", {"clip_qkv": 8.0}, "clip_qkv = 8.0"),
    ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention = true"),
    ("gemma2", {"hidden_activation": "gelu"}, "hidden_activation = \"gelu\""),
    ("gemma2", {"attn_logit_softcapping": ...}, "the key \"attn_logit_softcapping\" is missing"),
    ("gemma2", {"final_logit_softcapping": 0.0}, "final_logit_softcapping = 0.0 is not supported; null means no cap"),
    ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping = 50.0"),
    ("gemma2", {"layer_types": ["full_attention", "full_attention", "sliding_attention"]},
     "a sliding window in 1 of 3 layers"),
    ("gemma2", {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}},
     "RoPE parameters per layer type"),
    ("gpt_oss", {"attention_bias": False}, "attention_bias = false"),
    ("gpt_oss", {"rope_parameters": None}, "the key \"rope_parameters\" is missing"),
    ("gpt_oss yarn", {"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "truncate": None}},
     "\"truncate\" is not true or false"),
    ("gpt_oss", {"swiglu_limit": 5.0}, "swiglu_limit = 5.0"),
    ("gpt_oss", {"swiglu_alpha": 1.0}, "swiglu_alpha = 1.0"),
    ("glm4", {"attention_bias": "yes"}, "attention_bias = \"yes\""),
    ("glm4_moe", {"use_qk_norm": True}, "use_qk_norm = true"),
    ("granite", {"mlp_bias": True}, "mlp_bias = true"),
    ("llama", {"is_causal": False}, "is_causal = false"),
    ("mistral nemo", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
     "rope_theta is 1000000 with rope_parameters, but 10000 with rope_scaling"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
    ("dots1", {"scoring_func": "softmax"}, "scoring_func = \"softmax\""),
    ("dots1", {"moe_layer_freq": 2}, "moe_layer_freq = 2"),
    ("dots1", {"first_k_dense_replace": 3}, "dense_layers is 3, but must be less than the 3 layers"),
    ("qwen3", {"attention_bias": True}, "attention_bias = true"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 20, "layer_types": None, "max_window_layers": 1},
     "a sliding window in 2 of 3 layers"),
])
def test_unsupported_parts_are_rejected_by_name(tmp_path, name, keys, missing):
    directory = random_models.write(random_models.make(name), tmp_path / "m")
    change_config(directory, keys)
    assert_refused(run("export", directory, "--out", tmp_path / "m.gguf"), FAILED, missing)


DEFAULT_ROPE = {"rope_type": "default"}


@pytest.mark.parametrize("name, keys", [
    ("mixtral", {"rope_parameters": ...}),
    ("gemma3_text", {"rope_parameters": {"full_attention": DEFAULT_ROPE, "sliding_attention": DEFAULT_ROPE}}),
    ("gpt_oss", {"rope_parameters": DEFAULT_ROPE}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e4},
               "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
    ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 1.0, "attention_factor": 0.8, "rope_theta": 1e4,
                                   "original_max_position_embeddings": 64}}),
    ("deepseek_v3", {"original_max_position_embeddings": 16}),
    ("mistral window", {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    ("gemma2", {"layer_types": ["full_attention"] * 3}),
    ("gemma3_text", {"layer_types": ["full_attention"] * 7}),
    ("gpt_oss", {"layer_types": ["full_attention"] * 3}),
])
def test_keys_mean_the_same_as_in_transformers(tmp_path, name, keys):
    directory = random_models.write(random_models.make(name), tmp_path / "m")
    change_config(directory, keys)
    succeed("export", directory, "--out", tmp_path / "ours", "--format", "hf")
    for path in (directory, tmp_path / "ours"):
        model = transformers.AutoModelForCausalLM.from_pretrained(path)
        assert (log_probabilities(directory, IDS) - by_transformers(model, IDS)).abs().max() <= 1e-4


@pytest.mark.parametrize("name, tensor, missing", [
    ("qwen3", "model.layers.1.self_attn.sinks", "qwen3 models with attention sinks"),
    ("qwen2", "model.layers.1.mlp.experts.3.up_proj.weight", "qwen2 models with experts"),
    ("qwen3_moe", "model.layers.1.mlp.shared_expert.up_proj.weight", "qwen3_moe models with shared experts"),
    ("olmoe", "model.layers.1.mlp.gate.e_score_correction_bias", "a bias for the selection of experts"),
    ("llama", "model.layers.1.self_attn.kv_a_proj_with_mqa.weight", "llama models with latent attention"),
])
def test_unexpected_tensors_are_rejected_by_name(tmp_path, name, tensor, missing):
    directory = random_models.write(random_models.make(name), tmp_path / "m")
    tensors = load_file(directory / "model.safetensors")
    save_file({**tensors, tensor: torch.ones(4)}, directory / "model.safetensors")
    assert_refused(run("export", directory, "--out", tmp_path / "m.gguf"), FAILED, missing)


def test_gguf_export_rejects_what_it_cannot_store(tmp_path):
    for name, keys, why in (("qwen3_moe", dict(norm_topk_prob=False), "routing weights that are not normalized"),
                            ("olmoe", dict(norm_topk_prob=True), "normalized routing weights"),
                            ("qwen2_moe", dict(mlp_only_layers=[0]), "layers without experts")):
        model = random_models.make(name, **keys)
        directory = random_models.write(model, tmp_path / name)
        assert_refused(run("export", directory, "--out", tmp_path / "m.gguf"), FAILED, why, "use --format hf")
        assert (log_probabilities(directory, IDS) - by_transformers(model, IDS)).abs().max() <= 1e-4


def test_gguf_of_sigmoid_scores_without_their_key(tmp_path):
    directory = random_models.write(random_models.make("glm4_moe_lite"), tmp_path / "m")
    succeed("export", directory, "--out", tmp_path / "m.gguf")
    gguf_copies.copy(tmp_path / "m.gguf", tmp_path / "old.gguf", without=["deepseek2.expert_gating_func"])
    expected = log_probabilities(tmp_path / "m.gguf", IDS[:20])
    assert (log_probabilities(tmp_path / "old.gguf", IDS[:20]) == expected).all()


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "dots1"])
def test_number_of_experts_has_several_keys(tmp_path, name):
    """The key for the number of experts depends on the version of transformers, so num_experts, num_local_experts and
    n_routed_experts must all be accepted."""
    directory = random_models.write(random_models.make(name), tmp_path / "m")
    expected = log_probabilities(directory, IDS[:20])
    config = json.loads((directory / "config.json").read_text())
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    number = next(config.pop(key) for key in names if key in config)
    published = {"scoring_func": "noaux_tc"} if name == "dots1" else {}
    for key in names:
        (directory / "config.json").write_text(json.dumps(config | {key: number} | published))
        assert (log_probabilities(directory, IDS[:20]) == expected).all(), key


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_and_stacked_experts_may_span_several_files(tmp_path, dtype):
    model = random_models.make("qwen2_moe").to(dtype)
    theirs = random_models.write(model, tmp_path / "theirs", max_shard_size=20000)
    succeed("export", theirs, "--out", tmp_path / "ours", "--format", "hf", "--max-shard-bytes", "20000")
    for folder in (theirs, tmp_path / "ours"):
        assert len(list(folder.glob("model-*.safetensors"))) > 5
    assert (log_probabilities(tmp_path / "ours", IDS[:20]) == log_probabilities(theirs, IDS[:20])).all()
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True,
                                                                       dtype=dtype)
    assert_whole(loading)
    assert again.config.dtype == dtype
    for key, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key


def test_sixteen_bit_norms_keep_their_type(tmp_path):
    theirs = random_models.write(random_models.make("llama").bfloat16(), tmp_path / "theirs")
    for flags, norms in (([], "BF16"), (["--type", "bf16"], "F32")):
        succeed("export", theirs, "--out", tmp_path / "m.gguf", *flags)
        types = {t.name: t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
        for name, type_ in types.items():
            assert type_ == (norms if "norm" in name else "BF16"), name


@pytest.mark.parametrize("name, in_gguf", [("llama", False), ("deepseek_v3", True), ("glm4_moe", True)])
def test_modules_of_multi_token_prediction_are_kept_where_other_programs_read_them(tmp_path, name, in_gguf):
    """num_hidden_layers in config.json excludes the MTP module, and block_count in GGUF includes it."""
    directory = random_models.write_ahead(name, tmp_path / "m")
    succeed("export", directory, "--out", tmp_path / "without.gguf", "--layers", "3")
    expected = log_probabilities(tmp_path / "without.gguf", IDS[:20])
    for flags, kept in (([], in_gguf), (["--mtp"], True)):
        done = succeed("export", directory, "--out", tmp_path / "m.gguf", *flags)
        assert done.stderr == ("" if kept else f"{directory}: the module of multi-token prediction is left out; --mtp keeps it\n")
        reader = gguf.GGUFReader(tmp_path / "m.gguf")
        architecture = random_models.ARCHITECTURES.get(name, (name.replace("_", ""),))[0]
        value = lambda key: int(reader.fields[f"{architecture}.{key}"].parts[-1][0])  # noqa: E731
        assert value("block_count") == (4 if kept else 3)
        assert (f"{architecture}.nextn_predict_layers" in reader.fields) == kept
        names = {t.name for t in reader.tensors if ".nextn." in t.name}
        assert names == ({f"blk.3.nextn.{part}.weight" for part in ("eh_proj", "enorm", "hnorm", "shared_head_norm")} if kept else set())
        assert (log_probabilities(tmp_path / "m.gguf", IDS[:20]) == expected).all()
    succeed("export", tmp_path / "m.gguf", "--out", tmp_path / "again", "--format", "hf")
    theirs, ours = load_file(directory / "model.safetensors"), load_file(tmp_path / "again/model.safetensors")
    assert theirs.keys() == {key for key in ours if not key.startswith("__pad__.")}
    assert all((theirs[key] == ours[key]).all() for key in theirs)
    assert json.loads((tmp_path / "again/config.json").read_text())["num_nextn_predict_layers"] == 1
    assert "n_tokens_ahead           1\n" in succeed("inspect", tmp_path / "m.gguf").stdout
    assert_refused(run("export", directory, "--out", tmp_path / "bad", "--format", "hf", "--mtp"), WRONG_USAGE, "--mtp requires --format gguf")
    assert_refused(run("export", directory, "--out", tmp_path / "bad", "--layers", "2", "--mtp"), WRONG_USAGE, "--mtp does not support --layers")
    assert_refused(run("export", tmp_path / "without.gguf", "--out", tmp_path / "bad", "--mtp"), WRONG_USAGE, "has no module for --mtp")


def test_adapters_of_latents_and_shared_experts_become_gguf(tmp_path):
    directory = random_models.write(random_models.make("deepseek_v3"), tmp_path / "m")
    adapter = save_adapter(tmp_path / "adapter", {"0.self_attn.q_a_proj": (32, 20), "1.mlp.shared_experts.up_proj": (32, 20)})
    succeed("export", adapter, "--format", "gguf-lora", "--base", directory, "--out", tmp_path / "a.gguf")
    plain, ours, again = (generate(directory, "-p", "ab", "-n", "20", "--temp", "0", *flags)["tokens"]
                          for flags in ([], ["--lora", adapter], ["--lora", tmp_path / "a.gguf"]))
    assert ours == again != plain


@pytest.mark.parametrize("name, target, why", [
    ("qwen2_moe", "mlp.experts.0.up_proj", "adapters of experts"),
    ("qwen2_moe", "mlp.gate", "matches no linear layer"),
    ("deepseek_v3", "self_attn.kv_b_proj", "adapters of latent attention's matrices per head"),
    ("phi3", "self_attn.qkv_proj", "adapters of matrices that files of the family phi3 fuse"),
    ("glm4", "mlp.up_proj", "adapters of matrices that files of the family glm4 fuse")])
def test_adapters_of_other_matrices_are_rejected_by_name(tmp_path, name, target, why):
    directory = random_models.write(random_models.make(name), tmp_path / "m")
    adapter = save_adapter(tmp_path / "adapter", {f"0.{target}": (32, 24)})
    assert_refused(run("generate", "-m", directory, "--lora", adapter, "-n", "1", "-p", "ab"), FAILED, why)


def test_llama2c_rejects_other_families(tmp_path):
    for name, why in (("qwen2", "family qwen2"), ("mixtral", "family mixtral"), ("mistral window", "sliding window"),
                      ("llama wide heads", "heads"), ("llama linear", "llama2.c has no RoPE scaling")):
        directory = random_models.write(random_models.make(name, rms_norm_eps=1e-5), tmp_path / name)
        done = run("export", directory, "--out", tmp_path / "m.bin", "--format", "llama2c")
        assert_refused(done, FAILED, why)
        assert not (tmp_path / "m.bin").exists()


def glm_tokenizer():
    """Returns a tokenizer like GLM-4's as converted by transformers: Llama 3's pre-tokenizer and two prefix tokens."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    llama3 = PRETOKENIZE_REGEX.replace(r"\p{N}", r"\p{N}{1,3}", 2).replace(r"[^\r\n\p{L}\p{N}{1,3}]", r"[^\r\n\p{L}\p{N}]", 1)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(llama3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT, ACCENTED], trainers.BpeTrainer(
        vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    names = ["<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>"]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in names])
    ids = [(text, tokenizer.token_to_id(text)) for text in ("[gMASK]", "<sop>")]
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="[gMASK]:0 <sop>:0 $A:0", pair="[gMASK]:0 <sop>:0 $A:0 $B:1",
                                      special_tokens=ids)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>",
                                                pad_token="<|endoftext|>")


def test_glm_prompts_begin_with_two_tokens(tmp_path):
    fast = glm_tokenizer()
    model = random_models.make("glm", vocab_size=len(fast), bos_token_id=fast.bos_token_id,
                               eos_token_id=fast.eos_token_id)
    model.save_pretrained(tmp_path / "theirs")
    fast.save_pretrained(tmp_path / "theirs")
    succeed("export", tmp_path / "theirs", "--out", tmp_path / "again", "--format", "hf")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    for text in ("the old cat", "  the\n\nold  cat", "caf\u00e9 \u65e5 1234 ▁", ""):
        expected = fast(text).input_ids
        assert again(text).input_ids == expected, text
        if not text:
            continue
        for path in (tmp_path / "theirs", tmp_path / "again"):
            ours = generate(path, "-p", text, "-n", "1", "--temp", "0")
            assert ours["prompt_tokens"] == expected, (path, text)
