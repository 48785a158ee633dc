"""Compares perplexity with transformers on the same windows, and tests its command line."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from chat_model import write_chat_model
from support import EXPECTED, FAILED, GOLDEN, WRONG_USAGE, assert_refused, export, perplexity, run, succeed

TEXT = "".join(entry["prompt"] + entry["text"] for entry in EXPECTED["greedy"])
IDS = [token for entry in EXPECTED["greedy"] for token in entry["prompt_tokens"] + entry["tokens"]]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def by_transformers(ids, window):
    """Returns -ln p of every token except the first of each window."""
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(GOLDEN, dtype=torch.float32).eval()
    losses = []
    for first in range(0, len(ids), window):
        part = torch.tensor(ids[first:first + window])
        with torch.no_grad():
            logits = model(part[None]).logits[0].double()
        losses += torch.nn.functional.cross_entropy(logits[:-1], part[1:], reduction="none").tolist()
    return losses


@pytest.mark.parametrize("window", [256, 100, 17, 2])
def test_loss_matches_transformers(golden_gguf, text, window):
    assert len(IDS) == len(TEXT) > 400
    expected = by_transformers(IDS, window)
    ours = perplexity(golden_gguf, text, "--context", window, "--token-logprobs")
    assert ours["tokens"] == len(expected) == len(ours["token_logprobs"])
    assert np.abs(np.array(ours["token_logprobs"]) + expected).max() < 1e-4
    assert ours["nll"] == pytest.approx(np.mean(expected), rel=1e-5)
    assert ours["nll"] == pytest.approx(-np.mean(ours["token_logprobs"]), rel=1e-12)
    assert ours["perplexity"] == pytest.approx(np.exp(ours["nll"]), rel=1e-12)


def test_default_window_is_the_models_context(golden_gguf, text):
    assert perplexity(golden_gguf, text) == perplexity(golden_gguf, text, "-c", 256)
    assert "token_logprobs" not in perplexity(golden_gguf, text)


def test_default_cache_type_follows_the_weights(golden_gguf, text, tmp_path):
    """The KV cache is F32 by default for F32 weights, else F16. The cache's type changes the results slightly."""
    for weights, default in (("f32", "f32"), ("f16", "f16"), ("bf16", "f16")):
        model = export(golden_gguf, tmp_path / f"{weights}.gguf", "--type", weights)
        by_type = {t: perplexity(model, text, "--cache-type", t)["nll"] for t in ("f32", "f16", "q8_0")}
        assert len(set(by_type.values())) == 3
        assert perplexity(model, text)["nll"] == by_type[default]
        assert by_type["f16"] == pytest.approx(by_type["f32"], rel=1e-3)
        assert by_type["q8_0"] == pytest.approx(by_type["f32"], rel=1e-2)


def test_bos_is_added_if_the_model_requires_it(tmp_path):
    """The first token of a window is never scored. If it is BOS, one more token of the text is scored."""
    path = write_chat_model(tmp_path / "model.gguf")
    (tmp_path / "text.txt").write_text("hello world\n" * 9, encoding="utf-8")
    without = perplexity(path, tmp_path / "text.txt", "-c", 500)
    data = path.read_bytes()
    key = b"tokenizer.ggml.add_bos_token" + (7).to_bytes(4, "little")
    assert data.count(key + b"\0") == 1
    path.write_bytes(data.replace(key + b"\0", key + b"\1"))
    with_bos = perplexity(path, tmp_path / "text.txt", "-c", 500)
    assert with_bos["tokens"] == without["tokens"] + 1


def test_plain_output(golden_gguf, text):
    done = succeed("perplexity", "-m", golden_gguf, "--text", text, "-c", 64)
    nll = perplexity(golden_gguf, text, "-c", 64)["nll"]
    assert done.stdout.count("\n") == 1 and f"{nll:.6f}" in done.stdout and "tokens/s" in done.stderr
    lines = succeed("perplexity", "-m", golden_gguf, "--text", text, "-c", 64, "--token-logprobs").stdout.splitlines()
    assert -np.mean([float(line) for line in lines]) == pytest.approx(nll, rel=1e-12)


def test_unscorable_inputs_are_rejected(golden_gguf, text, tmp_path):
    refuse = lambda code, *flags, parts: assert_refused(run("perplexity", "-m", golden_gguf, *flags), code, *parts)
    refuse(FAILED, "--text", tmp_path / "none.txt", parts=[tmp_path / "none.txt"])
    for name, data, part in [("empty", b"", "0 tokens"), ("one", b"a", "1 tokens"), ("bytes", b"a\xff", "UTF-8")]:
        (tmp_path / name).write_bytes(data)
        refuse(FAILED, "--text", tmp_path / name, parts=[tmp_path / name, part])
    refuse(WRONG_USAGE, "--text", text, "-c", "257", parts=["--context", "257", "256"])
    refuse(WRONG_USAGE, "--text", text, "-c", "1", parts=["--context"])
    both = run("perplexity", "-m", tmp_path / "none.gguf", "--text", tmp_path / "none.txt")
    assert_refused(both, FAILED, tmp_path / "none.txt")  # the text is opened before the model is read
