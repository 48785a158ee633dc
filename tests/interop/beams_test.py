"""Compares beams of SmolLM2-135M-Instruct in float32 with transformers' generate(num_beams=W): 40 prompts for each
width, length penalty and stopping rule, and chat answers that end with the model's end token."""

import itertools
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
from support import ROOT, one_json, succeed  # noqa: E402

SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
THREADS, N_TOKENS, SCORE = 2, 16, 1e-4
COUNTRIES = ["France", "Japan", "Brazil", "Egypt", "Norway", "Canada", "Kenya", "Peru", "India", "Spain"]
PROMPTS = [f"The capital of {c} is" for c in COUNTRIES] + [f"People in {c} like to eat" for c in COUNTRIES] + [
    "Once upon a time, there was a", "def fibonacci(n):", "Water boils at", "The three states of matter are",
    "In 1969, the first", "My favourite recipe for bread begins with", "Dear Sir or Madam,", "The quick brown fox",
    "To be, or not to be", "Photosynthesis is the process by which", "Q: What is the largest planet? A:",
    "A haiku about autumn:", "import numpy as np", "The derivative of x^2 is", "La tour Eiffel est située à",
    "She opened the door and", "Shopping list: 1. milk 2.", "HTTP status code 404 means", "1 2 3 4 5",
    "The meaning of the word \"serendipity\" is"]


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
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "hf", padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    return transformers.AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32).eval(), tokenizer


def beams_of(peer, inputs, width, n=N_TOKENS, **how):
    """Returns transformers' outputs for each prompt, best first: (tokens without the end token, score)."""
    model, tokenizer = peer
    ends = {tokenizer.convert_tokens_to_ids(t) for t in ("<|im_end|>", "<|endoftext|>")}
    out = model.generate(**inputs, max_new_tokens=n, num_beams=width, num_return_sequences=width, do_sample=False,
                         eos_token_id=sorted(ends), return_dict_in_generate=True, output_scores=True, **how)
    made = (out.beam_indices >= 0).sum(1).tolist()
    rows = out.sequences[:, inputs["input_ids"].shape[1]:].tolist()
    texts = [([t for t in row[:n_made] if t not in ends], score)
             for row, n_made, score in zip(rows, made, out.sequences_scores.tolist(), strict=True)]
    return [texts[i:i + width] for i in range(0, len(texts), width)]


@pytest.mark.parametrize("width, penalty, early",
                         list(itertools.product((2, 4, 8), (0.6, 1.0, 2.0), (False, True, "never"))))
def test_outputs_order_and_scores_match_transformers(folder, f32, peer, width, penalty, early):
    file = folder / "prompts.txt"
    file.write_text("\n".join(PROMPTS) + "\n")
    how = {False: [], True: ["--early-stopping"], "never": ["--early-stopping=never"]}[early]
    results = one_json(succeed("generate", "--json", "-m", f32, "--prompts", file, "-t", THREADS, "-n", N_TOKENS,
                               "--beams", width, "--beams-out", width, "--length-penalty", penalty, *how, timeout=600).stdout)["results"]
    inputs = peer[1](PROMPTS, padding=True, return_tensors="pt")
    theirs = beams_of(peer, inputs, width, length_penalty=penalty, early_stopping=early)
    for prompt, ours, expected in zip(PROMPTS, results, theirs, strict=True):
        assert [beam["tokens"] for beam in ours["beams"]] == [tokens for tokens, _ in expected], prompt
        for beam, (_, score) in zip(ours["beams"], expected, strict=True):
            assert abs(beam["score"] - score) <= SCORE, prompt


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
    inputs = peer[1].apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    theirs = beams_of(peer, inputs, 4, n=24, length_penalty=0.6)[0]
    assert [c["message"]["content"] for c in choices] == [peer[1].decode(tokens) for tokens, _ in theirs]
    assert all(abs(c["score"] - score) <= SCORE for c, (_, score) in zip(choices, theirs, strict=True))
    assert "stop" in {c["finish_reason"] for c in choices}
