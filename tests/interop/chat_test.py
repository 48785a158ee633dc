"""Compares chats and perplexity with llama.cpp: the tokens of a rendered conversation, the greedy answer, and log
probabilities over the same windows. The models are small, with random F32 weights."""

import json
import sys

import jinja2
import numpy as np
import pytest

from engines import ROOT, LlamaCpp, assert_same_text, folio

sys.path[:0] = [str(ROOT / "tests" / "apps"), str(ROOT / "tests" / "data" / "chat")]

from chat_model import write_chat_model  # noqa: E402
from published_templates import KNOWN  # noqa: E402

TEXT = ("The quick brown fox jumps over the lazy dog, and says: hello world!\nWhy would it? It is 1, 2 or 30 times "
        "as quick; naïve, though. 中文 😀\n\n") * 4


def rendered(template, messages):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True, bos_token="<s>",
                                                    eos_token="</s>")


@pytest.mark.parametrize("name", KNOWN)
def test_chat_tokens_and_answer_match_llama_cpp(name, tmp_path):
    template = KNOWN[name]
    path = write_chat_model(tmp_path / "model.gguf", template)
    with LlamaCpp(path, n_ctx=512) as theirs:
        for system, prompt in [(None, "hello world"), ("Be brief.\n", "  why?\n\n  So. "), (None, "\n{{ 中文 }} 😀")]:
            if system is not None and name == "Gemma":
                continue  # Gemma's template rejects system messages
            messages = [{"role": "user", "content": prompt}]
            messages = messages if system is None else [{"role": "system", "content": system}, *messages]
            flags = [] if system is None else ["--system", system]
            ours = json.loads(folio("chat", "--json", "-m", path, "-n", 40, "--temp", 0, "-p", prompt, *flags))
            assert ours["prompt_tokens"] == theirs.tokenize(rendered(template, messages), special=True)
            tokens, gaps = theirs.greedy(ours["prompt_tokens"], 40, never=[])
            assert assert_same_text(ours["tokens"], tokens, gaps) > 0


@pytest.mark.parametrize("window", [300, 64, 9])
def test_loss_matches_llama_cpp(window, tmp_path):
    path = write_chat_model(tmp_path / "model.gguf")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    ours = json.loads(folio("perplexity", "--json", "-m", path, "--text", tmp_path / "text.txt", "-c", window,
                            "--token-logprobs"))
    losses = []
    with LlamaCpp(path, n_ctx=512) as theirs:
        tokens = theirs.tokenize(TEXT)
        assert len(tokens) > 300
        for first in range(0, len(tokens), window):
            part = tokens[first:first + window]
            logits = theirs.all_logits(part).astype(np.float64)
            total = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
            losses += [total[i] - logits[i, token] for i, token in enumerate(part[1:])]
    assert ours["tokens"] == len(losses)
    assert np.abs(np.array(ours["token_logprobs"]) + losses).max() < 1e-4
    assert ours["nll"] == pytest.approx(np.mean(losses), rel=1e-5)
