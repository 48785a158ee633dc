"""Runs other structured output engines, each in its own process, with a vocabulary of single bytes.

As a program (form_engines.py xgrammar|llguidance) it reads JSON lines: {"schema"|"regex"|"grammar": …, "texts": […]}.
It answers with {"error": …}, or {"texts": [[is accepted, number of valid bytes at the start], …]}."""

import json
import selectors
import subprocess
import sys

NAMES = ["xgrammar", "llguidance"]
END = 256
TOKENS = [bytes([byte]) for byte in range(256)] + [b""]


class Engine:
    def __init__(self, name):
        self.name = name
        self.begin()

    def begin(self):
        self.process = subprocess.Popen([sys.executable, __file__, self.name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8")
        self.answers = selectors.DefaultSelector()
        self.answers.register(self.process.stdout, selectors.EVENT_READ)

    def ask(self, **question):
        """Returns the engine's answer, or an error after restarting a process that crashed or was silent for 2 min."""
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline() if self.answers.select(timeout=120) else ""
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.close()
        self.begin()
        return {"error": "it died, or took two minutes", "died": True}

    def close(self):
        self.answers.close()
        self.process.kill()
        self.process.communicate()


def xgrammar_compiler():
    import xgrammar

    info = xgrammar.TokenizerInfo(TOKENS, xgrammar.VocabType.RAW, vocab_size=len(TOKENS), stop_token_ids=[END])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compiled(kind, text):
        if kind == "schema":
            grammar = compiler.compile_json_schema(text, any_whitespace=False, separators=(",", ":"), strict_mode=False)
        else:
            grammar = {"regex": compiler.compile_regex, "grammar": compiler.compile_grammar}[kind](text)

        def said(text):
            matcher = xgrammar.GrammarMatcher(grammar)
            for i, byte in enumerate(text):
                if not matcher.accept_string(bytes([byte])):
                    return False, i
            return matcher.accept_token(END), len(text)

        return said

    return compiled


def llguidance_compiler():
    import llguidance
    from llguidance.gbnf_to_lark import gbnf_to_lark

    class Tokenizer:
        tokens, eos_token_id, bos_token_id = TOKENS, END, None

        def __call__(self, text):
            return list(text.encode() if isinstance(text, str) else text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))
    made = llguidance.LLMatcher
    forms = {
        "schema": lambda text: made.grammar_from_json_schema(text, {"whitespace_flexible": False}),
        "regex": made.grammar_from_regex,
        "grammar": lambda text: made.grammar_from_lark(gbnf_to_lark(text)),
    }

    def compiled(kind, text):
        matcher = made(tokenizer, forms[kind](text), log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())

        def said(text):
            n = matcher.deep_copy().validate_tokens([*text, END])
            return n == len(text) + 1, min(n, len(text))

        return said

    return compiled


def main(name):
    compiled = {"xgrammar": xgrammar_compiler, "llguidance": llguidance_compiler}[name]()
    for line in sys.stdin:
        question = json.loads(line)
        texts = question.pop("texts")
        [(kind, text)] = question.items()
        try:
            said = compiled(kind, text)
            answer = {"texts": [said(text.encode()) for text in texts]}
        except Exception as error:  # the engine doesn't support this schema or grammar
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
