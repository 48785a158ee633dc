#!/usr/bin/env python3
"""Keeps the code and the numbers quoted in READMEs equal to the sources and to the studies' results.

Code. A comment specifies the quotation, and the fenced block below it holds the lines:

    <!-- code: experiments/growing/one_head.h | Tensor forward(const Tensor& x_BTD) -->
    ```cpp
    ...
    ```

The path is relative to the project's root. The quotation begins with the only line that contains the text after the
bar. It ends where the first brace that opens there closes, or at the statement's semicolon if none opens; a third part
such as `| 3 lines` sets the number of lines instead. Common indentation is removed.

Numbers. Those of a study's README are those of its last full run, experiments/NAME/results.json. A comment above a
table of the README specifies a table of results.json by a part of its title. Columns and rows are in the same order,
unless numbers (from 1 on) select some of them:

    <!-- results: 1000 sequences -->
    <!-- results: 1000 sequences | columns 1 5 6 | rows 2 4 -->

A comment after a number in the text specifies a cell by table, row and column (a name or a number from 1 on); the
measured number of a result by a part of its text; or a value by its name:

    121<!--= all tokens | all multiply-adds | without / with -->
    5.8 %<!--= result | share that the engine's blocks waste | * 100 -->
    0.87 s<!--= value | seconds without a cache -->

Numbers are rounded to the decimals shown in the README. Cells without a number are left unchanged.

Rewrites the quotations; with --check, prints those that differ and exits with 1. --take DIR first copies the results
and pictures of full runs from DIR/NAME (`make ladder` writes to runs/experiments)."""

import argparse
import difflib
import json
import pathlib
import re
import shutil
import sys
import textwrap
from decimal import ROUND_HALF_UP, Decimal

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUOTE = re.compile(r"^<!-- code: ([^|\n]+?) \| (.+?)(?: \| (\d+) lines?)? -->\n(```\w*\n)(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[+−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+−-]?\d+)?")
TABLE = re.compile(r"^( *)<!-- results: ([^\n]+?) -->\n((?:\1\|[^\n]*\n)+)", re.M)
INLINE = re.compile(rf"({NUMBER.pattern})([^\d\n<]{{0,12}}<!--= ([^\n]+?) -->)")


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


def lines_of(root, path, start, count):
    file = root / path
    if not file.is_file():
        raise ValueError(f"there is no file {path}")
    lines = file.read_text().splitlines()
    firsts = [i for i, line in enumerate(lines) if start in line]
    if len(firsts) != 1:
        raise ValueError(f"{path}: {len(firsts)} lines contain \"{start}\"; exactly one must")
    end = firsts[0] + int(count) if count else end_of(lines, firsts[0])
    if end > len(lines):
        raise ValueError(f"{path}: it has no {count} lines from \"{start}\" on")
    return textwrap.dedent("\n".join(lines[firsts[0]:end])) + "\n"


def with_quotes(root, text):
    def replaced(match):
        path, start, count, fence, _ = match.groups()
        comment = match.group(0).split("\n", 1)[0]
        return f"{comment}\n{fence}{lines_of(root, path, start, count)}```"

    if len(QUOTE.findall(text)) != len(re.findall(r"^<!-- code:", text, re.M)):
        raise ValueError("a `<!-- code: PATH | TEXT -->` is not followed by a fenced block, or is not written so")
    return QUOTE.sub(replaced, text)


def shown_as(text, value):
    """Formats `value` like the number `text` in the README: its number of decimals, thousands separators, and sign
    character."""
    number = float(value)
    decimals = len(text.partition(".")[2])
    if "e" in text:
        return f"{number:.{len(text.partition('e')[0].partition('.')[2])}e}"
    grouped = "," in text or (len(text.partition(".")[0]) < 5 and abs(number) >= 10_000)
    rounded = Decimal(repr(abs(number))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    if number and not rounded and re.search("[1-9]", text):
        raise ValueError(f"{number} has no digit among the decimals of \"{text}\"; write it with more of them")
    new = f"{rounded:{',' if grouped else ''}f}"
    if number < 0 and float(new.replace(",", "")):
        return ("-" if text.startswith("-") else "−") + new
    return ("+" if text.startswith("+") else "") + new


def named(names, part, what):
    """Returns the name that equals `part`, or else the only name that contains it. Raises ValueError if no name or
    several names contain it; `what` names their kind in the message."""
    found = [name for name in names if name == part] or [name for name in names if part in name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} {what} contain \"{part}\"; exactly one must (there are: {', '.join(names)})")
    return found[0]


