"""Compares structured output with the JSON-Schema-Test-Suite, xgrammar and llguidance. If another engine differs,
jsonschema or re decide which one is right, and the difference must be one of those that are listed here.

Runs in build/venv-forms, which scripts/bootstrap.sh makes."""

import collections
import itertools
import json
import os
import random
import re
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = Path(sys.prefix) / "json-schema-tests" / "draft2020-12"
sys.path[:0] = [str(ROOT / "tests" / "infer" / "forms"), str(Path(__file__).parent)]

import json_schema_oracle_test as schemas  # noqa: E402
import regex_oracle_test as regexes  # noqa: E402
from form_engines import NAMES, Engine  # noqa: E402

N = 1000


@pytest.fixture(scope="module")
def tool():
    tool = schemas.Tool()
    yield tool
    tool.close()


@pytest.fixture(scope="module", params=NAMES)
def engine(request):
    engine = Engine(request.param)
    yield engine
    engine.close()


# ---- the JSON-Schema-Test-Suite ----


def ways(value):
    """Yields all JSON texts in which Folio may generate a value: any order of keys, integers with and without .0."""
    if isinstance(value, list):
        for items in itertools.product(*[list(ways(item)) for item in value]):
            yield f"[{','.join(items)}]"
    elif isinstance(value, dict):
        members = [[f"{schemas.dumped(key)}:{one}" for one in ways(item)] for key, item in value.items()]
        for order in itertools.permutations(members):
            for chosen in itertools.product(*order):
                yield f"{{{','.join(chosen)}}}"
    else:
        yield schemas.dumped(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value):
            yield str(int(value))
            yield f"{int(value)}.0"


# Valid instances that Folio doesn't generate: {part of a test's description: the reason}.
NARROWER = {
    "format.json": "a format is no annotation: it is kept to",
    "leap second": "a leap second is not written",
    "case-insensitive": "T and Z of a time are capitals",
    "quoted string": "the name of an email address is not quoted",
    "address-literal": "the host of an email address is a name",
}


def test_json_schema_test_suite(tool):
    """Either a schema is rejected with an error, or its valid instances are accepted and its invalid ones aren't."""
    n = collections.Counter()
    narrower = collections.Counter()
    for file in sorted(SUITE.rglob("*.json")):
        for group in json.loads(file.read_text()):
            schema = json.dumps(group["schema"])
            for test in group["tests"]:
                why = f"{file.name}: {group['description']}: {test['description']}: {schema}"
                texts = list(itertools.islice(dict.fromkeys(ways(test["data"])), 500))
                said = tool.ask(schema, texts=texts)
                if "error" in said:
                    if said["error"] == "no output can match it":
                        assert not test["valid"], why
                        n["right"] += 1
                        continue
                    assert said["error"].startswith("#") and ": " in said["error"], why
                    n["refused"] += 1
                    continue
                taken = any(whole for whole, _ in said["texts"])
                assert test["valid"] or not taken, f"taken: {why}"
                if taken == test["valid"]:
                    n["right"] += 1
                    continue
                known = [cause for part, cause in NARROWER.items() if part in why]
                assert known, f"not taken: {why}"
                n["narrower"] += 1
                narrower[known[0]] += 1
    print(f"\nJSON-Schema-Test-Suite, draft 2020-12: {dict(n)}; {dict(narrower)}")
    assert n["right"] > 850 and n["narrower"] < 30


# ---- other engines ----


def place(text, n_bytes):
    """Returns the kind of JSON element at which another engine rejects a text, after n_bytes valid bytes."""
    read = text.encode()[:n_bytes].decode(errors="ignore")
    rest = text[len(read):]
    in_string = escaped = False
    for c in read:
        if escaped:
            escaped = False
        elif in_string and c == "\\":
            escaped = True
        elif c == '"':
            in_string = not in_string
    if in_string:
        escaped = escaped or rest.startswith("\\") or re.search(r"\\u[0-9a-fA-F]{0,4}$", read)
        return "an escape" if escaped else "DEL" if rest.startswith("\x7f") else "a string"
    number = re.search(r"[-+.0-9eE]*$", read)[0] + re.match(r"[-+.0-9eE]*", rest)[0]
    return "a number" if number else "a value"


def cause_of(schema, text, taken, n_bytes, valid):
    """Returns how an engine differs from Folio. `taken`: the engine accepts `text`; `valid`: jsonschema does."""
    if taken and valid:
        return "Folio writes it otherwise"
    if taken:
        is_json, value = schemas.parsed(text)
        if not is_json:
            return "takes what is no JSON"
        error = jsonschema.exceptions.best_match(
            schemas.DRAFT(schema, format_checker=schemas.DRAFT.FORMAT_CHECKER).iter_errors(value))
        while error.context:
            error = error.context[-1]
        return f"takes what '{error.validator}' refuses"
    return f"refuses {place(text, n_bytes)}"


