"""Tests --speculate, --draft and --draft-model: outputs don't depend on the draft tokens."""

import re

import pytest

from chat_model import PIECES, write_chat_model
from support import FAILED, GOLDEN, WRONG_USAGE, assert_refused, generate, run, succeed


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Returns {name: file} of the target model "model" and of draft models."""
    folder = tmp_path_factory.mktemp("models")
    return {"model": write_chat_model(folder / "model.gguf", context=160),
            "module": write_chat_model(folder / "module.gguf", context=160, ahead=True),
            "one layer": write_chat_model(folder / "one_layer.gguf", context=96, layers=1),
            "other tokens": write_chat_model(folder / "other_tokens.gguf", pieces=[*PIECES[:-2], PIECES[-1], PIECES[-2]])}


@pytest.mark.parametrize("flags", [("--temp", 0, "-n", 60), ("-s", 4, "-n", 150, "-c", 64, "--slide", "--stop", "er")])
def test_speculation_does_not_change_outputs(models, flags):
    for name, drafts in (("model", [[], ["--draft-model", models["one layer"]]]),
                         ("module", [[], ["--draft", "ngram"], ["--draft", "model", "--draft-model", models["model"]]])):
        expected = generate(models[name], "-p", "hello world, hello", *flags)
        for draft in drafts:
            got = generate(models[name], "-p", "hello world, hello", *flags, "--speculate", 5, *draft)
            for key in ("prompt_tokens", "tokens", "text", "finish_reason"):
                assert got[key] == expected[key], f"{key} of {name} with {draft}"


def test_auto_uses_the_module(models):
    """By default, a model with an MTP module drafts with it. Using a draft model instead requires --draft model."""
    flags = ["generate", "-p", "hello", "-n", 100, "--temp", 0, "--speculate", 5, "-m"]

    def all_are_right(*draft):  # compares two counts of a run, as both vary with step times
        right, tried = re.search(r"(\d+) of (\d+) draft tokens accepted", succeed(*flags, *draft).stderr).groups()
        return right == tried
    itself = ["--draft-model", models["module"]]  # the model drafts for itself, so all drafts are right
    assert not any(all_are_right(models["module"], *draft) for draft in (["--draft", "mtp"], []))
    refused = run("generate", "-m", models["module"], "-p", "hello", "--speculate", 5, *itself)
    assert_refused(refused, WRONG_USAGE, "--draft-model is unused", "--draft model")
    assert all_are_right(models["module"], "--draft", "model", *itself)
    assert all_are_right(models["model"], "--draft-model", models["model"])


def test_sources_that_are_absent_are_rejected(models):
    flags = ["generate", "-p", "hello", "-n", 3, "-m", models["model"]]
    with_drafts = [*flags, "--speculate", 4]
    assert_refused(run(*with_drafts, "--draft", "mtp"), FAILED, models["model"], "no module", "--draft ngram")
    assert_refused(run(*with_drafts, "--draft", "model"), WRONG_USAGE, "--draft-model PATH")
    assert_refused(run(*with_drafts, "--draft", "ngram", "--draft-model", models["model"]), WRONG_USAGE, "unused")
    assert_refused(run(*with_drafts, "--draft", "beam"), WRONG_USAGE, "--draft")
    assert_refused(run(*flags, "--draft", "ngram"), WRONG_USAGE, "--speculate")
    assert_refused(run(*flags, "--draft-model", models["model"]), WRONG_USAGE, "--speculate")
    assert_refused(run(*with_drafts, "--draft-model", GOLDEN), FAILED, GOLDEN, models["model"], "same vocabulary")
    assert_refused(run(*with_drafts, "--draft-model", models["other tokens"]), FAILED, f"token {len(PIECES) - 2} is",
                   models["other tokens"], models["model"], "same vocabulary")
