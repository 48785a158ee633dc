"""Tests that truncated files are rejected, at every length, in one process. gguf_hostile_test.cpp tests GGUFs."""

import subprocess

import pytest

import bad_hugging_face
import bad_llama2c
import sound
from support import BUILD


def hugging_face(folder, make, file):
    path = make().write(folder / "hf")
    return ("tokenizer" if file.startswith("tokenizer") else "model"), path, path / file, 0


def llama2c(folder, version):
    path, _ = bad_llama2c.write(folder, sound.Llama2c(version), None)
    return "model", path, path, 0


def tokenizer_bin(folder):
    path = bad_llama2c.write_tokenizer(folder, sound.TokenizerBin(), None)[1]
    return "tokenizer", path, path, len(sound.PIECES)


HF = bad_hugging_face
FILES = {
    "safetensors": lambda f: hugging_face(f, HF.single, "model.safetensors"),
    "first shard": lambda f: hugging_face(f, HF.sharded, HF.ONE), "last shard": lambda f: hugging_face(f, HF.sharded, HF.TWO),
    "index": lambda f: hugging_face(f, HF.sharded, HF.INDEX), "config.json": lambda f: hugging_face(f, HF.single, "config.json"),
    "character tokenizer.json": lambda f: hugging_face(f, HF.single, "tokenizer.json"),
    "SentencePiece tokenizer.json": lambda f: hugging_face(f, HF.sentencepiece, "tokenizer.json"),
    "tokenizer_config.json": lambda f: hugging_face(f, HF.sentencepiece, "tokenizer_config.json"),
    "llama2.c version 0": lambda f: llama2c(f, 0), "llama2.c version 1": lambda f: llama2c(f, 1),
    "llama2.c version 2": lambda f: llama2c(f, 2), "tokenizer.bin": tokenizer_bin,
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FILES.items()])
def test_every_truncation_is_rejected(tmp_path, make):
    arguments = make(tmp_path)
    done = subprocess.run([BUILD / "tests/truncation_tool", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", f"read after these cuts: {done.stdout}"
    assert arguments[2].stat().st_size == 0
