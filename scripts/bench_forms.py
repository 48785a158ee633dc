#!/usr/bin/env python3
"""How long it takes to say which tokens may come next: scripts/bench_forms.py [MODEL.gguf] [-n TIMES]

For places in some forms, in microseconds: the first mask of a form that was just compiled, the first one at this place
after those at the places before it, and the same again. Medians of TIMES runs. Builds nothing: ninja -C build form_tool
comes first.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRING = r'"([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
JSON = r"""
root   ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (string ":" root ("," string ":" root)*)? "}"
array  ::= "[" (root ("," root)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+\-]? [0-9]+)?
"""
PLACES = [
    ("in a literal", {"regex": r'\{"temperature": [0-9]{1,3}\}'}, '{"temp'),
    ("four digits", {"regex": r"[0-9]{4}-[0-9]{2}-[0-9]{2}"}, "19"),
    ("in a string", {"regex": STRING}, '"The qu'),
    ("in a string of at most 1,000", {"regex": '"[^"\\\\\\x00-\\x1f]{0,1000}"'}, '"The qu'),
    ("a line of at most 40 letters", {"regex": "[A-Z]+: ([A-Za-z ]{1,40}[.!?]\n)+"}, "ROMEO: But soft"),
    ("JSON, where a value begins", {"grammar": JSON}, '{"a":[1,'),
    ("JSON, in a string", {"grammar": JSON}, '{"a":["The qu'),
    ("any text", {"regex": "(?:.|\\n)*"}, "The qu"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=ROOT / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("-n", type=int, default=21)
    args = parser.parse_args()
    tool = subprocess.Popen([ROOT / "build/tests/form_tool", "--tokens", args.model], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)  # fmt: skip

    def ask(**question):
        tool.stdin.write(json.dumps(question) + "\n")
        tool.stdin.flush()
        said = json.loads(tool.stdout.readline())
        assert "error" not in said, said
        return said

    print(f"{'':30} {'compile':>9} {'states':>7} {'first':>9} {'at place':>9} {'again':>9}")
    for name, form, text in PLACES:
        runs = [ask(**form, timed=text) for _ in range(args.n)]
        compile_ms = statistics.median(run["ms"] for run in runs)
        first = statistics.median(run["us"][0][0] for run in runs)
        cold, warm = (statistics.median(run["us"][-1][i] for run in runs) for i in range(2))
        print(f"{name:30} {compile_ms:6.2f} ms {runs[0]['states']:7} {first:6.1f} us {cold:6.1f} us {warm:6.2f} us")
    tool.stdin.close()
    tool.wait()


if __name__ == "__main__":
    main()
