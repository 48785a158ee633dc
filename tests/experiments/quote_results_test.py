"""Tests how scripts/quote.py quotes results.json in the READMEs of experiments/."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "quote.py"

RESULTS = {
    "short": False,
    "tables": {"Losses of 3 seeds": [{"": "one head", "loss": 2.5494, "bytes": 26411597824, "against": None},
                                     {"": "four heads", "loss": 2.4831, "bytes": 512, "against": "-0.065 [-0.097, -0.034]"}]},
    "values": {"seconds": 0.8712}, "results": [{"text": "share that is wasted", "measured": 0.0578}],
    "pictures": ["a.svg"],
}
PAGE = """\
# A study of 12 things

<!-- results: Losses -->
| | loss | bytes | against |
|---|--:|--:|--:|
| one head | **2.549** | 26,411,597,824 | |
| 4 heads | 2.48 | 512 | −0.065 [−0.097, −0.034] |

It took 0.87 s<!--= value | seconds -->, and wasted 5.8 %<!--= result | wasted | * 100 -->; four heads have
2.483<!--= Losses | four heads | loss -->, which is 512<!--= Losses | four | 3 --> bytes.
"""


def run(tmp_path, page, *arguments, results=RESULTS):
    folder = tmp_path / "experiments" / "study"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(page)
    (folder / "results.json").write_text(json.dumps(results))
    done = subprocess.run([sys.executable, SCRIPT, "--root", tmp_path, *arguments], capture_output=True, text=True)
    return done, (folder / "README.md").read_text()


def test_matching_numbers_are_accepted(tmp_path):
    done, page = run(tmp_path, PAGE, "--check")
    assert done.returncode == 0 and page == PAGE, done.stderr


@pytest.mark.parametrize("number,wrong", [("2.549", "2.548"), ("26,411,597,824", "26,411,597,825"), ("2.48 |", "2.49 |"),
                                          ("−0.034", "−0.035"), ("−0.097", "0.097"), ("0.87 s", "0.86 s"), ("5.8 %", "5.7 %"),
                                          ("2.483<", "2.484<"), ("512<", "511<")])
def test_wrong_numbers_are_detected_and_corrected(tmp_path, number, wrong):
    assert PAGE.count(number) == 1
    done, page = run(tmp_path, PAGE.replace(number, wrong), "--check")
    assert done.returncode == 1 and wrong in done.stderr and page != PAGE
    done, page = run(tmp_path, PAGE.replace(number, wrong))
    assert done.returncode == 0 and page == PAGE, done.stderr


@pytest.mark.parametrize("marker,message", [("results: Losses -->\n| |", "results: Bytes -->\n| |"),
                                            ("value | seconds", "value | hours"), ("four heads | loss", "five heads | loss"),
                                            ("0.87 s<", "some s<"), ("| 4 heads |", "| 4 heads | 1 |"),
                                            ("<!-- results: Losses -->\n", "<!-- results: Losses -->\n\n")])
def test_marker_without_a_result_is_an_error(tmp_path, marker, message):
    assert PAGE.count(marker) == 1
    done, _ = run(tmp_path, PAGE.replace(marker, message), "--check")
    assert done.returncode == 1 and done.stderr.startswith("experiments/study/README.md: "), done.stderr


def test_numbers_that_would_lose_all_digits_are_rejected(tmp_path):
    done, page = run(tmp_path, PAGE.replace("0.87 s", "0.9 s"), results={**RESULTS, "values": {"seconds": 0.003}})
    assert done.returncode == 1 and "0.003 has no digit" in done.stderr and "0.9 s" in page


def test_columns_and_rows_can_be_selected(tmp_path):
    page = "<!-- results: Losses | columns 1 3 | rows 2 -->\n| | bytes |\n|---|--:|\n| four | 7 |\n"
    done, page = run(tmp_path, page)
    assert done.returncode == 0 and "| four | 512 |\n" in page, done.stderr


def test_short_runs_are_rejected(tmp_path):
    assert run(tmp_path, PAGE, "--check", results={**RESULTS, "short": True})[0].returncode == 1
    runs = tmp_path / "runs" / "study"
    runs.mkdir(parents=True)
    (runs / "results.json").write_text(json.dumps({**RESULTS, "short": True}))
    assert "without --short" in run(tmp_path, PAGE, "--take", tmp_path / "runs")[0].stderr
    (runs / "results.json").write_text(json.dumps({**RESULTS, "tables": {"Losses": []}}))  # of a part of the study
    assert run(tmp_path, PAGE, "--take", tmp_path / "runs")[0].stderr.startswith("experiments/study/README.md: ")
    assert json.loads((tmp_path / "experiments" / "study" / "results.json").read_text()) == RESULTS
    (runs / "results.json").write_text(json.dumps({**RESULTS, "values": {"seconds": 0.5}}))
    (runs / "a.svg").write_text("new")
    (tmp_path / "experiments" / "study" / "a.svg").write_text("old")
    done, page = run(tmp_path, PAGE, "--take", tmp_path / "runs")
    assert done.returncode == 0 and "0.50 s" in page
    assert (tmp_path / "experiments" / "study" / "a.svg").read_text() == "new"


STUDIES = [page for page in sorted((ROOT / "experiments").glob("[0-9]*/README.md")) if (page.parent / "results.json").exists()]


@pytest.mark.parametrize("page", STUDIES, ids=lambda page: page.parent.name)
def test_every_results_table_has_a_marker(page):
    shown = page.read_text().split("\n## What comes out\n")[-1].split("\n## Exercises\n")[0]
    for before, table in re.findall(r"([^\n]*)\n((?: *\|[^\n]*\n)+)", shown):
        assert "<!-- results: " in before or not re.search(r"\d[.,]\d", table), f"no marker above\n{table}"
