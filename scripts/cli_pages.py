#!/usr/bin/env python3
"""Generates docs/cli/PROGRAM.md from each program's --help: a table per group of flags, at most 1,200 words per page.

Writes the pages of the programs in --build and removes those that are no longer needed; with --check, reports an error
for each page that differs. Skips programs that aren't built."""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["train", "generate", "chat", "serve", "perplexity", "explain", "tokenize", "inspect", "export", "verify",
            "bench"]
MOST_WORDS = 1150  # maximum number of words per page, without its title


def help_of(program, *subcommand):
    return subprocess.run([program, *subcommand, "--help"], capture_output=True, text=True, check=True).stdout


def sections_of(text):
    """Returns (description, usage, [(title, flags, lines)]); flags are [flag, meaning] pairs, lines are verbatim."""
    description, usage, sections = "", "", []
    for line in text.rstrip().splitlines():
        heading = re.match(r"(\S[^:]*):(\s.*)?$", line)
        flag = re.match(r" {1,4}(\S.*?)(?: {2,}(\S.*))?$", line)
        if line.startswith("Usage:") or line.startswith("usage:"):
            usage = line.partition(":")[2].strip()
        elif not usage:
            description = f"{description} {line}".strip()
        elif heading and len(heading[1].split()) < 5:
            sections.append((heading[1], [], [line] if heading[2] else []))
        elif sections and sections[-1][0] and sections[-1][2] and line.strip():
            sections[-1][2].append(line)
        elif sections and flag:
            sections[-1][1].append([flag[1], flag[2] or ""])
        elif sections and sections[-1][1] and line.startswith(" " * 8):
            sections[-1][1][-1][1] = f"{sections[-1][1][-1][1]} {line.strip()}".strip()
        elif line.strip() and sections and sections[-1][0] == "":  # a paragraph of several lines
            sections[-1][2][0] += f" {line.strip()}"
        elif line.strip():
            sections.append(("", [], [line.strip()]))
    return description, usage, sections


def as_markdown(title, flags, lines, level="##"):
    if not title:
        return "\n".join(lines) + "\n"
    if lines:
        return f"{level} {title}\n\n" + "\n".join("    " + line for line in lines) + "\n"
    rows = "".join(f"| `{flag}` | {meaning} |\n".replace("|  |", "| |")
                   for flag, meaning in ([text.replace("|", "\\|") for text in row] for row in flags))
    return f"{level} {title}\n\n| flag | meaning |\n|---|---|\n{rows}"


def pages_of(name, program):
    """Returns {file name: Markdown} of a program's pages."""
    description, usage, sections = sections_of(help_of(program))
    parts = [as_markdown(*section) for section in sections]
    for title, flags, _ in sections:
        for command, _ in flags if title == "Subcommands" else []:
            what, how, inner = sections_of(help_of(program, command))
            parts.append(f"## {name} {command}\n\n{what[0].upper()}{what[1:].rstrip('.')}.\n\n    {how}\n")
            parts += [as_markdown(*section, level="###") for section in inner]
    pages, words = [[]], 0
    for part in parts:
        words += len(part.split())
        if words > MOST_WORDS and pages[-1]:
            pages.append([])
            words = len(part.split())
        pages[-1].append(part)
    names = [name if i == 0 else f"{name}-{i + 1}" for i in range(len(pages))]
    note = f"Generated from `{name} --help` by `scripts/cli_pages.py`."
    links = lambda i: [f"[{'Next' if j > i else 'Previous'} groups]({names[j]}.md)." for j in (i - 1, i + 1) if 0 <= j < len(pages)]
    return {names[i]: "\n".join([f"# {names[i]}\n", f"{description.rstrip('.')}. {' '.join([note, *links(i)])}\n", f"    {usage}\n", *page])
            for i, page in enumerate(pages)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page differs")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the programs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/cli", help="folder of the pages")
    options = parser.parse_args()
    wrong = 0
    for name in PROGRAMS:
        if not (options.build / name).exists():
            continue
        pages = {options.out / f"{page}.md": text for page, text in pages_of(name, options.build / name).items()}
        for file in sorted({*pages, *options.out.glob(f"{name}-[0-9].md")}):
            text = pages.get(file)
            if (file.read_text() if file.exists() else None) == text:
                continue
            if options.check:
                print(f"{file}: differs from {name} --help; run scripts/cli_pages.py", file=sys.stderr)
                wrong += 1
            elif text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
