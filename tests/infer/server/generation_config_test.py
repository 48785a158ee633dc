"""Tests default sampling options of models: a generation_config.json written by transformers, or the keys
general.sampling.* of a GGUF written by the gguf package. With them, generate, chat and serve have the same outputs
as with these values as flags."""

import json
import re
import shutil
import urllib.request

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

import sound
from chat_model import write_chat_model
from support import FAILED, HANG, assert_refused, export, generate, one_json, run, succeed
from wire import post

VALUES = {"temperature": 0.3, "top_p": 0.5, "top_k": 7, "min_p": 0.01, "repetition_penalty": 1.3}
FLAGS = ["--generation-config", "none", "--temp", 0.3, "--top-p", 0.5, "--top-k", 7, "--min-p", 0.01,
         "--repeat-penalty", 1.3, "--repeat-last-n", 2**31 - 1]
SHORT = ["-n", 24, "-s", 5, "-t", 1]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Writes a chat model as a Hugging Face directory without generation_config.json and as a GGUF. Returns both
    paths."""
    home = tmp_path_factory.mktemp("plain")
    file = write_chat_model(home / "chat.gguf")
    folder = export(file, home / "hf", "--format", "hf")
    (folder / "generation_config.json").unlink(missing_ok=True)
    return folder, file


def model_with(plain, tmp_path, text=None, **values):
    """Copies the directory of `plain` and adds a generation_config.json: `text`, or what transformers writes for
    `values`. Returns the folder."""
    folder = tmp_path / "model"
    shutil.copytree(plain[0], folder)
    if text is not None:
        (folder / "generation_config.json").write_text(text)
    elif values:
        GenerationConfig(**values).save_pretrained(folder)
    return folder


def texts_of(model, *flags):
    chat = one_json(succeed("chat", "--json", "-m", model, "-p", "hello", *SHORT, *flags).stdout)
    return generate(model, "-p", "hello", *SHORT, *flags)["tokens"], chat["tokens"]


def test_generation_config_sets_the_defaults(plain, tmp_path):
    folder = model_with(plain, tmp_path, do_sample=True, **VALUES)
    expected = texts_of(plain[0], *FLAGS)
    assert texts_of(folder) == expected != texts_of(folder, "--generation-config", "none") == texts_of(plain[0])
    assert texts_of(plain[0], "--generation-config", folder) == expected
    # A flag overrides the file's value.
    assert texts_of(folder, "--temp", 0) == texts_of(plain[0], *FLAGS[:2], "--temp", 0, *FLAGS[4:]) != expected
    said = succeed("generate", "--json", "-m", folder, "-p", "hello", *SHORT).stderr
    assert f"(from {folder / 'generation_config.json'})" in said and "temperature 0.3, top_k 7, top_p 0.5" in said
    assert re.search(r"repeat_last_n 2147483647\b", said)
    assert "sampling:" not in succeed("generate", "--json", "-m", plain[0], "-p", "hello", *SHORT).stderr


def test_gguf_stores_defaults_like_llama_cpp(plain, tmp_path):
    folder = model_with(plain, tmp_path, do_sample=True, **VALUES)
    file = export(folder, tmp_path / "model.gguf")
    fields = gguf.GGUFReader(file).fields
    keys = gguf.Keys.General
    found = {key: (fields[key].types[0], fields[key].contents()) for key in fields if key.startswith("general.sampling.")}
    number, whole = gguf.GGUFValueType.FLOAT32, gguf.GGUFValueType.INT32
    assert found == {keys.SAMPLING_TEMP: (number, pytest.approx(0.3)), keys.SAMPLING_TOP_P: (number, 0.5),
                     keys.SAMPLING_MIN_P: (number, pytest.approx(0.01)), keys.SAMPLING_TOP_K: (whole, 7),
                     keys.SAMPLING_PENALTY_REPEAT: (number, pytest.approx(1.3)), keys.SAMPLING_PENALTY_LAST_N: (whole, -1)}
    assert texts_of(file) == texts_of(plain[0], *FLAGS)
    assert texts_of(file, "--generation-config", "none") == texts_of(plain[0])
    back = GenerationConfig.from_pretrained(export(file, tmp_path / "back", "--format", "hf"))
    assert {name: getattr(back, name) for name in VALUES} == pytest.approx(VALUES)


def test_eos_tokens_end_generation_like_transformers(plain, tmp_path):
    torch.set_num_threads(1)  # more threads would wait for one another while other tests use the cores
    prompt = generate(plain[0], "-p", "hello", "-n", 0)["prompt_tokens"]
    greedy = generate(plain[0], "-p", "hello", "-n", 24, "--temp", 0, "-t", 1)["tokens"]
    late = next(t for t in greedy if greedy.index(t) >= 4)
    for ends in (late, [greedy[-1], late], [late]):
        folder = model_with(plain, tmp_path / str(ends), eos_token_id=ends)
        ours = generate(folder, "-p", "hello", "-n", 24, "--temp", 0, "-t", 1)
        model = AutoModelForCausalLM.from_pretrained(folder)
        theirs = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24)[0, len(prompt):].tolist()
        assert ours["finish_reason"] == "stop" and ours["tokens"] + [theirs[-1]] == theirs and len(theirs) < 24
        assert generate(folder, "-p", "hello", "-n", 24, "--temp", 0, "-t", 1, "--generation-config", "none")["tokens"] == greedy
    # Both exports keep the second end token. A GGUF stores it as the end-of-turn token.
    assert late in GenerationConfig.from_pretrained(export(folder, tmp_path / "again", "--format", "hf")).eos_token_id
    file = export(folder, tmp_path / "model.gguf")
    assert gguf.GGUFReader(file).fields["tokenizer.ggml.eot_token_id"].contents() == late
    assert generate(file, "-p", "hello", "-n", 24, "--temp", 0, "-t", 1)["finish_reason"] == "stop"


def test_config_json_is_the_fallback_for_eos(plain, tmp_path):
    folder = model_with(plain, tmp_path)
    greedy = generate(folder, "-p", "hello", "-n", 24, "--temp", 0, "-t", 1)["tokens"]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": [config["eos_token_id"], greedy[5]]}))
    assert generate(folder, "-p", "hello", "-n", 24, "--temp", 0, "-t", 1)["tokens"] == greedy[:greedy.index(greedy[5])]


def test_server_and_page_use_the_defaults(plain, tmp_path, start):
    server = start(model=model_with(plain, tmp_path, do_sample=True, **VALUES))
    other = start("--generation-config", "none", model=plain[0])
    said = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 24, "seed": 5}
    prompt = {"prompt": "hello", "max_tokens": 24, "seed": 5}
    for path, body in (("/v1/chat/completions", said), ("/v1/completions", prompt)):
        text = lambda s, **more: [c.get("text") or c["message"]["content"] for c in  # noqa: E731
                                  post(s, path, {**body, **more})[1]["choices"]]
        assert text(server) == text(other, **VALUES) != text(other)
        assert text(server, temperature=0) == text(other, **{**VALUES, "temperature": 0})
        assert text(server, **{name: None for name in VALUES}) == text(server)
    page = urllib.request.urlopen(server.url, timeout=HANG).read().decode()
    fields = json.loads(re.search(r">(\{\"temperature\".*?\})</", page).group(1))
    assert {name: fields[name]["default"] for name in VALUES} == VALUES
    described = json.load(urllib.request.urlopen(server.url.rstrip("/") + "/openapi.json", timeout=HANG))
    for request in ("CompletionRequest", "ChatRequest", "ResponseRequest"):
        assert described["components"]["schemas"][request]["properties"]["top_k"]["default"] == 7, request
    made = post(server, "/v1/responses", {"input": "hello", "max_output_tokens": 2})[1]
    assert (made["temperature"], made["top_p"]) == (VALUES["temperature"], VALUES["top_p"])


INVALID = [
    ("temperature", -1, "[0, 100]"), ("temperature", "hot", "a number"), ("top_p", 1.5, "[0, 1]"), ("top_p", [0.5], "a number"),
    ("top_k", 2.5, "an integer"), ("top_k", -2, "[-1,"), ("min_p", True, "a number"), ("repetition_penalty", 0, "[0.001, 100]"),
    ("eos_token_id", 10**6, "the vocabulary has IDs 0 to"), ("eos_token_id", [1, "x"], "the vocabulary"),
    ("eos_token_id", {"a": 1}, "the vocabulary"), ("eos_token_id", -1, "the vocabulary")]


@pytest.mark.parametrize("field, value, part, program", [
    *((*case, "generate") for case in INVALID), *((*INVALID[0], program) for program in ("chat", "serve", "export"))])
def test_invalid_value_errors_name_file_field_and_remedy(plain, tmp_path, field, value, part, program):
    folder = model_with(plain, tmp_path, json.dumps({field: value}))
    flags = {"serve": ["--port", 0], "export": [folder, "--out", tmp_path / "out.gguf"]}.get(program, ["-p", "hello", "-n", 1, "--json"])
    done = run(program, *([] if program == "export" else ["-m", folder]), *flags)
    assert_refused(done, FAILED, folder / "generation_config.json", field, part, "correct it")
    if program == "generate":
        succeed(program, "-m", folder, *flags, "--generation-config", "none")


@pytest.mark.parametrize("text, part", [("[]", "not a JSON object"), ("{", "generation_config.json"), ("", "generation_config.json")])
def test_invalid_files_are_rejected(plain, tmp_path, text, part):
    folder = model_with(plain, tmp_path, text)
    assert_refused(run("generate", "-m", folder, "-p", "hello"), FAILED, folder, part)


def test_directories_without_the_file_are_rejected(plain, tmp_path):
    done = run("generate", "-m", plain[1], "-p", "hello", "--generation-config", tmp_path)
    assert_refused(done, FAILED, tmp_path, "generation_config.json", "auto, none")


@pytest.mark.parametrize("key, kind, value, part", [
    ("temp", sound.F32, -1.0, "temperature is -1, but must be in [0, 100]"), ("temp", sound.F32, float("nan"), "a finite number"),
    ("top_p", sound.U32, 2, "general.sampling.top_p"), ("top_k", sound.STRING, "x", "general.sampling.top_k")])
def test_invalid_gguf_values_are_rejected(tmp_path, key, kind, value, part):
    model = sound.Gguf(sound.Shape())
    model.key(f"general.sampling.{key}", kind, value)
    (tmp_path / "model.gguf").write_bytes(model.pack())
    assert_refused(run("generate", "-m", tmp_path / "model.gguf", "-p", "ab"), FAILED, tmp_path / "model.gguf", part)


@pytest.mark.parametrize("last_n, all_of_them", [(3, 3), (0, 0), (-1, 2**31 - 1)])
def test_gguf_penalty_window_is_used(tmp_path, last_n, all_of_them):
    model = sound.Gguf(sound.Shape())
    (tmp_path / "plain.gguf").write_bytes(model.pack())
    model.key("general.sampling.penalty_repeat", sound.F32, 5.0)
    model.key("general.sampling.penalty_last_n", sound.I32, last_n)
    (tmp_path / "model.gguf").write_bytes(model.pack())
    assert generate(tmp_path / "model.gguf", "-p", "ab", *SHORT)["tokens"] == generate(
        tmp_path / "plain.gguf", "-p", "ab", *SHORT, "--repeat-penalty", 5, "--repeat-last-n", all_of_them)["tokens"]


@pytest.mark.parametrize("last_n, is_kept, warns", [(0, False, False), (3, True, True), (None, True, True), (-1, True, False)])
def test_export_keeps_or_reports_the_window_of_the_penalty(tmp_path, last_n, is_kept, warns):
    model = sound.Gguf(sound.Shape(context=100))  # more than the default window of 64
    model.key("general.sampling.penalty_repeat", sound.F32, 1.5)
    if last_n is not None:
        model.key("general.sampling.penalty_last_n", sound.I32, last_n)
    (tmp_path / "model.gguf").write_bytes(model.pack())
    done = succeed("export", tmp_path / "model.gguf", "--out", tmp_path / "hf", "--format", "hf")
    assert ("repeat_last_n" in done.stderr) == warns
    assert ("repetition_penalty" in json.loads((tmp_path / "hf/generation_config.json").read_text())) == is_kept


def test_exported_greedy_defaults_run_in_transformers(plain, tmp_path):
    torch.set_num_threads(1)
    out = export(model_with(plain, tmp_path, '{"temperature": 0.0}'), tmp_path / "out", "--format", "hf")
    ids = AutoModelForCausalLM.from_pretrained(out).generate(torch.tensor([[1, 2]]), max_new_tokens=2)
    assert ids.shape[1] > 2 and GenerationConfig.from_pretrained(out).do_sample is False


def test_other_keys_and_nulls_are_ignored(plain, tmp_path):
    """Tests keys of the files of Llama 3, Qwen 2.5 and GLM-4."""
    folder = model_with(plain, tmp_path, json.dumps({
        "_from_model_config": True, "bos_token_id": 1, "pad_token_id": 2, "do_sample": True, "eos_token_id": [2, 3],
        "max_length": 4096, "temperature": None, "top_k": -1, "top_p": 0.9, "transformers_version": "4.42.3"}))
    assert generate(folder, "-p", "hello", "-n", 3, "-s", 1, "-t", 1)["tokens"]
