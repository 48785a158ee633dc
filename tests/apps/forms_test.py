"""Tests structured output of generate: Python's re and json accept it. Invalid expressions give a one-line error."""

import json
import re

import jsonschema
import pytest

from support import FAILED, SMOLLM2, WRONG_USAGE, assert_refused, generate, run

LINE = r"[A-Z]+: [a-z ]{1,20}\."
PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
          "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                         "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
                         "owner": {"type": "boolean"}}}


@pytest.fixture
def person(tmp_path):
    file = tmp_path / "person.json"
    file.write_text(json.dumps(PERSON), encoding="utf-8")
    return file


def test_character_model_follows_a_regex(golden_gguf):
    texts = set()
    for seed in range(8):
        result = generate(golden_gguf, "--regex", LINE, "--seed", seed, "--temp", 1.0, "-n", 200, "-t", 1, "ROMEO:\n")
        assert re.fullmatch(LINE, result["text"]) and result["finish_reason"] == "stop", result["text"]
        texts.add(result["text"])
    assert len(texts) > 5


def test_output_is_one_of_the_choices(golden_gguf):
    flags = ["--choice", "Romeo", "--choice", "Romeo and Juliet", "--choice", "no one", "-t", 1]
    for seed in range(5):
        assert generate(golden_gguf, *flags, "--seed", seed, "Who? ")["text"] in ("Romeo and Juliet", "no one")
    best = generate(golden_gguf, *flags, "--beams", 3, "--beams-out", 3, "Who? ")["beams"]
    # "Romeo" also begins "Romeo and Juliet", so only the end token could complete the choice "Romeo". Character models
    # never sample the end token.
    assert {beam["text"] for beam in best} == {"Romeo and Juliet", "no one", ""}
    assert [beam["finish_reason"] for beam in best] == ["stop", "stop", "form"]


def test_llama_cpp_grammar(golden_gguf, tmp_path):
    file = tmp_path / "list.gbnf"
    file.write_text('root ::= item{2,3} "end."\nitem ::= "- " [a-z]{1,8} "\\n"\n', encoding="utf-8")
    for seed in range(5):
        text = generate(golden_gguf, "--grammar", file, "--seed", seed, "-t", 1)["text"]
        assert re.fullmatch(r"(- [a-z]{1,8}\n){2,3}end\.", text), text


def test_smollm2_follows_a_json_schema(person):
    if not SMOLLM2.exists():
        pytest.skip("make smollm2 fetches the model")
    for seed in range(4):
        result = generate(SMOLLM2, "--json-schema", person, "--seed", seed, "--temp", 1.2, "-n", 120, "-t", 1,
                          "A person, as JSON with name, age and tags:\n")
        assert result["finish_reason"] == "stop"
        jsonschema.validate(json.loads(result["text"]), PERSON)


def test_vocabularies_unable_to_write_the_form_are_rejected(golden_gguf, person):
    assert_refused(run("generate", "-m", golden_gguf, "--json-schema", person), FAILED, person, "0x7b", "{")
    assert_refused(run("generate", "-m", golden_gguf, "--regex", "a~"), FAILED, "--regex", "0x7e", "~")


def test_invalid_forms_are_rejected(golden_gguf, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"type": ', encoding="utf-8")
    grammar = tmp_path / "bad.gbnf"
    grammar.write_text("root ::= missing\n", encoding="utf-8")
    for flags, parts in [(["--regex", "(a"], ["--regex"]), (["--json-schema", bad], [bad]), (["--grammar", grammar], [grammar]),
                         (["--json-schema", tmp_path / "none"], [tmp_path / "none"])]:
        assert_refused(run("generate", "-m", golden_gguf, *flags), FAILED, *parts)
    assert_refused(run("generate", "-m", golden_gguf, "--regex", "a", "--choice", "b"), WRONG_USAGE, "--regex", "--choice")
