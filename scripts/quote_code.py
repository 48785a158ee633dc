#!/usr/bin/env python3
"""Keeps the code quoted in READMEs equal to the sources.

A comment specifies the quotation, and the fenced block below it holds the lines:

    <!-- code: experiments/growing/one_head.h | Tensor forward(const Tensor& x_BTD) -->
    ```cpp
    ...
    ```

The path is relative to the project's root. The quotation begins with the only line that contains the text after the
bar. It ends where the first brace that opens there closes, or at the statement's semicolon if none opens; a third part
such as `| 3 lines` sets the number of lines instead. Common indentation is removed.

Rewrites the blocks; with --check, reports an error for each block that differs."""

import argparse
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUOTE = re.compile(r"^<!-- code: ([^|\n]+?) \| (.+?)(?: \| (\d+) lines?)? -->\n(```\w*\n)(.*?)^```$", re.M | re.S)


def end_of(lines, first):
    """Returns the index after the last line of the definition or statement that begins in lines[first]."""
    depth, opened = 0, False
    for i in range(first, len(lines)):
        code = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//.*', "", lines[i])
        for c in code:
            if c == "{":
                depth, opened = depth + 1, True
            elif c == "}":
                depth -= 1
            if c in "};" and depth == 0 and (opened or c == ";"):
                return i + 1
    raise ValueError("its braces don't close")


def quoted(root, path, start, count):
    file = root / path
    if not file.is_file():
        raise ValueError(f"there is no file {path}")
    lines = file.read_text().splitlines()
    firsts = [i for i, line in enumerate(lines) if start in line]
    if len(firsts) != 1:
        raise ValueError(f"{path}: {len(firsts)} lines contain \"{start}\"; one has to")
    end = firsts[0] + int(count) if count else end_of(lines, firsts[0])
    if end > len(lines):
        raise ValueError(f"{path}: it has no {count} lines from \"{start}\" on")
    return textwrap.dedent("\n".join(lines[firsts[0]:end])) + "\n"


def with_quotes(root, text):
    def replaced(match):
        path, start, count, fence, _ = match.groups()
        comment = match.group(0).split("\n", 1)[0]
        return f"{comment}\n{fence}{quoted(root, path, start, count)}```"

    if len(QUOTE.findall(text)) != len(re.findall(r"^<!-- code:", text, re.M)):
        raise ValueError("a `<!-- code: PATH | TEXT -->` is not followed by a fenced block, or is not written so")
    return QUOTE.sub(replaced, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a quotation is not true")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project's root")
    options = parser.parse_args()
    wrong = 0
    for file in sorted([*options.root.glob("experiments/**/README.md"), *options.root.glob("modules/README.md")]):
        name, text = file.relative_to(options.root), file.read_text()
        try:
            new = with_quotes(options.root, text)
        except ValueError as error:
            print(f"{name}: {error}", file=sys.stderr)
            wrong += 1
            continue
        if new != text:
            if options.check:
                print(f"{name}: quotes code that has changed; run scripts/quote_code.py", file=sys.stderr)
                wrong += 1
            else:
                file.write_text(new)
                print(f"{name}: written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
