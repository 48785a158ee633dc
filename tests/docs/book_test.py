"""Tests the book that `make book` built, without a network: links, formulas, search, and the layout in a browser. Also
tests that a broken link fails a build, and that the numbers in the diagrams of docs/pictures match the code."""

import functools
import html.parser
import pathlib
import re
import shutil
import subprocess
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOOK, VENV = ROOT / "build" / "book", ROOT / "build" / "venv-book"
built = pytest.mark.skipif(not (BOOK / "index.html").exists(), reason="make book builds it")
# Made only if the program explain and a trained model exist. tests/apps/files/explain_test.py tests such pages.
EXPLAIN = BOOK / "explain.html"
CHROMIUM = shutil.which("chromium")
HANG = 120_000  # ms


class Reader(html.parser.HTMLParser):
    """Collects a page's anchors, the URLs of its links and of the files that it loads, and its text without code."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.tables, self.prose, self.code = {""}, [], [], [], "", 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.code += tag in ("code", "pre")
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        if tag == "table":
            self.tables.append(values.get("class", ""))
        for key in ("href", "src"):
            if key in values:
                (self.links if tag == "a" else self.loads).append(values[key])
        if tag == "meta" and values.get("http-equiv") == "refresh":
            self.links.append(values["content"].partition("url=")[2])

    def handle_endtag(self, tag):
        self.code -= tag in ("code", "pre")

    def handle_data(self, data):
        self.prose += "" if self.code else data


@functools.cache
def read(page):
    return Reader(page.read_text())


def target_of(page, link):
    """Returns the target file and anchor of a relative link, or None for an external link."""
    address = urllib.parse.urlsplit(link)
    if address.scheme or address.netloc:
        return None
    path = urllib.parse.unquote(address.path)
    return ((page.parent / path).resolve() if path else page), urllib.parse.unquote(address.fragment)


def reachable():
    """Follows all links, starting at index.html. Returns the set of files found and the list of broken links."""
    found, broken, left = set(), [], [BOOK / "index.html"]
    while left:
        page = left.pop()
        if page in found:
            continue
        found.add(page)
        if page.suffix != ".html" or page == EXPLAIN:
            continue
        for link in [*read(page).links, *read(page).loads]:
            target = target_of(page, link)
            if target and not target[0].is_file():
                broken.append(f"{page.relative_to(BOOK)}: {link}")
            elif target:
                left.append(target[0])
                if target[0].suffix == ".html" and target[1] not in read(target[0]).anchors:
                    broken.append(f"{page.relative_to(BOOK)}: {link}")
    return found, broken


@built
def test_every_page_is_reachable_and_no_link_is_broken():
    found, broken = reachable()
    assert broken == []
    pages = {page for page in BOOK.rglob("*.html") if page.name != "genindex.html" and "_static" not in page.parts}
    assert sorted(pages - found) == []
    markdown = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/*/README.md"), ROOT / "README.md"]
    assert {BOOK / page.relative_to(ROOT).with_suffix(".html") for page in markdown} <= found


@built
def test_pages_load_nothing_from_a_network():
    remote = [f"{page.name}: {address}" for page in BOOK.rglob("*.html") for address in read(page).loads
              if target_of(page, address) is None and not address.startswith("data:")]
    assert remote == []
    for sheet in BOOK.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text()), sheet


@built
def test_studies_and_rungs_begin_with_a_table():
    for main in ROOT.glob("experiments/[0-9][0-9]_*/main.cpp"):
        page = BOOK / "experiments" / main.parent.name / "README.html"
        assert "chapter" in read(page).tables[0], page
        text = page.read_text()
        table = text[text.index("<table class=\"chapter"):text.index("</table>")]
        for row in ("you need", "minutes", "you run", "its tests check"):
            assert row in table, f"{page}: {row}"
        assert f"build/experiments/{main.parent.name}" in table
    rungs = ROOT.glob("experiments/growing/[0-9][0-9]_*.h")
    tables = read(BOOK / "experiments/growing/README.html").tables
    assert sum("chapter" in classes for classes in tables) == len(list(rungs)) == 11


@built
def test_comments_are_invisible():
    for page in BOOK.glob("experiments/*/README.html"):
        assert "<!--" not in read(page).prose and "-->" not in read(page).prose, page


@pytest.fixture(scope="module")
def visit():
    """Returns visit(address, width, theme), which opens a page of the book offline. Errors and requests to a network
    fail the test."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, wrong = browser.new_page(), []
        page.set_default_timeout(HANG)
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        page.on("requestfailed", lambda request: wrong.append(f"{page.url}: {request.url} failed"))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or wrong.append(request.url))

        def opened(address, width=1280, theme="light"):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=theme)
            page.goto(f"file://{BOOK}/{address}")
            assert wrong == []
            return page

        yield opened
        browser.close()


