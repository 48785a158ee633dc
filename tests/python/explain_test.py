"""Tests Model.explain and Model.attention: activations equal those of transformers, other results those of NumPy."""

import html
import json
import re
import threading

import numpy as np
import pytest
import support

import folio

TEXT = "ROMEO: What light through yonder window breaks?\nJULIET: "


def run(theirs, ids):
    import torch

    with torch.no_grad():
        return theirs(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_activations_match_transformers(model, oracle):
    made = model.explain(TEXT)
    ids = model.tokenizer.encode(TEXT)
    assert [token["id"] for token in made.json["tokens"]] == ids
    out = run(oracle, ids)
    np.testing.assert_allclose(made["logits"], out.logits[0].numpy(), atol=1e-4)
    assert made["attention"].shape == (2, 4, len(ids), len(ids)) and made["attention"].dtype == np.float32
    for layer in range(2):
        np.testing.assert_allclose(made["attention"][layer], out.attentions[layer][0].numpy(), atol=1e-5)
        assert np.shares_memory(made[f"blocks.{layer}.attn.hook_pattern"], made["attention"])
        np.testing.assert_allclose(made[f"blocks.{layer}.hook_resid_pre"], out.hidden_states[layer][0].numpy(), atol=1e-4)
    assert set(made) >= {"hook_embed", "blocks.1.attn.hook_z", "ln_final.hook_normalized"} and len(made) == len(set(made))
    for name, array in made.items():
        assert isinstance(array, np.ndarray), name
    again = model.explain(ids)
    assert all(np.array_equal(made[name], again[name]) for name in made)


def test_lens_and_attribution_match_numpy(model):
    made = model.explain(TEXT)
    n = len(made.json["tokens"])
    norm, output = model.tensor("output_norm.weight"), model.tensor("output.weight")
    levels = np.stack([made["hook_embed"], made["blocks.0.hook_resid_post"], made["blocks.1.hook_resid_post"]])
    scale = np.sqrt((levels**2).mean(-1, keepdims=True) + model.config["norm_eps"])
    chances = softmax(levels / scale * norm @ output.T)
    final = chances[-1].argmax(-1)
    np.testing.assert_array_equal(made["lens.tokens"], np.argsort(-chances, -1, kind="stable")[..., :5])
    np.testing.assert_allclose(made["lens.probabilities"], -np.sort(-chances, -1)[..., :5], atol=1e-4)
    np.testing.assert_allclose(made["lens.p"], chances[:, range(n), final], atol=1e-4)
    np.testing.assert_array_equal(made["lens.rank"], 1 + (chances > chances[:, range(n), final][..., None]).sum(-1))

    np.testing.assert_array_equal(made["attribution.token"], final)
    np.testing.assert_allclose(made["attribution.logit"], made["logits"][range(n), final], atol=1e-4)
    direction = output[final] * norm / scale[-1]
    for layer in range(2):
        wo = model.tensor(f"blk.{layer}.attn_output.weight").reshape(48, 4, 12)
        shares = np.einsum("thd,chd,tc->th", made[f"blocks.{layer}.attn.hook_z"], wo, direction)
        np.testing.assert_allclose(made["attribution.heads"][:, layer], shares, atol=1e-4)
        ffn = (made[f"blocks.{layer}.hook_mlp_out"] * direction).sum(-1)
        np.testing.assert_allclose(made["attribution.ffn"][:, layer], ffn, atol=1e-4)
    parts = [made[f"attribution.{name}"] for name in ("heads", "attention_bias", "ffn", "embedding", "remainder")]
    np.testing.assert_allclose(sum(part.reshape(n, -1).sum(1) for part in parts), made["attribution.logit"], atol=1e-9)
    other = model.explain(TEXT, token="e")
    assert set(other["attribution.token"]) == {model.tokenizer.encode("e")[0]} and set(other["attribution.token"]) != set(final)


def test_interventions_match_the_program(golden_gguf, model):
    """tests/apps/files/explain_test.py compares those of the program with transformers."""
    source = np.array(model.tokenizer.encode("JULIET: O"))
    for options, flags in (({"ablate": "1.1"}, ["--ablate", "1.1"]), ({"mean": ["1.1"]}, ["--mean", "1.1"]),
                           ({"mean": "1.1", "mean_over": source}, ["--mean", "1.1", "--mean-over", "JULIET: O"]),
                           ({"ablate": "1.1", "mean": "1.2"}, ["--ablate", "1.1", "--mean", "1.2"]),
                           ({"patch": "1.1", "from_": "JULIET: O"}, ["--patch", "1.1", "--from", "JULIET: O"]),
                           ({"patch": ["1.1"], "from_": source}, ["--patch", "1.1", "--from", "JULIET: O"])):
        made = model.explain(TEXT, **options)
        told = support.one_json(support.succeed("explain", TEXT, "-m", golden_gguf, "--json", *flags).stdout)
        digits = json.loads(json.dumps(made.json), parse_float=lambda x: float(f"{float(x):.4g}"))  # those of the program
        assert {**digits, "operations": None} == {**told, "operations": None}, options
        assert made.json["interventions"]["description"][0].startswith("1.1: ")
    np.testing.assert_array_equal(model.explain(TEXT, ablate="1.1")["blocks.1.attn.hook_z"][:, 1], 0)


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "granite", "deepseek_v3"])
def test_attention_follows_the_family(name, tmp_path):
    """attention() returns the same weights as transformers for sliding windows, score caps and scales, attention sinks
    and latent attention. Unlike explain(), it accepts more than 256 tokens."""
    import random_models  # in tests/apps/files, which chat_model.py adds to sys.path

    theirs = random_models.make(name, max_position_embeddings=512)
    theirs.set_attn_implementation("eager")
    ids = [int(i) for i in np.random.default_rng(1).integers(0, 5, 300)]
    out = run(theirs, ids)
    with folio.Model(random_models.write(theirs, tmp_path / "model"), threads=1, cache_type="f32") as model:
        for layer, weights in enumerate(out.attentions):
            np.testing.assert_allclose(model.attention(ids, layer), weights[0].numpy(), rtol=1e-4, atol=1e-5)
        with pytest.raises(folio.Error, match=r"'prompt' has 300 tokens, but at most 256 can be explained"):
            model.explain(ids)


