"""Tests structured output for JSON schemas with the JSON-Schema-Test-Suite. Runs in build/venv-forms, which
scripts/bootstrap.sh makes."""

import collections
import itertools
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = Path(sys.prefix) / "json-schema-tests" / "draft2020-12"
sys.path.append(str(ROOT / "tests" / "infer" / "forms"))

from form_tool import tool  # noqa: E402
from json_schema_oracle_test import ask, dumped  # noqa: E402


def ways(value):
    """Yields all JSON texts that Folio may generate for a value: keys in any order, integers with or without .0."""
    if isinstance(value, list):
        for items in itertools.product(*[list(ways(item)) for item in value]):
            yield f"[{','.join(items)}]"
    elif isinstance(value, dict):
        members = [[f"{dumped(key)}:{one}" for one in ways(item)] for key, item in value.items()]
        for order in itertools.permutations(members):
            for chosen in itertools.product(*order):
                yield f"{{{','.join(chosen)}}}"
    else:
        yield dumped(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value):
            yield str(int(value))
            yield f"{int(value)}.0"


# {part of a test's description: reason why Folio doesn't generate this valid instance}.
NARROWER = {
    "format.json": "a format is no annotation: it is kept to",
    "leap second": "a leap second is not written",
    "case-insensitive": "T and Z of a time are capitals",
    "quoted string": "the name of an email address is not quoted",
    "address-literal": "the host of an email address is a name",
}


def test_json_schema_test_suite(tool):
    """For each schema of the suite, Folio reports an error, or accepts all valid and no invalid instances. NARROWER
    lists the valid instances that it may reject."""
    n = collections.Counter()
    narrower = collections.Counter()
    for file in sorted(SUITE.rglob("*.json")):
        for group in json.loads(file.read_text()):
            schema = json.dumps(group["schema"])
            for test in group["tests"]:
                why = f"{file.name}: {group['description']}: {test['description']}: {schema}"
                texts = list(itertools.islice(dict.fromkeys(ways(test["data"])), 500))
                said = ask(tool, schema, texts=texts)
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