@built
def test_index_opens_and_search_works_from_files(visit):
    page = visit("index.html")
    page.wait_for_url("**/README.html")
    page = visit("search.html?q=preempted")
    page.wait_for_selector("#search-results li a[href*='21_scheduling']")
    page = visit("search.html?q=zyzzyva")
    page.wait_for_selector("#search-results :text('did not match')")


# Returns the elements of the main text that extend past the window's right edge, unless a box that scrolls and fits
# contains them. Comparing the page's width wouldn't find them, because the theme hides or scrolls the overflow.
CUT_OFF = """() => {
  const main = document.querySelector("[role=main]");
  const ends = element => element.getBoundingClientRect().right <= innerWidth + 1;
  const scrolls = e => /auto|scroll/.test(getComputedStyle(e).overflowX) && ends(e);
  const inside = e => e !== main && (scrolls(e) || inside(e.parentElement));
  return [...main.querySelectorAll("*")].filter(e => !ends(e) && !inside(e)).map(e => e.outerHTML.slice(0, 100));
}"""


@built
@pytest.mark.parametrize("width", [360, 1280, 1600])
def test_nothing_is_cut_off_at_any_width(visit, width):
    pages = [page.relative_to(BOOK) for page in BOOK.rglob("*.html") if "_static" not in page.parts and page != EXPLAIN]
    pages.remove(pathlib.Path("index.html"))  # redirects to README.html
    prose = [page for page in pages if page.parts[0] != "source"]
    if width == 1600:  # a sample suffices, as this is the layout for 1280 with wider margins
        prose = sorted(prose)[::8]
    listings = sorted(page for page in pages if page.parts[0] == "source")[::25]
    cut = {str(page): visit(page, width).evaluate(CUT_OFF) for page in [*prose, *listings]}
    assert {page: elements for page, elements in cut.items() if elements} == {}
    page = visit("README.html", width)
    page.evaluate("document.querySelector('[role=main] p').innerHTML = '<i style=\"padding-left: 2000px\">x</i>'")
    assert page.evaluate(CUT_OFF) != []


@built
def test_dark_and_light_follow_the_system(visit):
    background = "getComputedStyle(document.body).backgroundColor"
    lightness = {theme: sum(map(int, re.findall(r"\d+", visit("README.html", theme=theme).evaluate(background))[:3]))
                 for theme in ("light", "dark")}
    assert lightness["dark"] < 3 * 64 and lightness["light"] > 3 * 192


PAGE = """# Title

[code](code.h), [the page](page.md#title){0}

The mean is $\\frac{{1}}{{n}} \\sum_i x_i$, and it costs $5.

```math
y = \\sqrt{{x}}
```
"""


def build(folder, more):
    """Builds a book of one page that contains the text `more`. Returns the process and the path of the page."""
    (folder / "page.md").write_text(PAGE.format(more))
    (folder / "code.h").write_text("int x;\n")
    command = [VENV / "bin/python", "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-c", ROOT / "scripts/book",
               "-D", "root_doc=page", "-D", "include_patterns=page.md", folder, folder / "out"]
    return subprocess.run(command, capture_output=True, text=True), folder / "out/page.html"