def test_pages_contain_the_explanation(model):
    made = model.explain("ROMEO:", ablate="0.ffn")
    page = made.to_html()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["server"] is None and [token["text"] for token in data["tokens"]] == list("ROMEO:")
    assert data["interventions"]["description"] == made.json["interventions"]["description"]
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" [^>]*></iframe>', made._repr_html_())
    assert html.unescape(frame[1]) == page
    assert repr(made) == f"Explanation(6 tokens, {len(made)} arrays)"


def test_invalid_arguments_are_rejected(model):
    for arguments, error, part in (
            (dict(prompt="a" * 257), folio.Error, "'prompt' has 257 tokens"), (dict(prompt=[]), folio.Error, "empty list"),
            (dict(prompt=None), folio.Error, "'prompt' is required"), (dict(prompt=3), TypeError, "'prompt' must be a string"),
            (dict(ablate="9"), folio.Error, "layer 9 does not exist"), (dict(ablate=[1]), TypeError, "'ablate' must be a list"),
            (dict(mean_over="a"), ValueError, "'mean_over' requires"), (dict(token="ab"), ValueError, "'token' has 2 tokens"),
            (dict(patch="1"), folio.Error, "a patch needs a source"), (dict(from_="a"), ValueError, "'from_' requires"),
            (dict(ablate=["\ud800"]), ValueError, "surrogate")):
        with pytest.raises(error) as raised:
            model.explain(**{"prompt": "a", **arguments})
        assert part in str(raised.value) and "\n" not in str(raised.value)
    assert model.statistics["blocks_in_use"] == 0


def test_concurrent_requests_are_unchanged(model):
    alone = model.generate("ROMEO:", max_tokens=200, seed=2)
    texts = []
    thread = threading.Thread(target=lambda: texts.extend(model.generate(["ROMEO:"] * 2, max_tokens=200, seed=2)))
    thread.start()
    while thread.is_alive():
        model.explain(TEXT, ablate="0.heads")
    thread.join()
    assert texts == [alone] * 2
