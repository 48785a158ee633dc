"""Tests Hugging Face directories: Folio reads those of transformers; transformers and safetensors read Folio's."""

import json

import gguf
import pytest
import sound
import torch
import transformers
from safetensors.torch import load_file
from support import succeed

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def llama(tied, dtype):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(sound.CHARACTERS) + 1, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=33, rms_norm_eps=1e-6,
        tie_word_embeddings=tied, bos_token_id=5, eos_token_id=5)
    return transformers.LlamaForCausalLM(config).to(dtype)


def state_of(model):
    return {name: tensor.contiguous().view(torch.uint8).numpy().tobytes() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_shards_of_transformers_round_trip_exactly(tmp_path, kind, tied):
    model = llama(tied, DTYPES[kind])
    model.save_pretrained(tmp_path / "theirs", max_shard_size=4000)
    assert len(list((tmp_path / "theirs").glob("model-0*.safetensors"))) > 2
    (tmp_path / "theirs" / "tokenizer.json").write_text(json.dumps(sound.character_json()))

    succeed("export", tmp_path / "theirs", "--out", tmp_path / "ours", "--format", "hf", "--max-shard-bytes", 5000)
    shards = sorted((tmp_path / "ours").glob("model-0*.safetensors"))
    assert len(shards) > 2
    index = json.loads((tmp_path / "ours" / "model.safetensors.index.json").read_text())
    for shard in shards:  # the index must list exactly the tensors of each shard
        tensors = {name for name in load_file(shard) if not name.startswith("__pad__.")}
        assert tensors == {name for name, file in index["weight_map"].items() if file == shard.name}

    again, loading = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "ours", output_loading_info=True, dtype=DTYPES[kind])
    assert not loading["missing_keys"] and not loading["mismatched_keys"], loading
    assert all(key.startswith("__pad__.") for key in loading["unexpected_keys"]), loading
    # Folio writes norms as F32, which represents 16-bit values exactly, so rounding to 16 bits restores the bits.
    assert state_of(again) == state_of(model)
    assert again.config.tie_word_embeddings == tied and again.config.dtype == DTYPES[kind]


def test_sixteen_bit_norms_keep_their_type(tmp_path):
    llama(True, torch.bfloat16).save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").write_text(json.dumps(sound.character_json()))
    succeed("export", tmp_path / "theirs", "--out", tmp_path / "m.gguf")
    assert {t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors} == {"BF16"}
    succeed("export", tmp_path / "theirs", "--out", tmp_path / "f32.gguf", "--type", "bf16")
    types = {t.name: t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "f32.gguf").tensors}
    assert types["output_norm.weight"] == "F32" and types["token_embd.weight"] == "BF16"