def with_values(text, values):
    """Replaces the numbers in `text` with those of `values`, a string, or with the number `values` if `text` has only
    one. Raises ValueError if the counts differ."""
    if isinstance(values, str):
        values = [number.replace("−", "-").replace(",", "") for number in NUMBER.findall(values)]
    else:
        values = [values]
    numbers = NUMBER.findall(text)
    if len(numbers) != len(values):
        raise ValueError(f"\"{text.strip()}\" has {len(numbers)} numbers, and the result {len(values)}")
    left = iter(values)
    return NUMBER.sub(lambda number: shown_as(number.group(), next(left)), text)


def chosen(words, kind, n):
    for part in words:
        if part.startswith(kind + " "):
            return [int(number) - 1 for number in part.split()[1:]]
    return list(range(n))


def with_table(results, match):
    indent, marker, table = match.groups()
    title, *choices = [part.strip() for part in marker.split("|")]
    records = results["tables"][named(results["tables"], title, "tables")]
    keys = list(records[0])
    columns, rows = chosen(choices, "columns", len(keys)), chosen(choices, "rows", len(records))
    lines = table.splitlines()
    if len(lines) - 2 != len(rows):
        raise ValueError(f"the table of \"{title}\" has {len(lines) - 2} rows, and the results {len(rows)}")
    for i, row in enumerate(rows, 2):
        cells = lines[i].strip().strip("|").split("|")
        if len(cells) != len(columns):
            raise ValueError(f"a row of \"{title}\" has {len(cells)} columns instead of {len(columns)}: {lines[i]}")
        for j, column in enumerate(columns[1:], 1):  # the first column has the names of the rows
            if NUMBER.search(cells[j]):
                cells[j] = with_values(cells[j], records[row][keys[column]])
        lines[i] = indent + "|" + "|".join(cells) + "|"
    return f"{indent}<!-- results: {marker} -->\n" + "\n".join(lines) + "\n"


def value_of(results, marker):
    parts = [part.strip() for part in marker.split("|")]
    factor = float(parts.pop()[1:]) if parts[-1].startswith("* ") else 1.0
    if parts[0] == "result":
        checked = {result["text"]: result["measured"] for result in results["results"]}
        value = checked[named(checked, parts[1], "results")]
    elif parts[0] == "value":
        value = results["values"][named(results["values"], parts[1], "values")]
    else:
        title, row, column = parts
        records = results["tables"][named(results["tables"], title, "tables")]
        first = next(iter(records[0]))
        rows = {str(record[first]): record for record in records}
        keys = list(records[0])
        key = keys[int(column) - 1] if column.isdigit() else named(keys, column, "columns")
        value = rows[named(rows, row, "rows")][key]
    return value if factor == 1.0 else value * factor


def with_results(results, text):
    """Returns the README's text with its numbers replaced by those of the results."""
    if len(TABLE.findall(text)) != len(re.findall(r"<!-- results:", text)):
        raise ValueError("a `<!-- results: TITLE -->` is not followed by a table")
    if len(INLINE.findall(text)) != len(re.findall(r"<!--=", text)):
        raise ValueError("a `<!--= … -->` does not follow a number")
    text = TABLE.sub(lambda match: with_table(results, match), text)
    return INLINE.sub(lambda match: with_values(match[1], value_of(results, match[3])) + match[2], text)


def quoted(root, page, taken):
    """Returns the text of `page`, a study's README, with quoted code and results updated, and the files to copy into its
    folder: results.json and the pictures shown there, if `taken`/NAME has a results.json. Raises ValueError or LookupError
    if the results are those of a run with --short or lack a quoted one."""
    source = taken / page.parent.name if taken else page.parent
    if not (source / "results.json").exists():
        source = page.parent
    text = with_quotes(root, page.read_text())
    if not (source / "results.json").exists():
        if re.search(r"<!--=|<!-- results:", text):
            raise ValueError("it shows results, and has no results.json")
        return text, []
    results = json.loads((source / "results.json").read_text())
    if results["short"]:
        raise ValueError(f"{source} is of a short run; run the study without --short")
    shown = [picture for picture in results["pictures"] if (page.parent / picture).exists()]
    files = [source / name for name in ["results.json", *shown]] if source != page.parent else []
    return with_results(results, text), files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a quotation differs")
    action.add_argument("--take", type=pathlib.Path, metavar="DIR", help="first copy results and pictures from DIR/NAME")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project's root")
    options = parser.parse_args()
    wrong = 0
    for page in sorted([*options.root.glob("experiments/**/README.md"), *options.root.glob("modules/README.md")]):
        name, text = str(page.relative_to(options.root)), page.read_text()
        try:
            new, files = quoted(options.root, page, options.take)
        except (LookupError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            wrong += 1
            continue
        for file in files:
            shutil.copyfile(file, page.parent / file.name)
        if new != text and options.check:
            print(*difflib.unified_diff(text.splitlines(), new.splitlines(), name, "as scripts/quote.py writes it", n=0,
                                        lineterm=""), sep="\n", file=sys.stderr)
            wrong += 1
        elif new != text:
            page.write_text(new)
            print(f"{name}: written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
