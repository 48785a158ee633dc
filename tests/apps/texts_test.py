"""Tests train's inputs (several files, folders, JSON lines, compressed files), and the cache of their tokens."""

import gzip
import itertools
import json

import numpy as np
import pytest
import transformers
from safetensors.numpy import load_file

from support import ACCENTED, FAILED, LONG, SMALL_RUN, TEXT, log_of, run, succeed

END = "<|endoftext|>"
DOCUMENTS = [TEXT, ACCENTED[:900], "One more.\n" * 40, "x"]


def train(home, out, *args):
    succeed("train", *args, "--out", home / out, *SMALL_RUN, "--steps", "2", "--force", home=home, errors="replace")
    return home / out / "checkpoints" / "last"


def batches(home, name, *args):
    out = home / f"{name}.npy"
    return train(home, name, *args, "--dump-batches", out), np.load(out)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "one.txt").write_text(END.join(DOCUMENTS), encoding="utf-8")
    (folder / "lines.jsonl").write_text("".join(json.dumps({"id": i, "body": text}) + "\n" for i, text in
                                                enumerate(DOCUMENTS)), encoding="utf-8")
    (folder / "packed.txt.gz").write_bytes(gzip.compress(END.join(DOCUMENTS).encode()))
    parts = folder / "parts"
    parts.mkdir()
    for i, text in enumerate(DOCUMENTS[:3]):
        (parts / f"{i}.txt").write_text(text, encoding="utf-8")
    (folder / "last.txt").write_text(DOCUMENTS[3], encoding="utf-8")
    return folder


BPE = ["--tokenizer", "bpe:300"]


@pytest.mark.parametrize("tokenizer", [[], BPE] if LONG else [[]], ids=str)
def test_documents_do_not_depend_on_their_files(home, tokenizer):
    """The same documents give the same batches, whichever kind of file stores them. Batches have the documents' tokens
    in order, separated by end tokens."""
    one, expected = batches(home, "a", home / "one.txt", *tokenizer)
    for name, args in [("b", [home / "lines.jsonl", "--field", "body"]), ("c", [home / "packed.txt.gz"]),
                       ("d", [home / "parts", home / "last.txt"])]:
        last, found = batches(home, name, *args, *tokenizer)
        assert np.array_equal(found, expected)
        assert load_file(last / "model.safetensors").keys() == load_file(one / "model.safetensors").keys()
        assert (last / "model.safetensors").read_bytes() == (one / "model.safetensors").read_bytes()
    ours = transformers.AutoTokenizer.from_pretrained(one)
    ids = [ours.eos_token_id] + [i for text in DOCUMENTS for i in [*ours(text).input_ids, ours.eos_token_id]]
    text = " ".join(map(str, ids))
    for row in expected.reshape(-1, expected.shape[-1])[:20]:
        assert " ".join(map(str, row)) in text


@pytest.mark.parametrize("tokenizer", [[], BPE] if LONG else [BPE], ids=str)
def test_token_cache_is_written_once(home, tmp_path, tokenizer):
    args = [home / "one.txt", *tokenizer]
    _, expected = batches(home, "a", *args)
    last, found = batches(tmp_path, "b", *args, "--tokens-cache", tmp_path / "cache")
    assert np.array_equal(found, expected)
    [file] = (tmp_path / "cache").iterdir()
    assert file.name.startswith("tokens-") and file.suffix == ".u16"
    ours = transformers.AutoTokenizer.from_pretrained(last)
    ids = [i for text in DOCUMENTS for i in [*ours(text).input_ids, ours.eos_token_id]][:-1]
    assert np.fromfile(file, dtype="<u2").tolist() == ids
    before = file.stat()
    _, again = batches(tmp_path, "c", *args, "--tokens-cache", tmp_path / "cache")
    assert np.array_equal(again, expected) and file.stat() == before
    train(tmp_path, "d", home / "last.txt", home / "parts", *tokenizer, "--tokens-cache", tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 2, "another order of documents is another text"
    file.write_bytes(b"\xff" * file.stat().st_size)
    done = run("train", *args, "--tokens-cache", tmp_path / "cache", "--out", tmp_path / "e", *SMALL_RUN, home=tmp_path)
    assert done.returncode == FAILED and done.stderr.count("\n") == 1
    assert "token 0 of the training split is 65535, outside the vocabulary of" in done.stderr


@pytest.mark.parametrize("across", ["false", "mask"])
def test_windows_end_at_or_mask_documents(home, across):
    """With --across-documents false, a window ends where its first document ends. With mask, it continues, but tokens
    don't attend to other documents."""
    import torch
    last = train(home, "w", home / "one.txt", "--tokenizer", "bpe:300", "--across-documents", across,
                 "--validation-fraction", "0.4")
    model = transformers.AutoModelForCausalLM.from_pretrained(last, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(last)
    ids = [i for text in DOCUMENTS for i in [*tokenizer(text).input_ids, tokenizer.eos_token_id]][:-1]
    validation = ids[int(0.6 * len(ids)):]
    losses, several = [], 0
    for start in range(0, len(validation) - 16, 16):
        inputs, targets = validation[start:start + 16], validation[start + 1:start + 17]
        ends = [i + 1 for i, target in enumerate(targets) if target == tokenizer.eos_token_id]
        for begin, end in list(itertools.pairwise(sorted({0, *ends, 16})))[:1 if across == "false" else None]:
            with torch.no_grad():
                log_p = model(torch.tensor([inputs[begin:end]])).logits[0].log_softmax(-1)
            losses += [-log_p[i, target].item() for i, target in enumerate(targets[begin:end])]
        several += len(ends) > 0 and ends[0] < 16
    assert log_of(home / "w")[-1]["val_loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    assert several > 0, "a document ends in the validation text"


def test_verify_finds_the_runs_texts(home):
    last = train(home, "v", home / "parts", home / "last.txt")
    done = run("verify", last, home / "v" / "model.gguf", home=home)
    assert done.returncode == 0, done.stderr + done.stdout
    (home / "parts" / "1.txt").rename(home / "gone.txt")
    refused = run("verify", last, home / "v" / "model.gguf", home=home)
    (home / "gone.txt").rename(home / "parts" / "1.txt")
    assert refused.returncode == FAILED and "the text has changed since the checkpoint was trained" in refused.stderr
