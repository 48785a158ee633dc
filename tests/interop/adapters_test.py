"""Compares adapters with llama.cpp: export writes the same GGUF as llama.cpp's converter, and greedy outputs equal
those of llama-cpp-python with the adapter applied (`lora_path`) or merged."""

import subprocess
import sys

import gguf
import llama_cpp
import numpy as np
import pytest
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from engines import ROOT, SMOLLM2, assert_same_text, folio, folio_greedy
from adapters import change_config, write_adapter  # in tests/apps, which engines.py adds to sys.path

CONVERTER = ROOT / "build" / "llama-server" / "source" / "vendor" / "llama.cpp" / "convert_lora_to_gguf.py"
PROMPTS = ["Once upon a time, there was a", "The capital of France is"]
N = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adapters")


@pytest.fixture(scope="module")
def base(folder):
    """Exports SmolLM2 in float32, as a GGUF file and as a Hugging Face directory. Returns the path of the GGUF file."""
    folio("export", SMOLLM2, "--out", folder / "f32.gguf", "--type", "f32")
    folio("export", SMOLLM2, "--out", folder / "hf", "--format", "hf", "--type", "f32")
    return folder / "f32.gguf"


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "rank-stabilized"])
def adapter(request, folder, base):
    """Returns the paths of a LoRA adapter for SmolLM2: a peft directory and a GGUF file."""
    directory = write_adapter(folder / f"a{request.param}", folder / "hf", seed=3, rank=8, size=0.05, alpha=12)
    change_config(directory, use_rslora=request.param, base_model_name_or_path=str(folder / "hf"))
    file = folder / f"a{request.param}.gguf"
    folio("export", directory, "--format", "gguf-lora", "--out", file)
    return directory, file


class Llama:
    """A model that llama-cpp-python runs with a float32 KV cache, to generate greedy outputs."""

    def __init__(self, model, **more):
        self.model = llama_cpp.Llama(str(model), n_ctx=128, n_threads=1, n_threads_batch=1, logits_all=True,
                                     type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, flash_attn=False,
                                     verbose=False, **more)

    def greedy(self, prompt, n):
        self.model.reset()
        self.model.eval(self.model.tokenize(prompt.encode()))
        tokens, gaps = [], []
        while len(tokens) < n:
            logits = self.model.scores[self.model.n_tokens - 1]
            second, best = np.sort(logits)[-2:]
            gaps.append(float(best - second))
            tokens.append(int(logits.argmax()))
            self.model.eval(tokens[-1:])
        return tokens, gaps


FAMILIES = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}


@pytest.mark.parametrize("family", FAMILIES)
def test_file_matches_llama_cpps_converter(tmp_path, family):
    """Both converters write equal tensors and metadata, given only config.json of the base model. use_rslora is not
    tested, since llama.cpp's converter ignores it."""
    if not CONVERTER.exists():
        pytest.skip("llama.cpp's source is not here")
    config = FAMILIES[family](hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                              num_key_value_heads=2, head_dim=16, vocab_size=32)
    config.architectures = [f"{type(config).__name__.removesuffix('Config')}ForCausalLM"]
    config.save_pretrained(tmp_path)
    directory = write_adapter(tmp_path / "adapter", tmp_path, seed=4, alpha=6)
    subprocess.run([sys.executable, CONVERTER, directory, "--base", tmp_path, "--outfile", tmp_path / "theirs.gguf"],
                   check=True, capture_output=True)
    folio("export", directory, "--base", tmp_path, "--format", "gguf-lora", "--out", tmp_path / "ours.gguf")
    written, theirs = (gguf.GGUFReader(tmp_path / name) for name in ("ours.gguf", "theirs.gguf"))
    tensors = lambda reader: {t.name: (t.tensor_type, tuple(t.shape), t.data.tobytes()) for t in reader.tensors}
    assert tensors(written) == tensors(theirs) and len(tensors(written)) == 2 * 2 * 7
    for key in ("general.type", "general.architecture", "adapter.type", "adapter.lora.alpha"):
        assert written.get_field(key).contents() == theirs.get_field(key).contents(), key


def test_outputs_match_llama_cpp(folder, base, adapter):
    directory, file = adapter
    theirs, changed = Llama(base, lora_path=str(file)), 0
    for prompt in PROMPTS:
        tokens, gaps = theirs.greedy(prompt, N)
        found, same, without = (folio_greedy(base, prompt, N, "-t", 1, *flags)["tokens"]
                                for flags in (["--lora", directory], ["--lora", file], []))
        assert same == found
        assert assert_same_text(found, tokens[:len(found)], gaps) > 10
        changed += found != without
    assert changed == len(PROMPTS)
