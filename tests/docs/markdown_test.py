"""Checks the Markdown pages: links and anchors exist, code is marked as code, pages and tables are short, docs/cli
matches the programs' --help, and every study is listed."""

import functools
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = re.compile(r"(build.*|runs|gpu_results|__pycache__|node_modules)$")


def markdown_pages():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not SKIPPED.match(f) and (not f.startswith(".") or f == ".github"))
        yield from (pathlib.Path(folder, name) for name in sorted(files) if name.endswith(".md"))


PAGES = list(markdown_pages())
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^\s*(```+|~~~+)")
LIST_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s")


def kinds_of_lines(text):
    """Yields (number, line, kind), where kind is blank, fenced, code (indented by four spaces), list or text.

    Indented lines below a list item are of kind list, too."""
    fence, in_list, last = None, False, "blank"
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence:
            kind = "fenced"
            if mark and mark.group(1).startswith(fence):
                fence = None
        elif mark:
            kind, fence = "fenced", mark.group(1)
        elif not line.strip():
            kind = "blank"
        elif LIST_ITEM.match(line) and (in_list or not line.startswith("    ")):
            kind, in_list = "list", True
        elif in_list and (line.startswith(" ") or last == "list"):
            kind = "list"
        else:
            in_list = False
            kind = "code" if re.match(r"    |\t", line) else "text"
        yield number, line, kind
        last = kind
    if fence:
        yield number + 1, f"{fence} is never closed", "open fence"


# Matches the beginning of a line that is a command or code rather than prose.
COMMAND = re.compile(
    r"\$ |\.{1,2}/|[A-Z_]{3,}=\S|(build|scripts|runs)/|#include|import \w|from [\w.]+ import |"
    r"[\w.]+ = \S.*[^.:]$|[\w.]+\(.*\)\s*(#.*)?$|"
    r"(apt-get|cd|cmake|ctest|curl|docker|export|git|make|mkdir|ninja|pip|pytest|python3?|sudo|torchrun|uv|wget) ")


def lost_indents(text):
    """Returns "LINE: problem" for lines of commands or code that would be rendered as prose."""
    found, last = [], ("", "blank")
    lines = list(kinds_of_lines(text))
    for i, (number, line, kind) in enumerate(lines):
        prose = re.sub(r"`[^`]*`|<!--.*?-->", "`", line)
        is_heading = re.match(r"#{1,6} ", line) is not None
        is_prose = kind == "text" and not is_heading and not line.startswith(("|", "<", "!["))
        ends = i + 1 == len(lines) or lines[i + 1][2] == "blank"
        leads_to_code = any(next_kind in ("code", "fenced") for *_, next_kind in lines[i + 2:i + 3])
        if kind == "open fence":
            found.append(f"{number}: {line}")
        elif kind == "text" and last[1] == "code":
            found.append(f"{number}: follows indented code without a blank line: {line}")
        elif kind == "code" and last[1] == "text" and not last[0].startswith("#"):
            found.append(f"{number}: indented code directly below text is rendered as text: {line}")
        elif is_prose and (re.search(r"\S {3,}\S|[─▶│]", prose) or (last[1] == "blank" and COMMAND.match(line))):
            found.append(f"{number}: code that is not indented: {line}")
        elif is_prose and ends and not leads_to_code and not re.search(r"[.:!?)`*_]$", line):
            found.append(f"{number}: code that is not indented, or a paragraph that doesn't end: {line}")
        last = line, kind
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_code_is_marked_as_code(page):
    assert lost_indents(page.read_text()) == []


PAGE = """\
# Title

Some text, of two
lines.

    build/serve -m FILE      # prints its address
    build/chat -m FILE

1. A step:

        make demo

   and more text.

```python
client = OpenAI()
```
"""


def test_every_kind_of_code_is_accepted():
    assert lost_indents(PAGE) == []


@pytest.mark.parametrize("code", ["build/serve -m FILE", "build/serve -m FILE\n    build/chat", "    build/chat\nbuild/serve",
                                  "make smollm2", "FOLIO_ISA=avx2 build/bench", "client = OpenAI()", "model.generate()",
                                  "from folio import Model", "loss = -ln p", "```\nbuild/serve"])
def test_unindented_code_is_detected(code):
    assert lost_indents(f"Text.\n\n{code}\n")


def rendered(text):
    """Returns the text in which links are checked: without code blocks, code spans and comments."""
    lines = [line for _, line, kind in kinds_of_lines(text) if kind not in ("fenced", "code")]
    return re.sub(r"`[^`\n]*`|<!--.*?-->", "", "\n".join(lines), flags=re.S)


LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]+)\"", re.M)


def links_of(text):
    return ["".join(groups) for groups in LINK.findall(rendered(text))]


