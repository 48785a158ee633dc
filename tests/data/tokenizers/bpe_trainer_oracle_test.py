"""Compares `tokenize train` with Hugging Face's BpeTrainer: same vocabulary and merges, including ties. `make long`
also trains larger vocabularies."""

import gzip
import json
import os
import random
import subprocess
import sysconfig
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from tokenizer_support import LONG, PRE_TOKENIZERS

BUILD = Path(os.environ["FOLIO_BUILD_DIR"])
END = "<|endoftext|>"


def theirs(documents, vocab_size, kind):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[kind]()
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def tokenize(*args, code=0, text=None):
    done = subprocess.run([BUILD / "tokenize", *map(str, args)], capture_output=True, text=True, input=text, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def learned(file):
    model = json.loads(Path(file).read_text())["model"]
    return model["vocab"], [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]


def corpora():
    rng = random.Random(1)

    def zipf(words, n):
        return rng.choices(words, [1 / (i + 1) for i in range(len(words))], k=n)
    english = (BUILD.parent / "data" / "tinyshakespeare" / "input.txt")
    chinese = ["".join(chr(rng.randrange(0x4E00, 0x5058)) for _ in range(rng.randrange(1, 4))) for _ in range(1500)]
    russian = ["".join(rng.choices("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё", [1 / (i + 3) for i in range(33)],
                                   k=rng.randrange(1, 9))) for _ in range(3000)]
    code = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:8]
    made = {
        "chinese": ["。".join(zipf(chinese, 20000))],
        "russian": [" ".join(zipf(russian, 20000))],
        "code": ["\n".join(path.read_text(encoding="utf-8") for path in code)],
        "emoji": [" ".join(rng.choices(["😀", "👍🏽", "👨‍👩‍👧", "🇨🇭", "❤️", "ok", "🔥🔥", "e\u0301"], k=3000))],
        "random": ["".join(chr(c) for c in (rng.randrange(1, 0x11000) for _ in range(20000)) if not 0xD800 <= c < 0xE000)],
        "one line": ["".join(rng.choices("ab", k=20000)) + "=" * 3000 + "aaaa" * 1000],
        "empty lines": ["", "\n\n\n", " \n \n", "a\n\n\nb", "\r\n\r\n", "It's  5 o'clock,  1234567 'S\n"] * 3,
    }
    if english.exists():
        made["english"] = english.read_text(encoding="utf-8").split("\n\n")
    return made


CORPORA = corpora()


@pytest.mark.parametrize("kind", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
@pytest.mark.parametrize("name", CORPORA)
def test_merges_match_bpe_trainer(name, kind, tmp_path):
    documents = CORPORA[name]
    lines = tmp_path / "texts.jsonl"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    for vocab_size in (300, 3000, 32000) if LONG else (300, 3000):
        out = tmp_path / f"{vocab_size}" / "tokenizer.json"
        shown = tokenize("train", lines, "--vocab-size", vocab_size, "--pre-tokenizer", kind, "-o", out)
        expected = theirs(documents, vocab_size, kind)
        texts = [expected.normalizer.normalize_str(text) if expected.normalizer else text for text in documents]
        words = {word for text in texts for word, _ in expected.pre_tokenizer.pre_tokenize_str(text)}
        assert f"{sum(len(text.encode()) for text in documents)} bytes of text, {len(words)} distinct words" in shown
        expected.save(str(tmp_path / "theirs.json"))
        assert learned(out) == learned(tmp_path / "theirs.json")
        # The package tokenizers must encode new text to the same ids with Folio's file as with the one that it trained.
        hidden = "Nobody's seen  this: Щука 漢字 12345\n\n\t👍🏽 e\u0301!" + documents[-1][:200]
        ids = Tokenizer.from_file(str(out)).encode(hidden).ids
        assert ids == expected.encode(hidden).ids
        if kind != "qwen2":  # qwen2 normalizes, which decoding doesn't undo
            assert tokenize("decode", "-t", out, *ids) == hidden
        (tmp_path / "hidden.txt").write_text(hidden, encoding="utf-8", newline="")
        assert [int(i) for i in tokenize("encode", "-t", out, tmp_path / "hidden.txt").split()] == ids


def test_documents_from_all_file_types(tmp_path):
    documents = CORPORA["russian"] + ["One.\n\nTwo. " * 500, "three " * 300]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text(END.join(documents[:2]), encoding="utf-8")
    with gzip.open(folder / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write(documents[2] + END)
    with gzip.open(tmp_path / "c.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n" + json.dumps({"id": 1, "content": documents[0]}) + "\n")
    out = tmp_path / "tokenizer.json"
    tokenize("train", folder, tmp_path / "c.jsonl.gz", "--field", "content", "--vocab-size", 1000, "-o", out)
    theirs(documents + documents[:1], 1000, "gpt-2").save(str(tmp_path / "theirs.json"))
    assert learned(out) == learned(tmp_path / "theirs.json")
    shown = tokenize("stats", "-t", out, folder)
    n_bytes = sum(len(text.encode()) for text in documents)
    ids = [Tokenizer.from_file(str(out)).encode(text).ids for text in documents]
    assert f"{n_bytes} bytes, {sum(map(len, ids))} tokens" in shown
    assert f"{1000 - len({i for one in ids for i in one})} tokens\n" in shown


def test_errors_are_one_line(tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"good\n\xff\xfe")
    out = tmp_path / "tokenizer.json"
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"body": "b"}\n')
    (tmp_path / "bad.gz").write_bytes(gzip.compress(b"text" * 1000)[:-20])
    (tmp_path / "empty").mkdir()
    for args, parts in [((text,), ["text.txt", "UTF-8"]), ((tmp_path / "none.txt",), ["none.txt", "not exist"]),
                        ((tmp_path / "bad.jsonl",), ["bad.jsonl", "line 2", "text"]),
                        ((tmp_path / "bad.gz",), ["bad.gz", "decompress"]), ((tmp_path / "empty",), ["no files"])]:
        error = tokenize("train", *args, "-o", out, code=1)
        assert error.count("\n") == 1 and all(part in error for part in parts), error
        assert not out.exists()
    text.write_text("good")
    assert "258" in tokenize("train", text, "--vocab-size", 257, "--special", "<a>", "--special", "<b>", "-o", out, code=1)
    text.write_text("hello world hello")
    # A byte, a byte as spelled in files, a merge, a merge as spelled in files, and no UTF-8.
    for special in ("a", "Ġ", "el", "Ġhello", os.fsdecode(b"\xff")):
        error = tokenize("train", text, "--vocab-size", 300, "--special", "<e>", "--special", special, "-o", out, code=1)
        assert error.count("\n") == 1 and "--special" in error and not out.exists(), error
    out.write_text("kept")
    assert "--force" in tokenize("train", text, "-o", out, code=1) and out.read_text() == "kept"
    tokenize("train", text, "--vocab-size", 257, "-o", out, "--force")
    assert "ids 0 to 256" in tokenize("decode", "-t", out, 257, code=1)
    for end in ("99999999999", "-", "x"):
        assert "after 1 ids" in tokenize("decode", "-t", out, text=f"5 {end}", code=1)
    assert tokenize("decode", "-t", out, text="1 2") == tokenize("decode", "-t", out, 1, 2)
