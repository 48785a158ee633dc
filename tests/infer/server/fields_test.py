"""Checks that the API description, the validation of requests, the web page, the flags and the docs agree with the
sampler's list of fields."""

import json
import re
import subprocess
import urllib.request

import pytest

from support import BUILD, GOLDEN, ROOT
from wire import post

# The sampler's fields that have a minimum and a maximum. New fields of this kind must be added here.
NUMBERS = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "repeat_last_n", "presence_penalty",
           "frequency_penalty"}


@pytest.fixture(scope="module")
def described(golden):
    description = json.load(urllib.request.urlopen(golden.url + "/openapi.json"))
    return {kind: description["components"]["schemas"][kind]["properties"] for kind in ("CompletionRequest", "ChatRequest")}


def status_of(server, field, value):
    return post(server, "/v1/completions", {"prompt": "a", "max_tokens": 1, field: value})[0]


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_ranges_of_numbers_are_consistent(golden, described, name):
    field = described["CompletionRequest"][name]
    assert described["ChatRequest"][name] == field
    low, high = field["minimum"], field["maximum"]
    beyond = 1 if field["type"][0] == "integer" else 1e-4
    assert [status_of(golden, name, value) for value in (low - beyond, low, high, high + beyond)] == [400, 200, 200, 400]
    flag = "--" + name.replace("_", "-")
    run = lambda value: subprocess.run([BUILD / "generate", "-m", GOLDEN, "-n", "1", "-t", "1", f"{flag}={value}"],
                                       capture_output=True, text=True)
    assert [run(value).returncode for value in (low - beyond, low, high, high + beyond)] == [2, 0, 0, 2]
    meaning, _, special = field["description"].partition("; ")  # --help shows `special` in parentheses
    shown = " ".join(subprocess.run([BUILD / "generate", "--help"], capture_output=True, text=True).stdout.split())
    assert meaning in shown and special.split(": ")[-1] in shown
    row = f"| `{name}` | {field['default']} | {low} to {high} | {field['description']} |"
    assert row in (ROOT / "docs/server.md").read_text(), row


def test_page_uses_the_described_fields(golden, described):
    page = urllib.request.urlopen(golden.url).read().decode()
    fields = json.loads(re.search(r'id="fields">(.*?)</template>', page).group(1))
    assert fields.keys() == NUMBERS | {"max_tokens", "seed"}
    assert fields == {name: described["ChatRequest"][name] for name in fields}
