"""Compares output constraints by regular expressions and grammars with Python's re.

Draws random expressions from all supported features, more with FOLIO_LONG. With re.ASCII, Python's \\d, \\w and \\s
are those of RE2, except for the vertical tab, which the tests leave out.
"""

import os
import random
import re
import signal
import sys
import unicodedata

import pytest

from form_tool import tool

N = 30_000 if "FOLIO_LONG" in os.environ else 120
LETTERS = list("aab1_ -.^$]\\\n\réü日😀")


class Drawn:
    """A random regular expression in the syntax that RE2 and Python share."""

    def __init__(self, seed, end_anchor="$"):
        self.random = random.Random(seed)
        self.n_names = 0
        self.n_stars = 0  # number of *, + and {n,}; at most two, since Python backtracks exponentially
        begin = self.random.choice(["", "", "^"])
        end = self.random.choice(["", "", end_anchor])
        self.text = begin + self.choice(3) + end
        if begin or end:  # parenthesized, since anchors bind more tightly than |
            self.text = self.random.choice([f"{begin}({self.choice(2)}){end}", f"({begin}{self.item(1)}|{self.item(1)}){end}"])

    def choice(self, depth):
        return "|".join(self.sequence(depth) for _ in range(self.random.choice([1, 1, 2, 3])))

    def sequence(self, depth):
        return "".join(self.item(depth) for _ in range(self.random.choice([0, 1, 1, 2, 3])))

    def item(self, depth):
        one = self.group(depth) if depth > 0 and self.random.random() < 0.4 else self.character()
        return one + self.times() if self.random.random() < 0.4 else one

    def group(self, depth):
        self.n_names += 1
        kind = self.random.choice(["(", "(?:", f"(?P<n{self.n_names}>"])
        return kind + self.choice(depth - 1) + ")"

    def times(self):
        least, more = self.random.randrange(4), self.random.randrange(3)
        times = ["?", f"{{{least}}}", f"{{{least},{least + more}}}"]
        if self.n_stars < 2:
            times += ["*", "+", f"{{{least},}}"]
        chosen = self.random.choice(times)
        self.n_stars += chosen[-1] in "*+" or chosen.endswith(",}")
        return chosen + self.random.choice(["", "", "?"])

    def character(self):
        return self.random.choice([self.letter, self.letter, self.letter, self.escape, self.set, lambda: "."])()

    def letter(self):
        c = self.random.choice(LETTERS)
        return {"\n": "\\n", "\r": "\\r"}.get(c, "\\" + c if c in ".^$]\\-" else c)

    def escape(self):
        return self.random.choice([*(f"\\{c}" for c in "dDwWsSafnrt"), "\\x61", "\\u00e9", "\\(", "\\{", "\\0"])

    def set(self):
        items = [self.random.choice([self.letter, self.escape, self.range])() for _ in range(self.random.choice([1, 2, 4]))]
        return f"[{self.random.choice(['', '', '^'])}{''.join(items)}{self.random.choice(['', '', '-'])}]"

    def range(self):
        return self.random.choice(["a-b", "0-9", "A-Z", "à-ü", "\\x20-\\x2f", "一-龥", "\\--_"])


def mutated(text, rng):
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", rng.choice(LETTERS)]) + text[at + rng.randrange(2):]


class TooLong(Exception):
    pass


