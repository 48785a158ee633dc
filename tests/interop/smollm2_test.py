"""Compares a published Llama, SmolLM2-135M-Instruct, in Folio, llama.cpp and transformers: outputs and losses.

Losses are over consecutive windows of the beginning of TinyShakespeare, for every token except a window's first. The
environment variable FOLIO_TEXT_BYTES sets the number of bytes. With the default, 8,000, the difference between two
engines' losses has a standard error of about 0.2 %. With 100,000, the tests took an hour.
"""

import json
import os

import llama_cpp as lc
import numpy as np
import pytest
import torch
import transformers

from engines import ROOT, SMOLLM2, LlamaCpp, assert_same_text, folio

TEXT_BYTES = int(os.environ.get("FOLIO_TEXT_BYTES", 8_000))
WINDOW = 256
THREADS = 2
MIXTURES = {"q4_k_m": "Q5_0", "q5_k_m": "Q5_1"}  # {quantization mixture: type of most matrices of this model}
SMALLER = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", *MIXTURES]
# Types for which this test uses llama.cpp's quantizer: {name: file type}. For rows whose length is not a multiple of
# 256, such as 576, llama.cpp replaces K types by Q5_0, Q5_1 or Q8_0.
THEIRS = {"Q5_0": lc.LLAMA_FTYPE_MOSTLY_Q5_0, "Q5_1": lc.LLAMA_FTYPE_MOSTLY_Q5_1,
          "Q4_K": lc.LLAMA_FTYPE_MOSTLY_Q4_K_S, "Q5_K": lc.LLAMA_FTYPE_MOSTLY_Q5_K_S,
          "Q6_K": lc.LLAMA_FTYPE_MOSTLY_Q6_K}
PROMPTS = [
    "The capital of France is", "Once upon a time, there was a", "def fibonacci(n):", "Water boils at",
    "The three states of matter are", "In 1969, the first", "My favourite recipe for bread begins with",
    "Dear Sir or Madam,", "The quick brown fox", "To be, or not to be", "Photosynthesis is the process by which",
    "Q: What is the largest planet? A:", "A haiku about autumn:", "import numpy as np", "The derivative of x^2 is",
    "La tour Eiffel est située à", "She opened the door and", "Shopping list: 1. milk 2.", "HTTP status code 404 means",
    "The meaning of the word \"serendipity\" is"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("smollm2")


@pytest.fixture(scope="module")
def text(folder):
    path = folder / "text.txt"
    path.write_bytes((ROOT / "data" / "tinyshakespeare" / "input.txt").read_bytes()[:TEXT_BYTES])
    return path


@pytest.fixture(scope="module")
def f32(folder):
    path = folder / "f32.gguf"
    folio("export", SMOLLM2, "--out", path, "--type", "f32")
    return path


def of_type(f32, type_):
    """Returns the path of the model in this type, quantized by llama.cpp if THEIRS has the type, else by Folio."""
    path = f32.with_name(f"{type_}.gguf")
    if path.exists():
        return path
    if type_ in THEIRS:
        params = lc.llama_model_quantize_default_params()
        params.ftype, params.nthread = THEIRS[type_], THREADS
        assert lc.llama_model_quantize(str(f32).encode(), str(path).encode(), params) == 0
    else:
        folio("export", f32, "--out", path, "--type", type_.lower())
    return path


def perplexity(model, text):
    return json.loads(folio("perplexity", "-m", model, "--text", text, "--context", WINDOW, "--json", "--token-logprobs",
                            "-t", THREADS))


def windows(tokens):
    return [tokens[i:i + WINDOW] for i in range(0, len(tokens), WINDOW) if len(tokens[i:i + WINDOW]) > 1]


def nll(logits, tokens):
    """Returns -ln p of each token except the first, given the logits at every position."""
    logits = logits[:-1].astype(np.float64)
    top = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return log_sum - logits[np.arange(len(tokens) - 1), tokens[1:]]


def llama_cpp_nll(path, text):
    with LlamaCpp(path, n_ctx=WINDOW, n_threads=THREADS) as engine:
        tokens = engine.tokenize(text.read_text())
        return np.concatenate([nll(engine.all_logits(w), w) for w in windows(tokens)])


def assert_same_perplexity(ours, theirs, tolerance, noisy=False):
    """Asserts that the relative difference of perplexities is at most `tolerance`. If `noisy`, adds two standard errors
    of the difference to the tolerance."""
    apart = -np.array(ours["token_logprobs"]) - theirs
    error = apart.std() / np.sqrt(len(apart))
    print(f"perplexity {ours['perplexity']:.5f} and {np.exp(theirs.mean()):.5f}: apart by {np.expm1(apart.mean()):+.4%}, "
          f"standard error {error:.4%}")
    assert ours["tokens"] == len(theirs) and abs(ours["nll"] - theirs.mean() - apart.mean()) < 1e-4
    assert abs(np.expm1(apart.mean())) <= tolerance + (2 * error if noisy else 0)


def test_f32_loss_matches_llama_cpp_and_transformers(f32, text, folder):
    ours = perplexity(f32, text)
    assert_same_perplexity(ours, llama_cpp_nll(f32, text), 1e-3)

    folio("export", f32, "--out", folder / "hf", "--format", "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "hf")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32)
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        theirs = [nll(model(torch.tensor([w])).logits[0].numpy(), w)
                  for w in windows(tokenizer(text.read_text())["input_ids"])]
    assert_same_perplexity(ours, np.concatenate(theirs), 1e-3)


@pytest.mark.parametrize("type_", SMALLER)
def test_loss_of_smaller_types_matches_llama_cpp(f32, text, type_):
    path = of_type(f32, type_)
    assert MIXTURES.get(type_, type_) in folio("inspect", path)
    assert_same_perplexity(perplexity(path, text), llama_cpp_nll(path, text), 5e-3, noisy=TEXT_BYTES < 100_000)


def test_published_file_loss_matches_llama_cpp(text):
    assert_same_perplexity(perplexity(SMOLLM2, text), llama_cpp_nll(SMOLLM2, text), 5e-3,
                           noisy=TEXT_BYTES < 100_000)


def test_greedy_outputs_match_llama_cpp(f32, folder):
    n = 128
    file = folder / "prompts.txt"
    file.write_text("\n".join(PROMPTS))
    ours = json.loads(folio("generate", "-m", f32, "--prompts", file, "-n", n, "--temp", 0, "--json", "-t", THREADS))
    ours = ours["results"]
    assert len(ours) == len(PROMPTS)
    with LlamaCpp(f32, n_ctx=256, n_threads=THREADS) as engine:
        for prompt, text in zip(PROMPTS, ours):
            prefix = engine.tokenize(prompt)
            assert text["prompt_tokens"] == prefix, prompt
            assert len(text["tokens"]) == n or text["finish_reason"] == "stop"
            logits = engine.all_logits(prefix + text["tokens"])[len(prefix) - 1:-1]
            second, best = np.sort(logits)[:, -2:].T
            assert_same_text(text["tokens"], logits.argmax(1).tolist(), best - second)
