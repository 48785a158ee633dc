"""Runs an engine of structured output that bench_forms.py compares with Folio, in a process that answers requests.

Usage: build/venv-forms/bin/python scripts/forms_peers.py ENGINE VOCABULARY.json, as peer_program() starts it."""
import json
import select
import subprocess
import sys
import time

from compare import BUILD

PATIENCE = 60  # timeout in seconds for an engine's answer to one schema


class Program:
    """A child process that answers each line of JSON with one line of JSON. If it exits or exceeds PATIENCE, ask()
    restarts it and returns None."""

    def __init__(self, *command):
        self.command = command
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question):
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], PATIENCE)[0] and (line := self.process.stdout.readline()):
                return json.loads(line)
        except BrokenPipeError:
            pass
        self.process.kill()
        self.process.wait()
        self.begin()
        return None


def xgrammar(tokens, end, mask):
    """Returns two functions. compiled(schema) returns the compiled grammar. begin(grammar) starts a new text and
    returns two functions: take(token) appends a token and returns false if it isn't allowed; write() stores the
    bitmask of the tokens allowed next in `mask`."""
    import xgrammar

    info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compiled(schema):
        return compiler.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"), strict_mode=False)

    def begin(grammar):
        matcher = xgrammar.GrammarMatcher(grammar)
        return matcher.accept_token, lambda: matcher.fill_next_token_bitmask(mask)

    return compiled, begin


def llguidance(tokens, end, mask):
    import llguidance

    number = {token: i for i, token in reversed([*enumerate(tokens)]) if token}
    longest = max(map(len, number))

    class Tokenizer:  # splits text by longest match; llguidance tokenizes with it the bytes that a schema forces
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
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, {"whitespace_flexible": False})
        matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(grammar):
        matcher = grammar.deep_copy()
        address, size = mask.ctypes.data, mask.nbytes
        return matcher.consume_token, lambda: matcher.unsafe_compute_mask_ptr(address, size)

    return compiled, begin


PEERS = {"xgrammar": xgrammar, "llguidance": llguidance}


def answer(compiled, begin, schema, texts):
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


def peer(name, vocabulary):
    """Measures the engine `name`. Each line of stdin is {"schema": ..., "texts": [token ids, ...]}. For each, prints a
    line: {"ms": time to compile, "us": times per mask, "cut": number of rejected texts} or {"error": message}. Must run
    in build/venv-forms."""
    import numpy as np

    with open(vocabulary) as file:
        said = json.load(file)
    tokens = [bytes.fromhex(token) for token in said["tokens"]]
    engine = PEERS[name](tokens, said["end"], np.zeros((1, (len(tokens) + 31) // 32), dtype=np.int32))
    for line in sys.stdin:
        try:
            said = answer(*engine, **json.loads(line))
        except Exception as error:  # the engine doesn't support this schema
            said = {"error": str(error)}
        print(json.dumps(said), flush=True)


def peer_program(name, vocabulary):
    python = BUILD / "venv-forms/bin/python"
    if not python.exists():
        sys.exit(f"{python} is not there; scripts/bootstrap.sh interop-library installs the engines")
    return Program(python, __file__, name, str(vocabulary))


if __name__ == "__main__":
    peer(*sys.argv[1:])