@pytest.fixture
def generator():
    if not (VENV / "bin/python").exists():
        pytest.skip("make book installs the generator")


def test_formulas_need_no_script(generator, tmp_path):
    result, page = build(tmp_path, "")
    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert len(re.findall("<math ", text)) == 2 and "<mfrac>" in text and "<msqrt>" in text and "costs $5" in text
    assert not any("mathjax" in address for address in read(page).loads)


def test_broken_links_fail_the_build(generator, tmp_path):
    links = ["[a](gone-1.h)", "[a](gone-2.md)", "[a](#gone-3)", "![a](gone-4.svg)", "[a](page.md#gone-5)"]
    result, _ = build(tmp_path, " and " + ", ".join(links))
    assert result.returncode != 0
    for i in range(1, 6):
        assert f"gone-{i}" in result.stderr, result.stderr


def number(file, pattern):
    return int(re.search(pattern, (ROOT / file).read_text())[1])


def picture(name):
    return re.sub(r"<[^>]*>", " ", (ROOT / "docs/pictures" / name).read_text().split("</defs>")[1])


def test_diagrams_have_the_default_models_shapes():
    config = "src/core/model_config.h"
    dim, layers, heads, kv_heads, hidden = (number(config, rf"int64_t {name} = (\d+);") for name in (
        "dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim"))
    assert kv_heads == heads, "the pictures show as many key/value heads as heads"
    per_block = number("infer/cache/prefix_index.h", r"kBlockPositions = (\d+);")
    head, tokens = dim // heads, 65 + 1  # characters of TinyShakespeare, and <|endoftext|>
    assert shapes("block.svg") == {("T", dim), (dim, dim), ("T", head), ("T", "T"), ("T", hidden), (hidden, dim),
                                   (dim, hidden), (tokens, dim), ("T", tokens)}
    assert shapes("head.svg") == {("T", dim), ("T", head), ("T", "T")}
    assert shapes("cache.svg") == {(per_block, dim)}
    for name, words in [("block.svg", f"{layers} blocks of dim {dim}, {heads} heads of {head}, feed-forward {hidden}"),
                        ("head.svg", f"a head of {head} elements, one of {heads}, in a model of dim {dim}"),
                        ("cache.svg", f"blocks of {per_block}"), ("cache.svg", f"all {layers} layers")]:
        assert words in picture(name), name


def shapes(name):
    found = re.findall(r"\[(\w+), (\w+)\]", picture(name))
    return {tuple(int(size) if size.isdigit() else size for size in shape) for shape in found}


def test_diagram_of_a_step_is_one_of_the_trace():
    """Compares the diagram with the steps of 21_scheduling's trace: decode rows first, then prompts, oldest first."""
    requests = (ROOT / "experiments/21_scheduling/requests.h").read_text()
    trace = re.findall(r"Arrival\{'(\w)', 0, (\d+),", requests)
    budget, steps = number("experiments/21_scheduling/schedule.h", r"kChunked = (\d+);"), []
    computed = {name: 0 for name, _ in trace}
    for _ in range(5):
        left, rows = budget, {}
        for decodes in (True, False):
            for name, prompt in trace:
                if (computed[name] >= int(prompt)) == decodes and left > 0:
                    rows[name] = 1 if decodes else min(left, int(prompt) - computed[name])
                    left -= rows[name]
        computed = {name: computed[name] + rows.get(name, 0) for name in computed}
        steps.append(rows)
    assert steps[3] == {"a": 1, "b": 22, "c": 9} and steps[4] == {"a": 1, "b": 1, "c": 11, "d": 8}
    text = picture("step.svg")
    for words in ("step 3 of the trace", "1 of a", "22 of b", "9 of c", f"budget: {budget} rows",
                  "positions 82 – 103 of 104", "positions 0 – 8 of 20", "position 14",
                  "the last 11 of c and all 8 of d: 21 rows"):
        assert words in text, words
    assert shapes("step.svg") == {(budget, number("src/core/model_config.h", r"int64_t dim = (\d+);")), (2, 65 + 1)}
