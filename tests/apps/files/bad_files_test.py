"""Tests bad files: each kind gives a one-line error and exit code 1, never a signal, an assertion or a hang.

tests/core/formats and tests/data/tokenizers test defects of single fields. This file tests defects that could exhaust
memory, defects of other families than Llama, defects that only a whole model shows, and one defect per kind of file.
RLIMIT_DATA limits the program's memory to 256 MB, not counting file mappings. In sanitized builds, AddressSanitizer
rejects allocations of that size, and only generate is tested, since all programs read files by the same code.
"""

import os
import resource
import subprocess

import pytest

import bad_gguf
import bad_gguf_families
import bad_hugging_face
import bad_llama2c
import sound
from kinds import REFUSES, SHOWS
from support import BUILD, environment

KINDS = [*bad_gguf.KINDS, *bad_gguf_families.KINDS, *bad_hugging_face.KINDS, *bad_llama2c.KINDS]
SANITIZED = os.environ.get("FOLIO_SANITIZE") == "ON"
LIMIT_MB = 256
SECONDS = 120 if SANITIZED else 60  # a longer run counts as a hang, even on a busy machine


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_MB << 20, LIMIT_MB << 20))


def run(program, *args):
    limits = {"ASAN_OPTIONS": f"max_allocation_size_mb={LIMIT_MB}:allocator_may_return_null=0"} if SANITIZED else {}
    done = subprocess.run([str(BUILD / program), *map(str, args)], capture_output=True, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, env=environment("/nonexistent", **limits),
                          preexec_fn=None if SANITIZED else limit_memory)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode("utf-8")


def commands(folder, model, tokenizer):
    """Returns {program: command} for generate, export and inspect. export writes a Hugging Face directory, so that it
    reads the whole model."""
    more = ["--tokenizer", tokenizer] if tokenizer else []
    return {"generate": ["generate", "--json", "-t", 1, "-n", 2, "-m", model, *more, "a"],
            "export": ["export", model, "--out", folder / "out", "--format", "hf", *more], "inspect": ["inspect", model]}


def assert_refused(kind, code, out, err):
    assert code == 1, f"exit code {code}: {err}{out}"
    assert err.endswith("\n") and err.count("\n") == 1, f"not one line: {err}"
    assert kind.phrase in err, err
    assert kind.file in err, f"{kind.file} is not named: {err}"
    assert out == ""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_bad_files_give_one_clear_line(tmp_path, kind):
    model, tokenizer = kind.write(tmp_path)
    calls = commands(tmp_path, model, tokenizer)
    assert_refused(kind, *run(*calls["generate"]))
    if SANITIZED:
        return
    assert_refused(kind, *run(*calls["export"]))
    assert not (tmp_path / "out").exists()
    code, out, err = run(*calls["inspect"])
    if kind.inspect == REFUSES:
        assert_refused(kind, code, out, err)
    else:
        assert (code, err) == (0, ""), err
        assert ("not supported: " in out and kind.phrase in out) == (kind.inspect == SHOWS), out


def sound_models():
    yield "gguf, characters", lambda folder: bad_gguf.write(folder, bad_gguf.character(), None)
    for make in (bad_gguf_families.qwen2, bad_gguf_families.qwen3, bad_gguf_families.qwen3_moe, bad_gguf_families.mixtral):
        yield f"gguf, {make.__name__}", lambda folder, make=make: bad_gguf.write(folder, make(), None)
    yield "gguf, SentencePiece", lambda folder: bad_gguf.write(folder, bad_gguf.sentencepiece(), None)
    for name, make in bad_hugging_face.SOUND.items():
        yield name, lambda folder, make=make: (make().write(folder / "hf"), None)
    for name, make in bad_llama2c.SOUND.items():
        yield name, make


@pytest.mark.parametrize("write", [pytest.param(write, id=name) for name, write in sound_models()])
def test_undamaged_files_are_accepted(tmp_path, write):
    """The models from which bad files are made are valid, so each bad file is rejected only for its defect."""
    model, tokenizer = write(tmp_path)
    for call in commands(tmp_path, model, tokenizer).values():
        code, out, err = run(*call)
        assert code == 0 and "not supported" not in out, f"{call}: {err}{out}"
    assert (tmp_path / "out" / "config.json").exists()


def test_large_context_allocates_lazily(tmp_path):
    model = bad_gguf.character()
    model.key("llama.context_length", sound.U32, 1 << 24)
    path, _ = bad_gguf.write(tmp_path, model, None)
    code, _, err = run("generate", "-m", path, "-n", 4, "a")
    assert code == 0, err


def test_memory_limit_is_effective(tmp_path):
    """A valid model whose 430 MB of weights are repacked when loaded must fail, since it exceeds the memory limit."""
    dim, hidden = 128, 1 << 20
    big = sound.Gguf(sound.Shape(dim=dim))
    big.key("llama.feed_forward_length", sound.U32, hidden)
    end = 0
    for t in big.tensors:
        wide = t.name in ("blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight")
        if wide:
            t.dims, t.kind = [hidden, dim] if "down" in t.name else [dim, hidden], 8
        t.offset, end = end, end + (34 * dim * hidden // 32 if wide else len(t.data))
    head = big.head()
    with (tmp_path / "m.gguf").open("wb") as file:
        file.write(head)
        file.truncate(len(head) + end + big.alignment)  # a sparse file, so all weights are 0
    code, _, err = run("generate", "-m", tmp_path / "m.gguf", "-n", 1, "a")
    assert (code == 1 and "out of memory" in err) or (SANITIZED and code != 0 and "exceeds maximum" in err), err
