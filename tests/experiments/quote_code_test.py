"""Tests how scripts/quote.py quotes code, the quotations of all READMEs, and the total length of the pages that
experiments/README.md lists under "The first read"."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "quote.py"

SOURCE = """\
namespace {
  int twice(int x) {
    if (x == '}') return 0;  // }
    return 2 * x;
  }
  const int four = twice(
      2);
}
"""


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)


def readme(tmp_path, start, block="old\n"):
    folder = tmp_path / "experiments" / "study"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code.h").write_text(SOURCE)
    file = folder / "README.md"
    file.write_text(f"Above.\n\n<!-- code: experiments/study/code.h | {start} -->\n```cpp\n{block}```\n\nBelow.\n")
    return file


def test_quotations_are_up_to_date():
    result = run("--check")
    assert result.returncode == 0, result.stderr


def test_definition_is_quoted_to_its_closing_brace(tmp_path):
    file = readme(tmp_path, "int twice")
    assert run("--check", "--root", tmp_path).returncode == 1
    assert run("--root", tmp_path).returncode == 0
    body = "int twice(int x) {\n  if (x == '}') return 0;  // }\n  return 2 * x;\n}\n"
    assert f"```cpp\n{body}```\n\nBelow.\n" in file.read_text()
    assert run("--check", "--root", tmp_path).returncode == 0


def test_statement_is_quoted_to_its_semicolon(tmp_path):
    file = readme(tmp_path, "const int four")
    run("--root", tmp_path)
    assert "```cpp\nconst int four = twice(\n    2);\n```" in file.read_text()


def test_number_of_lines_can_be_given(tmp_path):
    file = readme(tmp_path, "int twice | 2 lines")
    run("--root", tmp_path)
    assert "```cpp\nint twice(int x) {\n  if (x == '}') return 0;  // }\n```" in file.read_text()


def test_errors_name_what_cannot_be_quoted(tmp_path):
    for start, message in [("int thrice", "0 lines contain"), ("x", "lines contain"),
                           ("int twice | 99 lines", "no 99 lines")]:
        readme(tmp_path, start)
        result = run("--root", tmp_path)
        assert result.returncode == 1 and message in result.stderr, result.stderr
    readme(tmp_path, "int twice").write_text("<!-- code: experiments/study/code.h | int twice -->\nno block\n")
    assert "not followed by a fenced block" in run("--root", tmp_path).stderr


def test_first_read_has_fewer_than_12000_words():
    folder = ROOT / "experiments"
    text = (folder / "README.md").read_text()
    table = text.split("## The first read\n")[1].split("\n## ")[0]
    pages = {"README.md", *re.findall(r"\]\((\w+/README\.md)\)", table)}
    assert {"growing/README.md", "exercises/README.md"} < pages
    reference = re.compile(r"<!--.*?-->|^## The code, part by part\n.*?(?=^## )", re.M | re.S)
    words = [len(reference.sub("", (folder / page).read_text()).split()) for page in pages]
    assert sum(words) < 12_000