def in_time(match):
    """Returns `match` as a function that raises TooLong after a second of CPU time."""

    def interrupt(*_):
        raise TooLong

    def timed(text):
        signal.signal(signal.SIGVTALRM, interrupt)
        signal.setitimer(signal.ITIMER_VIRTUAL, 1)
        try:
            return match(text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    return timed


@pytest.mark.parametrize("search", [False, True])
def test_expressions_match_pythons_re(tool, search):
    n = dict.fromkeys(["taken", "refused", "texts", "walks", "too long"], 0)
    for seed in range(N):
        # Python gets \Z instead of $, because Python's $ also matches before a final line break, and RE2's doesn't.
        text = Drawn(seed + N * search).text
        python = re.compile(Drawn(seed + N * search, end_anchor="\\Z").text, re.ASCII)
        match = in_time(python.search if search else python.fullmatch)
        try:
            check_texts(tool, {"regex": text, "search": search}, match, seed, n, without="\v")
        except TooLong:
            n["too long"] += 1
    print(n)
    assert n["refused"] < N / 20 and n["walks"] > 4 * N and n["too long"] < N / 50
    assert n["texts"] / 10 < n["taken"] < n["texts"] * 9 / 10


def check_texts(tool, form, match, seed, n, without="\0"):
    """Expects the constraint `form` to accept the same texts as `match`: random outputs, modified outputs and random
    texts. Outputs that contain `without` are skipped."""
    rng = random.Random(seed)
    said = tool.ask(**form, walks=8, length=6, seed=seed)
    if "error" in said:
        assert said["error"] == "no output can match it", (form, said)
        n["refused"] += 1
        assert not any(match("".join(rng.choices(LETTERS, k=k % 4))) for k in range(40)), form
        return
    walks = [text for text in said["walks"] if len(text) <= 30 and without not in text]
    n["walks"] += len(walks)
    for text in walks:
        assert match(text), (form, text)
    texts = ["".join(rng.choices(LETTERS, k=k % 6)) for k in range(20)]
    texts += [mutated(text, rng) for text in walks] + walks
    for text, (whole, n_bytes) in zip(texts, tool.ask(**form, texts=texts)["texts"]):
        assert whole == bool(match(text)), (form, text)
        n["texts"] += 1
        n["taken"] += whole
        if not whole and n_bytes < len(text.encode()):  # no valid text begins with the first n_bytes + 1 bytes
            assert not any(other.encode().startswith(text.encode()[: n_bytes + 1]) and match(other) for other in texts)


CATEGORIES = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co".split()


def test_unicode_classes_match_python(tool):
    """Tests the first and last code point of each range of one category, except unassigned ones and surrogates."""
    category = [unicodedata.category(chr(c)) for c in range(sys.maxunicode + 1)]
    ends = [c for c in range(1, len(category)) if category[c - 1] != category[c]]
    ends = [c for c in sorted({*ends, *(c - 1 for c in ends)}) if category[c] not in ("Cn", "Cs")]
    assert len(ends) > 4000
    texts = [chr(c) for c in ends]
    for name in CATEGORIES:
        taken = tool.ask(regex=f"\\p{{{name}}}", texts=texts)["texts"]
        others = tool.ask(regex=f"[^a\\P{{{name}}}]|a", texts=texts)["texts"]
        for c, (whole, _), (other, _) in zip(ends, taken, others):
            assert whole == category[c].startswith(name), (name, hex(c))
            assert other == (whole or c == ord("a")), (name, hex(c))


class DrawnGrammar:
    """A random grammar without recursion, and the equivalent regular expression for Python."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.n_stars = 0
        self.rules = []
        root, self.python = self.choice(3)
        self.rules.append(f"root ::= {root}")
        self.random.shuffle(self.rules)
        self.text = "\n".join(self.rules) + self.random.choice(["", "\n", " # the end"])

    def choice(self, depth):
        branches = [self.sequence(depth) for _ in range(self.random.choice([1, 1, 2, 3]))]
        return " | ".join(text for text, _ in branches), "|".join(python for _, python in branches)

    def sequence(self, depth):
        items = [self.item(depth) for _ in range(self.random.choice([1, 1, 2, 3]))]
        return self.random.choice([" ", "  "]).join(text for text, _ in items), "".join(python for _, python in items)

    def item(self, depth):
        r = self.random
        kinds = [self.literal, self.literal, self.set, lambda: (".", "(?s:.)")]
        if depth > 0:
            kinds += [lambda: self.group(depth), lambda: self.rule(depth)]
        text, python = r.choice(kinds)()
        return self.times(text, python) if r.random() < 0.4 else (text, python)

    def times(self, text, python):
        least, more = self.random.randrange(4), self.random.randrange(3)
        kinds = ["?", f"{{{least}}}", f"{{{least},{least + more}}}"]
        if self.n_stars < 2:
            kinds += ["*", "+", f"{{{least},}}"]
        chosen = self.random.choice(kinds)
        self.n_stars += chosen[-1] in "*+" or chosen.endswith(",}")
        return text + chosen, f"(?:{python}){chosen}"

    def character(self):
        c = self.random.choice(LETTERS)
        escapes = {"\n": "\\n", "\r": "\\r", "\\": "\\\\", "]": "\\]", "^": "\\x5E", "-": "\\-", "é": "\\u00e9", "😀": "\\U0001F600"}
        return escapes[c] if c in "\n\r\\]^-" or c in escapes and self.random.random() < 0.5 else c, re.escape(c)

    def literal(self):
        pairs = [self.character() for _ in range(self.random.choice([0, 1, 1, 2, 3]))]
        return '"' + "".join(text for text, _ in pairs) + '"', "".join(python for _, python in pairs)

    def set(self):
        pairs = [self.random.choice([self.character, self.range])() for _ in range(self.random.choice([1, 2, 3]))]
        no = self.random.choice(["", "", "^"])
        return f"[{no}{''.join(text for text, _ in pairs)}]", f"[{no}{''.join(python for _, python in pairs)}]"

    def range(self):
        return self.random.choice([("a-b", "a-b"), ("0-9", "0-9"), ("à-ü", "à-ü"), ("\\x20-\\x2f", " -/"), ("一-龥", "一-龥")])

    def group(self, depth):
        text, python = self.choice(depth - 1)
        return f"({text})", f"(?:{python})"

    def rule(self, depth):
        text, python = self.choice(depth - 1)
        name = f"rule-{len(self.rules)}"
        self.rules.append(f"{name} ::= {text}")
        return name, f"(?:{python})"


def test_grammars_match_pythons_re(tool):
    n = dict.fromkeys(["taken", "refused", "texts", "walks", "too long"], 0)
    for seed in range(N // 2):
        grammar = DrawnGrammar(seed)
        try:
            check_texts(tool, {"grammar": grammar.text}, in_time(re.compile(grammar.python).fullmatch), seed, n)
        except TooLong:
            n["too long"] += 1
    print(n)
    assert n["refused"] < N / 40 and n["walks"] > 2 * N and n["too long"] < N / 50
    assert n["texts"] / 10 < n["taken"] < n["texts"] * 9 / 10
