"""Tests generate --prompts: the prompts of a file run as one batch and give the same outputs as single prompts."""

import os

import pytest

from chat_model import write_chat_model
from support import FAILED, assert_refused, generate, one_json, run, succeed

PROMPTS = ["hello", "o", "hello world, hello world, hello", "é 中文 😀", "  two spaces", "hello", "{braces} \\n \"quotes\""]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("model") / "model.gguf", template=None, context=96)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    path.write_text("\r\n\r\n".join(PROMPTS), encoding="utf-8")  # generate skips empty lines
    return path


@pytest.mark.parametrize("flags", [("-s", 4, "-n", 200, "--stop", "e"), ("-s", 5, "-n", 100, "-c", 64, "--slide"),
                                   ("-s", 6, "-n", 30, "--repeat-penalty", 1.3, "--top-k", 20)])
def test_batch_matches_single_prompts(model, file, flags):
    command = ["--json", "-m", model, "--prompts", file, *flags]
    batch, threads = (one_json(succeed("generate", *command, "-t", n).stdout) for n in (1, 2))
    assert batch["results"] == threads["results"]
    assert len(batch["results"]) == len(PROMPTS)
    for prompt, result in zip(PROMPTS, batch["results"]):
        alone = generate(model, "-p", prompt, *flags, "-t", 1)
        assert result == {key: alone[key] for key in result}, prompt


def test_plain_output_lists_the_texts(model, file):
    flags = ["-m", model, "-s", 1, "-n", 10, "--temp", 0, "--prompts", file]
    texts = [r["text"] for r in one_json(succeed("generate", "--json", *flags).stdout)["results"]]
    assert succeed("generate", *flags).stdout == "\n".join(p + t + "\n" for p, t in zip(PROMPTS, texts))
    assert succeed("generate", "--no-echo", *flags).stdout == "\n".join(t + "\n" for t in texts)


@pytest.mark.parametrize("data, parts", [
    (b"\n\n\n", ["no prompts found"]), (b"a\na\xffb\n", [":2: the text: invalid UTF-8 at line 1, column 2"]),
    (b"a\nz%\n", [":2: ", 'the character "%" (U+0025)']), (b"a\n\n" + b"a" * 257, [":3: the prompt has 257 tokens"]),
    (b"a" * (10 << 20), ["expected at most 256 (the context)"]), (None, ["more than the limit of 67108864"])],
    ids=lambda data: str(data)[:20])
def test_bad_files_are_rejected(golden_gguf, tmp_path, data, parts):
    path = tmp_path / "prompts.txt"
    path.write_bytes(data or b"")
    if data is None:
        os.truncate(path, 300 << 20)  # a sparse file
    assert_refused(run("generate", "-m", golden_gguf, "--prompts", path), FAILED, path, *parts)