# Known differences of the other engines, in the versions that scripts/bootstrap.sh installs.
SCHEMA_CAUSES = {
    "xgrammar": {
        **dict.fromkeys(
            [f"takes what '{keyword}' refuses" for keyword in [
                "const", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maximum", "maxLength",
                "minimum", "minItems", "minLength", "multipleOf", "pattern", "type"]],
            "of schemas in 'allOf' it keeps to one; a pattern or a format makes it forget the length"),
        "refuses a value": "a schema without a type has the type of its keywords to it",
        "refuses a string": "keys that do not match patternProperties; characters of patterns outside ASCII",
        "refuses a number": "exponents in a range, and digits from the tenth on",
        "refuses an escape": "\\/, and escapes where there is a pattern or a length",
        "Folio writes it otherwise": "exponents of more than two digits: there is no double for some of them",
    },
    "llguidance": {
        "refuses a number": "exponents in a range, -0.0, and other zeros at the end",
        "refuses an escape": "\\/, \\u but of control characters, and escapes where there is a pattern",
        "refuses DEL": "U+007F in a string, which JSON allows",
        "Folio writes it otherwise": "exponents of more than two digits: there is no double for some of them",
    },
}


def test_schemas_compared_with_other_engines(tool, engine):
    n = collections.Counter()
    for seed in range(N):
        schema, rng = schemas.Drawn(seed).schema(), random.Random(seed)
        said = tool.ask(schema, walks=5, length=30, seed=seed)
        if "error" in said:
            n["refused by Folio"] += 1
            continue
        texts = [text for text in said["walks"] if len(text) < 600]
        texts += [schemas.mutated(text, rng) for text in texts]
        answer = engine.ask(schema=schemas.dumped(schema), texts=texts)
        if "error" in answer:
            n["schemas refused"] += 1
            continue
        for text, whole, (other, n_bytes) in zip(texts, tool.takes(schema, texts), answer["texts"]):
            n["texts"] += 1
            if whole == other:
                n["same"] += 1
                continue
            is_json, value = schemas.parsed(text)
            valid = is_json and schemas.validates(schema, value)
            assert valid or not whole, (schema, text)
            if valid and not whole:  # Folio must accept the value in another order of keys or notation of numbers
                schemas.check_canonical(tool, schema, value, (schema, text))
            cause = cause_of(schema, text, other, n_bytes, valid)
            assert cause in SCHEMA_CAUSES[engine.name], (cause, schema, text, n_bytes)
            n[cause] += 1
    print(f"\n{engine.name}, schemas: {dict(n)}")
    assert n["same"] > 0.9 * n["texts"] and n["texts"] > 5 * N


def compared(tool, engine, forms, causes):
    """Compares Folio with an engine on `forms`: (Folio's form, the engine's form, function that checks a text)."""
    n = collections.Counter()
    for seed, (mine, other, match) in enumerate(forms):
        rng = random.Random(seed)
        said = tool.ask("", **mine, walks=5, length=6, seed=seed)
        if "error" in said:
            n["refused by Folio"] += 1
            continue
        texts = [text for text in said["walks"] if len(text) < 60 and "\v" not in text]
        texts += [regexes.mutated(text, rng) for text in texts]
        if not texts:
            continue
        answer = engine.ask(**other, texts=texts)
        if "error" in answer:
            n["forms refused"] += 1
            continue
        for text, (whole, _), (taken, _) in zip(texts, tool.ask("", **mine, texts=texts)["texts"], answer["texts"]):
            try:
                right = bool(match(text))
            except regexes.TooLong:
                break
            n["texts"] += 1
            assert whole == right, (mine, text)
            if taken == whole:
                n["same"] += 1
                continue
            cause = next((cause for part, cause in causes.items() if part(other, text, taken)), None)
            assert cause, (engine.name, other, text, taken)
            n[cause] += 1
    print(f"\n{engine.name}: {dict(n)}")
    assert n["same"] > 0.9 * n["texts"] and n["texts"] > 2 * N


def drawn_regexes():
    for seed in range(N):
        text = regexes.Drawn(seed).text
        python = re.compile(regexes.Drawn(seed, end_anchor="\\Z").text, re.ASCII)
        yield {"regex": text}, {"regex": text}, regexes.in_time(python.fullmatch)


def drawn_grammars():
    for seed in range(N):
        grammar = regexes.DrawnGrammar(seed)
        yield {"grammar": grammar.text}, {"grammar": grammar.text}, regexes.in_time(re.compile(grammar.python).fullmatch)


def has_line_end(form, text, taken):
    return taken and "." in form["regex"] and "\n" in text


def is_beyond_ascii(form, text, taken):
    return re.search(r"\\[wWdDsS]", form["regex"]) and not text.isascii()


def begins_with_caret(form, text, taken):
    return "[\\^" in form["regex"]


REGEX_CAUSES = {
    "xgrammar": {has_line_end: "its . is a line's end, too", begins_with_caret: "to it [\\^ is [^"},
    "llguidance": {is_beyond_ascii: "its \\w, \\d and \\s are Unicode's"},
}
GRAMMAR_CAUSES = {
    "xgrammar": {
        lambda form, text, taken: re.search(r"\\x..[0-9a-fA-F]", form["grammar"]): "its \\x has as many digits as follow",
    },
    "llguidance": {
        lambda form, text, taken: not taken and "\n" in text: "the . of its grammars is no line's end",
        lambda form, text, taken: not taken: "its grammars have terminals, which are as long as they can be",
    },
}


def test_regexes_compared_with_other_engines(tool, engine):
    compared(tool, engine, drawn_regexes(), REGEX_CAUSES[engine.name])


def test_grammars_compared_with_other_engines(tool, engine):
    compared(tool, engine, drawn_grammars(), GRAMMAR_CAUSES[engine.name])
