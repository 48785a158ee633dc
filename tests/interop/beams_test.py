"""Compares beams of SmolLM2-135M-Instruct in float32 with transformers' generate(num_beams=W): chat answers that end
with the model's end token. tests/apps/beams_test.py has every width, length penalty and stopping rule."""

import json
import sys
import urllib.request
from pathlib import Path

import pytest
import torch
import transformers

for folder in ("apps", "infer/server"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))

from conftest import Serve  # noqa: E402
from support import SMOLLM2, succeed  # noqa: E402

THREADS, SCORE = 2, 1e-4
COUNTRIES = ["France", "Japan", "Brazil", "Egypt", "Norway", "Canada", "Kenya", "Peru", "India", "Spain"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("beams")


@pytest.fixture(scope="module")
def f32(folder):
    succeed("export", SMOLLM2, "--out", folder / "f32.gguf", "--type", "f32")
    return folder / "f32.gguf"


@pytest.fixture(scope="module")
def peer(folder):
    torch.set_num_threads(THREADS)
    succeed("export", SMOLLM2, "--out", folder / "hf", "--format", "hf", "--type", "f32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "hf")
    return transformers.AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32).eval(), tokenizer


def beams_of(peer, messages):
    """Returns transformers' answers, best first: (tokens without the end token, score)."""
    model, tokenizer = peer
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ends = {tokenizer.convert_tokens_to_ids(t) for t in ("<|im_end|>", "<|endoftext|>")}
    out = model.generate(**inputs, max_new_tokens=24, num_beams=4, num_return_sequences=4, do_sample=False,
                         length_penalty=0.6, eos_token_id=sorted(ends), return_dict_in_generate=True, output_scores=True)
    made = (out.beam_indices >= 0).sum(1).tolist()
    rows = out.sequences[:, inputs["input_ids"].shape[1]:].tolist()
    return [([t for t in row[:n_made] if t not in ends], score)
            for row, n_made, score in zip(rows, made, out.sequences_scores.tolist(), strict=True)]


@pytest.fixture(scope="module")
def server(f32):
    serve = Serve(f32, "-t", str(THREADS), "--cache-type", "f32")
    yield serve
    serve.stop()


@pytest.mark.parametrize("country", COUNTRIES)
def test_chat_answers_end_at_eos(server, peer, country):
    messages = [{"role": "user", "content": f"What is the capital of {country}? One word."}]
    body = {"messages": messages, "use_beam_search": True, "n": 4, "max_tokens": 24, "length_penalty": 0.6}
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    choices = json.load(urllib.request.urlopen(request))["choices"]
    theirs = beams_of(peer, messages)
    assert [c["message"]["content"] for c in choices] == [peer[1].decode(tokens) for tokens, _ in theirs]
    assert all(abs(c["score"] - score) <= SCORE for c, (_, score) in zip(choices, theirs, strict=True))
    assert "stop" in {c["finish_reason"] for c in choices}
