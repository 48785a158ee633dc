"""Tests train --init: training continues with a published model's shape, weights and tokenizer."""

import json
import shutil
import subprocess

import gguf
import pytest
import torch
import transformers

from published import loss_by_transformers, publish
from support import (BUILD, FAILED, TEXT, WRONG_USAGE, assert_refused, environment, generate, interrupt, log_of, run,
                     succeed)

END = "<|endoftext|>"
FLAGS = ["--window", "16", "--batch-size", "2", "--lr", "1e-3", "--warmup-steps", "0", "--threads", "1", "--log-every",
         "1", "--checkpoint-every", "2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fine")
    (folder / "cats.txt").write_text(TEXT)
    return folder


@pytest.fixture(scope="module")
def published(home):
    return publish(home / "published", [TEXT[:400], "The captain sat on his hat."], [END], bos_token=END, eos_token=END)


def train(home, *flags):
    return succeed("train", home / "cats.txt", *flags, home=home, errors="replace")


def test_fine_tuning_a_published_model(home, published):
    """The logged validation loss equals that of transformers for the last checkpoint."""
    done = train(home, "--init", published, "--out", home / "r", "--steps", "6", *FLAGS)
    ids = transformers.AutoTokenizer.from_pretrained(published)(TEXT).input_ids
    n_train = int(len(ids) * 0.9 + 1e-6)
    assert f"{n_train} training, {len(ids) - n_train} validation tokens, vocabulary 290" in done.stdout

    checkpoint = home / "r/checkpoints/last"
    assert json.loads((checkpoint / "config.json").read_text())["num_key_value_heads"] == 2
    ours, theirs = (transformers.AutoTokenizer.from_pretrained(folder) for folder in (checkpoint, published))
    assert ours(TEXT).input_ids == theirs(TEXT).input_ids and ours.eos_token_id == theirs.eos_token_id

    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    # Adding fewer than 64 float32 terms in another order changes a loss below 10 by at most 64 * 2^-24 * 10 = 4e-5.
    assert log_of(home / "r")[-1]["val_loss"] == pytest.approx(loss_by_transformers(model, ids[n_train:], 16), abs=1e-4)
    first = log_of(home / "r")[0]["loss"]
    assert log_of(home / "r")[-1]["loss"] < first
    text = generate(home / "r/model.gguf", "-n", "5", "--temp", "0", "The cat", home=home)
    assert text["prompt_tokens"] == ours("The cat").input_ids


def test_checkpoints_keep_the_generation_config(home, published, tmp_path):
    folder, last = shutil.copytree(published, tmp_path / "model"), tmp_path / "r/checkpoints/last"
    ends = [transformers.AutoTokenizer.from_pretrained(folder).eos_token_id, 5]
    transformers.GenerationConfig(do_sample=True, temperature=0.25, eos_token_id=ends).save_pretrained(folder)
    command = [BUILD / "train", home / "cats.txt", "--out", tmp_path / "r"]
    interrupt([*command, "--init", folder, "--steps", "9", *FLAGS], "step 1/", env=environment(home), stderr=subprocess.PIPE)
    for resume in (False, True):
        if resume:
            succeed("train", *command[1:], "--resume", home=home, errors="replace")
        config = transformers.GenerationConfig.from_pretrained(last)
        assert (config.eos_token_id, config.temperature) == (ends, 0.25)
    fields = gguf.GGUFReader(tmp_path / "r/model.gguf").fields
    assert fields["general.sampling.temp"].contents() == 0.25 and fields["tokenizer.ggml.eot_token_id"].contents() == 5


def test_incompatible_options_are_rejected(home, published):
    def refuse(code, *flags, parts):
        done = run("train", home / "cats.txt", "--out", home / "no", *FLAGS, "--steps", "1", *flags, home=home)
        assert_refused(done, code, *parts)
        assert not (home / "no").exists()

    refuse(FAILED, "--init", published, "--layers", "3", parts=["n_layers 2 -> 3"])
    refuse(WRONG_USAGE, "--init", published, "--resume", parts=["--init", "--resume"])
    # A character model has no tokens for characters that its training text didn't contain, such as "T".
    (home / "letters.txt").write_text("abc " * 100)
    succeed("train", home / "letters.txt", "--out", home / "letters", "--steps", "1", "--dim", "16", "--layers", "1",
            *FLAGS, home=home)
    refuse(FAILED, "--init", home / "letters/checkpoints/last", parts=['"T"', "line 1, column 1"])
