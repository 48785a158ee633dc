"""Compares output constraints by JSON schemas with the jsonschema package and Python's json.

Draws random schemas from all supported features, and instances with hypothesis-jsonschema; more with FOLIO_LONG.
"""

import copy
import itertools
import json
import math
import os
import random
import sys
from typing import Literal, Optional, Union

import hypothesis
import jsonschema
import pydantic
import pytest
from hypothesis_jsonschema import from_schema

from form_tool import SMOLLM2, Tool, tool

LONG = "FOLIO_LONG" in os.environ
N_SCHEMAS = 10_000 if LONG else 150
DRAFT = jsonschema.Draft202012Validator

# JSON doesn't limit the length of an integer, but Python by default reads at most 4,300 digits.
sys.set_int_max_str_digits(0)


def ask(tool, schema, **question):
    return tool.ask(schema=schema if isinstance(schema, str) else dumped(schema), **question)


def takes(tool, schema, texts):
    said = ask(tool, schema, texts=texts)
    assert "error" not in said, (schema, said)
    return [whole for whole, _ in said.get("texts", [])]


def dumped(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def validates(schema, value):
    return DRAFT(schema, format_checker=DRAFT.FORMAT_CHECKER).is_valid(value)


NAMES = ["a", "b", "ab", "abc", "é", "", 'q"', "x\ny", "\U0001f600"]
TEXTS = ["", "a", "b", "ab", 'say "x"', "\\", "é", "\n", "\U0001f600", "/"]

FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri"]
# Regular expressions with the same meaning in Python, RE2 and ECMAScript.
PATTERNS = ["^a+$", "b", '^["\\\\]{1,3}$', "^(ab|\\n|é)*c?$", "^[0-9a-f]{2,4}$", "^x[^a-z]y", "^😀|^[\u0100-🙏]{2}$", "^.?$"]


class Drawn:
    """A random schema that uses only supported features."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.defs = {}

    def schema(self):
        r = self.random
        root = self.any(3)
        if isinstance(root, dict) and r.random() < 0.2:
            self.defs["node"] = {
                "type": "object",
                "properties": {"value": self.any(1), "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
                "required": ["next"],
                "additionalProperties": False,
            }
            root = {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}
        if isinstance(root, dict) and self.defs:
            root["$defs"] = self.defs
        return root

    def any(self, depth):
        r = self.random
        kinds = ["null", "boolean", "integer", "number", "string", "enum", "const", "types", "true"]
        if depth > 0:
            kinds += ["array", "object", "object", "anyOf", "oneOf", "allOf", "ref", "untyped"]
        schema = getattr(self, "draw_" + r.choice(kinds))(depth)
        if isinstance(schema, dict) and r.random() < 0.1:
            schema["description"] = "nothing"
        return schema

    def draw_null(self, depth):
        return {"type": "null"}

    def draw_boolean(self, depth):
        return {"type": "boolean"}

    def draw_true(self, depth):
        return self.random.choice([True, {}])

    def bounds(self, values):
        r = self.random
        low, high = sorted([r.choice(values), r.choice(values)])
        to = {}
        if r.random() < 0.5:
            to[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.5:
            to[r.choice(["maximum", "exclusiveMaximum"])] = high
        return to

    def draw_integer(self, depth):
        r = self.random
        to = {"type": "integer", **self.bounds([-1000, -37, -10, -1, 0, 1, 5, 9, 10, 99, 100, 12345, 0.5, -2.5, 1e3])}
        if r.random() < 0.3:
            to["multipleOf"] = r.choice([1, 2, 3, 7, 10, 25])  # no floats, since jsonschema rounds quotients
        return to

    def draw_number(self, depth):
        return {"type": "number", **self.bounds([-1000, -2.5, -1, -0.001, 0, 1e-7, 0.1, 0.3, 1, 2.75, 10, 99.5, 1e20])}

    def draw_string(self, depth):
        r = self.random
        to = {"type": "string"}
        if r.random() < 0.2:
            to["format"] = r.choice(FORMATS)
            return to
        if r.random() < 0.2:
            to["pattern"] = r.choice(PATTERNS)
            if r.random() < 0.5:
                return to
        few = 5 if r.random() < 0.9 else 400  # long repetitions (400) are compiled with merged states
        if r.random() < 0.4:
            to["minLength"] = r.randrange(few)
        if r.random() < 0.4:
            to["maxLength"] = to.get("minLength", 0) + r.randrange(few)
        return to

    def values(self):
        r = self.random
        pool = [None, True, False, 0, 1, -5, 2.5, [], {}, [1, "a"], {"a": 1}, {"b": [None], "a": {}}, *TEXTS]
        return r.sample(pool, r.randint(1, 4))

    def draw_enum(self, depth):
        to = {"enum": self.values()}
        if self.random.random() < 0.3:
            to.update(self.random.choice([self.draw_string, self.draw_number, self.draw_integer])(0))
            to.pop("multipleOf", None)
        return to

    def draw_const(self, depth):
        return {"const": self.values()[0]}

    def draw_types(self, depth):
        r = self.random
        return {"type": r.sample(["null", "boolean", "integer", "number", "string", "array", "object"], r.randint(1, 3))}

    def draw_array(self, depth):
        r = self.random
        to = {"type": "array"}
        if r.random() < 0.7:
            to["items"] = self.any(depth - 1) if r.random() < 0.8 else False
        if r.random() < 0.3:
            to["prefixItems"] = [self.any(depth - 1) for _ in range(r.randint(1, 3))]
        if r.random() < 0.3:
            to["minItems"] = r.randrange(3)
        if r.random() < 0.5:
            to["maxItems"] = to.get("minItems", 0) + r.randrange(3 if r.random() < 0.9 else 200)
        if r.random() < 0.3:
            to["uniqueItems"] = True
            if to.get("maxItems", 2) > 1 or r.random() < 0.5:  # if at most one item is allowed, any item is unique
                to.pop("prefixItems", None)
                to["items"] = {"enum": self.values() + self.values()}
        return to

    def draw_object(self, depth):
        r = self.random
        names = r.sample(NAMES, r.randint(0, 4))
        to = {"type": "object", "properties": {name: self.any(depth - 1) for name in names}}
        if names and r.random() < 0.6:
            to["required"] = r.sample(names, r.randint(1, len(names)))
            if r.random() < 0.1:
                to["required"].append("other")
        if r.random() < 0.7:
            to["additionalProperties"] = r.choice([False, False, True, self.any(depth - 1)])
        if r.random() < 0.15:
            to["minProperties"] = r.randrange(4)
        if r.random() < 0.15:
            to["maxProperties"] = r.randrange(4)
        if r.random() < 0.2:
            patterns = r.sample(["^a", "b$", "^[a-c]+$", "^.?$", '"'], r.randint(1, 2))
            to["patternProperties"] = {pattern: self.any(depth - 1) for pattern in patterns}
        return to

    def draw_untyped(self, depth):
        to = self.random.choice([self.draw_object, self.draw_array, self.draw_string, self.draw_number])(depth)
        del to["type"]
        return to

    def draw_anyOf(self, depth):
        to = {"anyOf": [self.any(depth - 1) for _ in range(self.random.randint(1, 3))]}
        if self.random.random() < 0.3:
            to["type"] = self.random.choice(["object", "string", "integer", "number", "array"])
        return to

    def draw_oneOf(self, depth):
        r = self.random
        if r.random() < 0.5:
            return {"oneOf": [{"type": "string"}, {"type": "array", "items": self.any(depth - 1)}, self.draw_integer(0)]}
        return {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "a": self.any(depth - 1)},
                    "required": ["kind"],
                    "additionalProperties": False,
                }
                for kind in ["x", "y"]
            ]
        }

    def draw_allOf(self, depth):
        r = self.random
        kind = r.choice([self.draw_object, self.draw_array, self.draw_string, self.draw_number, self.draw_integer])
        return {"allOf": [kind(depth - 1) for _ in range(2)]}

    def draw_ref(self, depth):
        name = f"d{len(self.defs)}"
        self.defs[name] = True
        self.defs[name] = self.any(depth - 1)
        return {"$ref": f"#/$defs/{name}"}


def instances(schema, seed, n=6):
    """Returns up to n valid values that hypothesis-jsonschema draws."""
    found = []

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=n, database=None, deadline=None, phases=[hypothesis.Phase.generate],
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(from_schema(copy.deepcopy(schema)))  # a copy, since from_schema modifies its argument
    def draw(value):
        found.append(value)

    try:
        draw()
    except Exception:  # hypothesis finds no value, or doesn't support the schema
        pass
    return [value for value in found if validates(schema, value)]  # hypothesis ignores prefixItems


def orders(value):
    """Yields the value with the keys of all its objects in every order."""
    if isinstance(value, list):
        yield from (list(items) for items in itertools.product(*[list(orders(item)) for item in value]))
    elif isinstance(value, dict):
        for members in itertools.product(*[[(key, one) for one in orders(item)] for key, item in value.items()]):
            yield from map(dict, itertools.permutations(members))
    else:
        yield value


def n_orders(value):
    if isinstance(value, list):
        return math.prod(map(n_orders, value))
    if isinstance(value, dict):
        return math.factorial(len(value)) * math.prod(map(n_orders, value.values()))
    return 1


def is_written_otherwise(value):
    """Returns True if json.dumps may write a number in the value in a way that the output constraint rejects, such as
    1.0 (an integer), 1e-310 or Infinity."""
    if isinstance(value, float):
        return not math.isfinite(value) or value.is_integer() or abs(value) < 1e-307
    if isinstance(value, (list, dict)):
        return any(map(is_written_otherwise, value.values() if isinstance(value, dict) else value))
    return False


def mutated(text, r):
    chars = list(text)
    for _ in range(r.randint(1, 2)):
        kind = r.randrange(4)
        at = r.randrange(len(chars) + 1)
        if kind == 0 and at < len(chars):
            del chars[at]
        elif kind == 1:
            chars.insert(at, r.choice('"\\{}[],:0123456789-.eEtfnul aé\n'))
        elif kind == 2 and at < len(chars):
            chars[at] = r.choice('"\\{}[],:0123456789-.eEtfnul aé\n')
        elif kind == 3 and chars:
            other = r.randrange(len(chars))
            chars[min(at, len(chars) - 1)], chars[other] = chars[other], chars[min(at, len(chars) - 1)]
    return "".join(chars)


def parsed(text):
    try:
        return True, json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except (ValueError, RecursionError):
        return False, None


def check_accepted(schema, text, why):
    is_json, value = parsed(text)
    assert is_json, (why, schema, text)
    assert validates(schema, value), (why, schema, text)


def test_complete_outputs_are_valid(tool):
    n = refused = unfinished = 0
    for seed in range(N_SCHEMAS):
        schema = Drawn(seed).schema()
        said = ask(tool, schema, walks=10, seed=seed)
        if "error" in said:
            refused += 1
            continue
        unfinished += said["unfinished"]
        for text in said["walks"]:
            check_accepted(schema, text, seed)
            n += 1
    print(f"{n} walks, {refused} of {N_SCHEMAS} schemas refused, {unfinished} walks unfinished")
    assert n > 7 * N_SCHEMAS
    assert unfinished * 100 < n


def check_canonical(tool, schema, value, why):
    """Expects the schema's output constraint to accept the JSON text of a valid value in at least one order of its
    keys. Returns 1, or 0 if the value wasn't checked."""
    if is_written_otherwise(value) or n_orders(value) > 200:
        return 0
    if any(f'"format":"{name}"' in dumped(schema) for name in ["email", "ipv6", "uuid"]):
        return 0  # jsonschema checks emails only for an @, and Python's UUIDs and addresses differ from the RFCs
    assert any(takes(tool, schema, [dumped(one) for one in orders(value)])), (why, schema, value)
    return 1


def test_valid_instances_are_accepted(tool):
    n = 0
    for seed in range(N_SCHEMAS // 6):
        schema = Drawn(seed).schema()
        if "error" not in ask(tool, schema):
            n += sum(check_canonical(tool, schema, value, seed) for value in instances(schema, seed))
    print(f"{n} valid instances")
    assert n > N_SCHEMAS // 6


def test_mutations_are_accepted_only_if_valid(tool):
    n = n_taken = n_valid = 0
    for seed in range(N_SCHEMAS):
        schema = Drawn(seed).schema()
        r = random.Random(seed)
        texts = ask(tool, schema, walks=5, length=30, seed=seed + 1).get("walks", [])
        texts = [mutated(text, r) for text in texts for _ in range(4) if len(text) < 1000]
        for text, taken in zip(texts, takes(tool, schema, texts) if texts else []):
            n += 1
            if taken:
                n_taken += 1
                check_accepted(schema, text, seed)
                continue
            is_json, value = parsed(text)
            if is_json and dumped(value) == text and validates(schema, value):
                n_valid += check_canonical(tool, schema, value, seed)
    print(f"{n} mutations, {n_taken} taken, {n_valid} valid in another order")
    assert n > 10 * N_SCHEMAS and n_taken > N_SCHEMAS


FEW = [{"enum": ["a", 1, [1], None]}, {"type": "boolean"}, {"type": "integer", "minimum": -1, "exclusiveMaximum": 2},
       {"anyOf": [{"const": "a"}, {"type": ["null", "boolean"]}]}, {"enum": [0, False, "0", 0.0]}]


@pytest.mark.parametrize("bounds", [{}, {"minItems": 2}, {"maxItems": 2}, {"minItems": 1, "maxItems": 3}, {"minItems": 9}], ids=str)
@pytest.mark.parametrize("items", FEW, ids=str)
def test_unique_items_match_jsonschema(tool, items, bounds):
    """The output constraint accepts exactly the arrays of up to three values that jsonschema accepts, also with
    prefixItems."""
    values = [*{dumped(v): v for v in ["a", "b", 0, 1, -1, 2, True, False, None, [1], "0", 0.0]}.values()]
    for more in ({}, {"prefixItems": [{"const": "b"}, items]}):
        schema = {"type": "array", "uniqueItems": True, "items": items, **bounds, **more}
        arrays = [list(array) for n in range(4) for array in itertools.product(values, repeat=n)]
        texts = [dumped(array) for array in arrays if not any(isinstance(v, float) for v in array)]
        valid = [validates(schema, json.loads(text)) for text in texts]
        if bounds.get("minItems") == 9:
            assert "error" in ask(tool, schema) and not any(valid)
            continue
        assert takes(tool, schema, texts) == valid, schema


def test_many_unique_items(tool):
    """Accepts ten distinct items in any order, and up to three of 24 items, but no duplicates."""
    assert takes(tool, {"type": "array", "uniqueItems": True, "items": {"enum": [*range(10)]}, "minItems": 10},
                      [dumped([*range(9, -1, -1)]), dumped([*range(9)]), dumped([*range(9), 3])]) == [True, False, False]
    assert takes(tool, {"type": "array", "uniqueItems": True, "items": {"enum": [*range(24)]}, "maxItems": 3},
                      ["[1,23,2]", "[1,2,1]", "[1,2,3,4]"]) == [True, False, False]


def openapi_type(validator, types, instance, schema):
    """Implements `nullable` of OpenAPI 3.0.3: if the schema has a type, null is valid, too."""
    types = [types] if isinstance(types, str) else types
    if not any(validator.is_type(instance, one) for one in [*types, *(["null"] if schema.get("nullable") else [])]):
        yield jsonschema.ValidationError("type")


OPENAPI = jsonschema.validators.extend(DRAFT, {"type": openapi_type})


def test_nullable_adds_the_null_type(tool):
    schema = {"type": "object", "required": ["a", "b", "c"], "additionalProperties": False, "properties": {
        "a": {"type": "string", "nullable": True, "maxLength": 2}, "b": {"type": ["integer", "boolean"], "nullable": False},
        "c": {"type": "string", "enum": ["x", None], "nullable": True}}}
    values = [dict(zip("abc", parts)) for parts in itertools.product(["a", "abc", None, 1], [1, None, True], ["x", None, "y"])]
    assert takes(tool, schema, list(map(dumped, values))) == [OPENAPI(schema).is_valid(value) for value in values]


class Cat(pydantic.BaseModel):
    kind: Literal["cat", "lion"] = "cat"
    lives: int = pydantic.Field(ge=1, le=9)


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    friend: Optional["Pet"] = None


class Pet(pydantic.BaseModel):
    pet: Union[Cat, Dog] = pydantic.Field(discriminator="kind")


@pytest.mark.parametrize("combination", ["oneOf", "anyOf"])
def test_discriminated_outputs_are_parsed_by_pydantic(tool, combination):
    """Expects random outputs to have the discriminating property, without which Pydantic rejects an object."""
    text = dumped(Pet.model_json_schema()).replace('"oneOf"', f'"{combination}"')
    said = ask(tool, text, walks=300, seed=1)
    assert "error" not in said and len(said["walks"]) > 200, said
    kinds = {Pet.model_validate_json(walk).pet.kind for walk in said["walks"]}
    assert kinds == {"cat", "lion", "dog"}
    assert takes(tool, text, ['{"pet":{"kind":"cat","lives":3}}', '{"pet":{"lives":3}}', '{"pet":{"kind":"dog","lives":3}}',
                             '{"pet":{"kind":"cow","lives":3}}']) == [True, False, True, False]


# Schemas whose repetitions are so long that the copies far from both ends share their grammar states.
FAR = [
    {"type": "string", "maxLength": 500},
    {"type": "array", "minItems": 300, "maxItems": 600},
    {"type": "string", "pattern": "^[acegikmoqsuw]{400}", "maxLength": 900},
]


@pytest.mark.skipif(not SMOLLM2.exists(), reason="make smollm2 fetches it")
def test_masks_match_brute_force():
    tool = Tool("--tokens", SMOLLM2)
    try:
        n = 0
        for schema in FAR:
            n += ask(tool, schema, walks=2, length=200)["masks"]
        for seed in range(N_SCHEMAS // 3):
            said = ask(tool, Drawn(seed).schema(), walks=2, length=30, seed=seed)
            assert "a mask" not in said.get("error", ""), seed
            n += said.get("masks", 0)
        print(f"{n} masks")
        assert n > N_SCHEMAS // 3
    finally:
        tool.close()
