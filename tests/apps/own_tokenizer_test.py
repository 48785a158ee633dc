"""Tests train --tokenizer bpe:N: transformers and tokenizers give the same ids as the trained tokenizer."""

import json
import re
import shutil
import subprocess

import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from support import ACCENTED, BUILD, FAILED, SMALL_RUN, TEXT, WRONG_USAGE, assert_refused, run, succeed

BOOK = (TEXT + ACCENTED) * 3
HIDDEN = "The sly owl sat 12 times on l'œuvre  中文,\n\n😀 it's!"


def train(home, *flags):
    return succeed("train", home / "book.txt", "--out", home / "run", *SMALL_RUN, *flags, home=home, errors="replace").stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "book.txt").write_text(BOOK, encoding="utf-8")
    train(folder, "--tokenizer", "bpe:350", "--steps", 4, "--checkpoint-every", 2)
    return folder


def test_merges_are_learned_from_the_training_split(home):
    expected = Tokenizer(models.BPE())
    expected.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    part = BOOK.encode()[:int(0.9 * len(BOOK.encode()))]
    text = part.decode("utf-8", errors="ignore")
    text = BOOK[:re.compile(r"(?<=\w)\s").search(BOOK, len(text)).start()]  # the training split ends at the end of a word
    expected.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=350, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    ids = expected.encode(HIDDEN).ids
    for step in ("best", "last"):
        ours = transformers.AutoTokenizer.from_pretrained(home / "run" / "checkpoints" / step)
        assert ours(HIDDEN).input_ids == ids and ours.decode(ids) == HIDDEN and len(ours) == 350
    assert [int(i) for i in subprocess.run([BUILD / "tokenize", "encode", "-t", home / "run" / "model.gguf"],
                                           input=HIDDEN, capture_output=True, text=True, check=True).stdout.split()] == ids


def test_tokenizer_from_a_file(home, tmp_path):
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    said = train(tmp_path, "--tokenizer", home / "run" / "checkpoints" / "last" / "tokenizer.json", "--steps", 2)
    assert "vocabulary 350" in said and "bits per byte" in said
    assert ((tmp_path / "run" / "checkpoints" / "last" / "tokenizer.json").read_bytes()
            == (home / "run" / "checkpoints" / "last" / "tokenizer.json").read_bytes())


def test_a_tokenizer_that_gguf_cannot_store_is_refused_before_training(home, tmp_path):
    tokenizer = home / "run" / "checkpoints" / "last" / "tokenizer.json"
    data = json.loads(tokenizer.read_text())
    data["model"]["ignore_merges"] = True
    data["model"]["merges"].pop()  # so the last token is made only by ignore_merges
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    shutil.copy(tokenizer.with_name("tokenizer_config.json"), tmp_path)
    done = run("train", home / "book.txt", "--out", tmp_path / "run", *SMALL_RUN, "--steps", 2,
               "--tokenizer", tmp_path, home=home)
    assert_refused(done, FAILED, "GGUF has no name for this pre-tokenizer")
    assert not (tmp_path / "run").exists()


def test_errors_are_one_line(home, tmp_path):
    def refused(name, code, *parts):
        out = tmp_path / "run"
        assert_refused(run("train", home / "book.txt", "--out", out, *SMALL_RUN, "--tokenizer", name, home=home), code, *parts)
        assert not out.exists()
    assert_refused(run("tokenize", "train", home / "book.txt", "-o", tmp_path / "tokenizer_config.json"), WRONG_USAGE, "--out")
    assert_refused(run("tokenize", "train", home / "book.txt", "-o", home / "book.txt/t.json"), FAILED, "create the folder")
    assert_refused(run("tokenize", "train", "none.txt", "-o", tmp_path / "new/t.json"), FAILED, "none.txt")
    assert not (tmp_path / "new").exists()
    refused("bpe:many", WRONG_USAGE, "bpe:N")
    refused("bpe:100", FAILED, "too small", "257")
    refused(tmp_path / "none.json", FAILED, "none.json")
