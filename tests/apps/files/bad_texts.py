"""Lists bad texts: prompt files, files that aren't tokenizers, and paths without a model."""

import json
import os

import bad_gguf
import sound
from kinds import PASSES, REFUSES, Kind, write_file

MiB = 1 << 20


def prompts(data):
    """Returns a function that writes a valid model, and a prompt file with the bytes `data`."""
    def write(folder):
        write_file(folder / "prompts.txt", data)
        return bad_gguf.write(folder, bad_gguf.character(), None)
    return write


def sound_prompts(folder):
    return prompts(b"a\nab\n\xc3\xa9\n\n")(folder)


def tokenizer(data):
    def write(folder):
        (folder / "t.any").write_bytes(data)
        return bad_gguf.write(folder, bad_gguf.character(), None)[0], folder / "t.any"
    return write


def model(make):
    def write(folder):
        make(folder / "m")
        return folder / "m", None
    return write


KINDS = [Kind(f"prompts: {name}", phrase, prompts(data), "prompts.txt", prompts="prompts.txt") for name, phrase, data in [
    ("empty lines", "no prompts found", b"\n\n\n"),
    ("byte that is no UTF-8", "prompts.txt:2: the text: invalid UTF-8 at line 1, column 2", b"a\na\xffb\n"),
    ("character that is not in the vocabulary", 'the character "z" (U+007A)', b"a\nz\n"),
    ("prompt longer than the context", "prompts.txt:3: the prompt has 17 tokens", b"a\n\n" + b"a" * 17),
    ("prompt of ten megabytes", "expected at most 16 (the context)", b"a" * (10 * MiB)),
    ("300 megabytes of zeros", "more than the limit of 67108864", (b"", 300 * MiB)),
]]

KINDS += [Kind(f"--tokenizer: {name}", phrase, tokenizer(data), "t.any", PASSES) for name, phrase, data in [
    ("text", "not a supported tokenizer", b"once upon a time"),
    ("a model without a tokenizer", "tokenizer.ggml.model is missing", sound.Gguf().pack()),
    ("JSON of something else", '"model" is missing', json.dumps({"vocab_size": 3}).encode()),
]]

KINDS += [Kind(f"model: {name}", phrase, model(make), "m", REFUSES) for name, phrase, make in [
    ("missing", "No such file", lambda path: None), ("empty file", "is an empty file", lambda path: path.write_bytes(b"")),
    ("empty directory", "config.json: no such file", lambda path: path.mkdir()),
    ("link to itself", "Too many levels of symbolic links", lambda path: path.symlink_to(path)),
    ("pipe", "is not a regular file", os.mkfifo),
    ("four bytes", "4 bytes, too few", lambda path: path.write_bytes(b"ak42")),
    ("a GGUF's first word alone", "the version needs 4 bytes", lambda path: path.write_bytes(b"GGUF")),
]]