@functools.cache
def anchors_of(page):
    """Returns the anchors of a page: those that GitHub generates for headings, and explicit ones."""
    text, anchors = page.read_text(), set()
    for _, line, kind in kinds_of_lines(text):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line) if kind == "text" else None
        if not heading:
            continue
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        n = sum(a == slug or re.fullmatch(re.escape(slug) + r"-\d+", a) is not None for a in anchors)
        anchors.add(f"{slug}-{n}" if slug in anchors else slug)
    return anchors | set(re.findall(r"<a (?:name|id)=\"([^\"]+)\"", text))


def broken_links(page, text):
    broken = []
    for link in links_of(text):
        if re.match(r"[a-z][a-z0-9+.-]*:|//|\.\./\.\./actions/", link, re.I):  # "../../actions" is on GitHub
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(ROOT) or not target.exists():
            broken.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors_of(target):
            broken.append(f"{link}: no such heading; there are {', '.join(sorted(anchors_of(target)))}")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_and_anchors_exist(page):
    assert broken_links(page, page.read_text()) == []


def test_broken_links_are_detected():
    page = ROOT / "README.md"
    sound = "[a](docs/server.md#prompts) [b](#learn) `[c](nowhere.md)` [d](https://example.org)"
    assert broken_links(page, sound) == []
    for link in ["docs/nowhere.md", "docs/server.md#nowhere", "#nowhere", "../elsewhere.md"]:
        assert len(broken_links(page, f"Text, [so]({link}).")) == 1, link


def test_every_study_is_listed():
    links = links_of((ROOT / "experiments/README.md").read_text())
    studies = {main.parent.name for main in (ROOT / "experiments").glob("[0-9][0-9]_*/main.cpp")}
    assert studies - {name for name in studies if any(f"{name}/README.md" in link for link in links)} == set()


WORDS = {ROOT / "README.md": 900, ROOT / "BENCHMARKS.md": 2200, ROOT / "CHANGELOG.md": 1600}
WORDS |= {page: 1200 for page in PAGES if page.is_relative_to(ROOT / "docs")}
GENERATED = ROOT / "docs/cli"  # table cells are copied from --help and may be long


def cells_of(row):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def excesses(text, most_words, most_of_a_cell=12, most_sentences=4):
    """Returns "LINE: problem" for a page or table cell with too many words and a paragraph with too many sentences."""
    found = [f"1: {len(text.split())} words, {most_words} allowed"] if len(text.split()) > most_words else []
    paragraph = []
    for number, line, kind in [*kinds_of_lines(text), (0, "", "blank")]:
        line = re.sub(r"\]\([^)]*\)", "]", line)
        is_prose = kind == "text" and not line.startswith(("|", "#", "<", "!["))
        if kind == "text" and line.startswith("|"):
            found += [f"{number}: a cell of {len(cell.split())} words: {cell}" for cell in cells_of(line)
                      if len(cell.split()) > most_of_a_cell and not COMMAND.match(cell.strip("`"))]
        if is_prose:
            paragraph.append((number, re.sub(r"`[^`]*`", "`", line)))
        elif paragraph:
            sentences = len(re.findall(r"[.!?]\W*(?:\s|$)", " ".join(line for _, line in paragraph)))
            if sentences > most_sentences:
                found.append(f"{paragraph[0][0]}: a paragraph of {sentences} sentences")
            paragraph = []
    return found


@pytest.mark.parametrize("page", WORDS, ids=[str(page.relative_to(ROOT)) for page in WORDS])
def test_guides_are_short(page):
    assert excesses(page.read_text(), WORDS[page], 1000 if page.is_relative_to(GENERATED) else 12) == []


@pytest.mark.parametrize("fault", ["word " * 1200, "| a | " + "word " * 13 + "|", "One. Two. Three? Four! Five."])
def test_long_pages_cells_and_paragraphs_are_detected(fault):
    sound = PAGE + "\n| a | `b \\| c` |\n|---|---|\n| d | " + "word " * 12 + "|\n\nOne.\nTwo. Three. Four: 0.5 of it.\n"
    assert excesses(sound, 1200) == []
    assert len(excesses(f"{sound}\n{fault}\n", 1200)) == 1


BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))


def cli_pages(folder):
    return subprocess.run([sys.executable, ROOT / "scripts/cli_pages.py", "--check", "--build", BUILD, "--out", folder],
                          capture_output=True, text=True)


def test_pages_match_help_output(tmp_path):
    """docs/cli matches --help of the programs that are built; changed pages and those of no output are reported."""
    assert cli_pages(GENERATED).stderr == ""
    for page in GENERATED.glob("*.md"):
        (tmp_path / page.name).write_text(page.read_text().replace("`--version` |", "`--versoin` |"))
    (tmp_path / "generate-9.md").touch()
    if (BUILD / "generate").exists():
        done = cli_pages(tmp_path)
        assert done.returncode == 1
        for name in ("generate", "generate-9"):
            assert f"{name}.md: differs from generate --help" in done.stderr
