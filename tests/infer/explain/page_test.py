"""Tests an explanation's page in a browser: it shows its JSON's values, and sends requests only for experiments."""

import base64
import copy
import decimal
import itertools
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "apps"))  # for support.py

from browser import browser, expect, watched  # noqa: E402, F401
from support import BUILD, GOLDEN, ROOT, run  # noqa: E402

PAGE = ROOT / "infer" / "explain" / "page.html"
SECTIONS = ["maps", "attribution", "everywhere", "sizes", "experts", "operations", "experiments"]
WORDS = ["The", " cat", "\n", "<img src=x onerror=\"document.title='owned'\">", "</script><!--<script>", "", " naïve", "\t", "�",
         "\u202e", " " + "long" * 20, "`${alert(1)}`"]


def explanation(n_tokens=9, n_layers=3, n_heads=4, vocab=40, seed=1):
    """Returns the JSON of an explanation with random values, and attention as an array [layer, head, row, position]."""
    random = np.random.default_rng(seed)
    text_of = {str(i): WORDS[i] if i < len(WORDS) else f" w{i}" for i in range(vocab)}
    ids = [*range(len(WORDS)), *random.integers(0, vocab, n_tokens).tolist()][:n_tokens]
    weights = np.exp(3 * random.normal(size=(n_layers, n_heads, n_tokens, n_tokens))) * np.tri(n_tokens)
    bytes_ = np.round(255 * weights / weights.sum(-1, keepdims=True)).astype(np.uint8)

    def four(x):
        return float(f"{x:.4g}")

    def likeliest(n):
        p = np.sort(random.dirichlet(np.full(vocab, 0.1)))[::-1][:n]
        return [[int(token), four(value)] for token, value in zip(random.permutation(vocab), p)]

    def row_of_lens(_):
        return {"top": likeliest(5), "rank": int(random.integers(1, vocab)), "p": four(random.random())}

    lens = [[row_of_lens(row) for row in range(n_tokens)] for _ in range(n_layers + 1)]
    attribution = []
    for row in range(n_tokens):
        lens[-1][row]["rank"] = 1
        heads, bias, ffn = (random.normal(size=size).tolist() for size in ((n_layers, n_heads), n_layers, n_layers))
        attribution.append({"token": lens[-1][row]["top"][0][0], "logit": four(12 + row), "embedding": four(random.normal()),
                            "heads": [[four(x) for x in layer] for layer in heads], "attention_bias": [four(x) for x in bias],
                            "replaced": [False] * n_layers, "ffn": [four(x) for x in ffn], "remainder": 1.5e-6})
    candidates = [{"list": [[token, four(20 - i), p] for i, (token, p) in enumerate(likeliest(20))], "top_k": 40,
                   "top_p": 7, "min_p": 3 + 4 * (row % 2)} for row in range(n_tokens)]
    experts = [None, *([[[int(e), four(w)] for e, w in zip(random.permutation(8)[:2], (0.75, 0.25))] for _ in range(n_tokens)]
                       for _ in range(n_layers - 1))]
    changes = {"description": ["1.2: zero"], "kl": [four(x) for x in random.random(n_tokens)], "rows": [
        {"before": likeliest(5), "after": likeliest(5), "top_change": four(random.normal())} for _ in range(n_tokens)]}
    data = {
        "version": 1,
        "model": {"name": "model<b>.gguf", "family": "llama", "type": "F32", "n_layers": n_layers, "n_heads": n_heads,
                  "n_kv_heads": 2, "dim": 48, "vocab_size": vocab, "parameters": 1234567},
        "tokens": [{"id": i, "text": text_of[str(i)]} for i in ids], "vocabulary": text_of,
        "attention": [base64.b64encode(layer[:, *np.tril_indices(n_tokens)].tobytes()).decode() for layer in bytes_],
        "lens": lens, "residual": [[four(x) for x in random.random(n_tokens)] for _ in range(n_layers + 1)],
        "attribution": attribution, "candidates": candidates, "experts": experts,
        "operations": [{"kind": "q, k, v", "shape": "9 × 48 · 48 × 96", "bytes": 36864, "ms": 0.25},
                       {"kind": "down", "shape": "9 × 96 · 96 × 48", "bytes": 1234567, "ms": 1.125}],
        "interventions": changes, "server": None}
    return data, bytes_ / 255


def html_of(data):
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    marker = "@DATA@"
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(marker) == 1
    return page.replace(marker, text)


# Returns a canvas's pixels. Reads a copy, since Chromium warns if a canvas on the GPU is read several times.
PIXELS = """canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(0, 0, canvas.width, canvas.height).data;
}"""


@pytest.fixture
def shown(browser, tmp_path):
    """Returns shown(html, **device), which opens the page. Errors, console messages and requests fail the test."""
    wrong, contexts = [], []

    def show(html, **device):
        file = tmp_path / "explain.html"
        file.write_text(html, encoding="utf-8")
        contexts.append(browser.new_context(**device))
        page = watched(contexts[-1].new_page(), wrong)
        page.on("console", lambda said: wrong.append(said.text))
        page.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert wrong == []


def visible(text):
    named = {" ": "␣", "\n": "⏎", "\t": "⇥", "\u202e": "<202e>"}
    return "".join(named.get(c, c) for c in text) or "(empty)"


def percent(p):
    up = decimal.Decimal(100 * p).quantize(decimal.Decimal("0.1"), decimal.ROUND_HALF_UP)  # as JavaScript rounds
    return f"{up} %" if p >= 0.0005 else "< 0.1 %"


def bars(page, name):
    """Returns the labels and the values of a list of bars."""
    items = page.locator(f"#{name} > li:not(.cut)")
    return [tuple(spans) for spans in items.evaluate_all(
        "items => items.map(item => [item.querySelector('.mono').textContent, item.lastChild.textContent])")]


def cells(page, name):
    return page.locator(f"#{name} tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


def value_of(text):
    return float(text.replace("−", "-").removesuffix(" %").replace(",", ""))


def same(shown_text, value):
    """Returns True if a number or percentage on the page equals the value, up to the page's rounding."""
    return math.isclose(value_of(shown_text), value, rel_tol=1e-3, abs_tol=1e-9)


def open_sections(page):
    for name in SECTIONS:
        if page.locator(f"#{name}").is_visible() and page.locator(f"#{name}").get_attribute("open") is None:
            page.locator(f"#{name} > summary").click()
        # the event that draws a section is dispatched after the click
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


def selected_row(page):
    return page.locator("#text .token").evaluate_all("all => all.findIndex(token => token.ariaSelected === 'true')")


def text_of(data, token):
    return visible(data["vocabulary"][str(token)])


def test_first_view_shows_every_token(shown):
    data, weights = explanation()
    page = shown(html_of(data))
    assert page.title() == "Folio: explain", "texts are not HTML"
    expect(page.locator("#model")).to_contain_text("model<b>.gguf · llama · 1,234,567 parameters in F32 · 3 layers of 4 heads")
    expect(page.locator("#text .token")).to_have_count(9)
    expect(page.locator("#text .token[aria-selected=true]")).to_have_text(visible(data["tokens"][8]["text"]))
    for row in [8, *range(8)]:
        page.locator("#text .token").nth(row).evaluate("token => token.click()")
        candidates = data["candidates"][row]
        assert bars(page, "next") == [(text_of(data, token), percent(p)) for token, _, p in candidates["list"]]
        follows = [one["id"] for one in data["tokens"]][row + 1:row + 2]
        marked = page.locator("#next .marked .mono").all_text_contents()
        assert marked == [text_of(data, token) for token, _, _ in candidates["list"] if token in follows]
        after_bar = page.locator("#next > li").evaluate_all(
            "items => items.flatMap((item, i) => item.className === 'cut' ? [[i, item.textContent]] : [])")
        assert after_bar == ([[7, "top-p and min-p keep the 7 above"]] if row % 2 else
                             [[3, "min-p keeps the 3 above"], [8, "top-p keeps the 7 above"]])
        expect(page.locator("#next-reading")).to_contain_text("top-k keeps 40 tokens.")

        levels = ["embedding", "layer 0", "layer 1", "layer 2"]
        assert cells(page, "lens") == [
            [name, text_of(data, lens[row]["top"][0][0]), percent(lens[row]["top"][0][1]), "", str(lens[row]["rank"])]
            for name, lens in zip(levels, data["lens"])]
        led = list(itertools.takewhile(lambda level: data["lens"][level][row]["rank"] == 1, [3, 2, 1, 0]))[-1]
        final = text_of(data, data["lens"][-1][row]["top"][0][0])
        expect(page.locator("#decided")).to_have_text(f"“{final}” leads from {'the ' * (led == 0)}{levels[led]} on.")

        mean = weights[:, :, row, :row + 1].mean((0, 1))
        expected = sorted(zip(mean, (visible(one["text"]) for one in data["tokens"])), key=lambda pair: -pair[0])[:8]
        assert bars(page, "looked") == [(name, percent(weight)) for weight, name in expected if weight > 0]
        coloured = page.locator("#text .token").evaluate_all("all => all.map(one => +one.style.getPropertyValue('--weight'))")
        scale = max([*mean[1:], 1e-3])
        assert np.allclose(coloured[:row + 1], np.minimum(1, mean / scale), atol=1e-3)
        assert coloured[row + 1:] == [0] * (8 - row), "a token doesn't look at later ones"
        expect(page.locator("#text .token.later")).to_have_count(8 - row)


def test_a_layer_and_a_head_can_be_chosen(shown):
    data, weights = explanation()
    page = shown(html_of(data))
    page.locator("#layer").select_option("1")
    assert bars(page, "looked")[0][1] == percent(weights[1, :, 8].mean(0).max())
    page.locator("#head").select_option("2")
    assert bars(page, "looked")[0] == (visible(data["tokens"][weights[1, 2, 8].argmax()]["text"]), percent(weights[1, 2, 8].max()))
    far = weights[:, :, 8, 1:7]  # excludes the first token, the selected one and the one before it
    layer, head, at = np.unravel_index(far.argmax(), far.shape)
    assert bars(page, "far")[0] == (f"{layer}.{head} → {visible(data['tokens'][at + 1]['text'])}", percent(far.max()))
    page.locator("#far button").first.click()
    assert (page.locator("#layer").input_value(), page.locator("#head").input_value()) == (str(layer), str(head))
    assert bars(page, "looked")[0][1] == percent(weights[layer, head, 8].max())
    page.locator("#looked button").nth(1).click()
    second = weights[layer, head, 8].argsort()[-2]
    assert selected_row(page) == second


def test_lines_join_a_token_to_those_that_it_looks_at(shown):
    data, weights = explanation(seed=3)
    page = shown(html_of(data))
    expect(page.locator("#text path")).to_have_count(0)
    page.locator("#text .token").nth(6).hover()
    mean = weights[:, :, 6, :7].mean((0, 1))
    expect(page.locator("#text path")).to_have_count(int((mean[:6] >= 0.01).sum()))
    widths = sorted(float(path.get_attribute("stroke-width")) for path in page.locator("#text path").all())
    assert np.allclose(widths, sorted(1 + 3 * mean[:6][mean[:6] >= 0.01]))
    expect(page.locator("#text-reading")).to_contain_text(f"looks at {visible(data['tokens'][mean.argmax()]['text'])} {percent(mean.max())}")
    page.mouse.move(5, 5)
    expect(page.locator("#text path")).to_have_count(0)


def test_maps_show_each_head_and_enlarge(shown):
    data, weights = explanation()
    page = shown(html_of(data))
    expect(page.locator("#heads canvas")).to_have_count(0)  # drawn when the section is opened
    page.locator("#maps > summary").click()
    canvas = page.locator("#heads canvas")
    alpha = np.array(canvas.evaluate("""canvas => {
      const { width, height } = canvas, data = (%s)(canvas);
      return Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => data[4 * (y * width + x) + 3]));
    }""" % PIXELS))
    assert alpha.shape == (4 * 10, 3 * 10)
    for layer, head in itertools.product(range(3), range(4)):
        own = alpha[10 * head:10 * head + 9, 10 * layer:10 * layer + 9]
        assert np.abs(own - np.tril(10 + 245 * np.sqrt(weights[layer, head]))).max() <= 1
    assert not alpha[9::10].any() and not alpha[:, 9::10].any(), "lines between the maps"

    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 2.5 / 3, "y": box["height"] * 1.5 / 4})
    expect(page.locator("#map-title")).to_have_text("Layer 2, head 1")
    large = page.locator("#map-canvas canvas")
    box = large.bounding_box()
    large.hover(position={"x": box["width"] * 4.5 / 9, "y": box["height"] * 7.5 / 9})
    expect(page.locator("#map-canvas .reading")).to_have_text(
        f"{visible(data['tokens'][7]['text'])} (8) looks at {visible(data['tokens'][4]['text'])} (5): {percent(weights[2, 1, 7, 4])}")
    expect(page.locator("#map-text path")).to_have_count(int((weights[2, 1, 7, :7] >= 0.01).sum()))
    large.hover(position={"x": box["width"] * 8.5 / 9, "y": box["height"] * 1.5 / 9})  # above the diagonal
    expect(page.locator("#map-canvas .reading")).to_contain_text("(8) looks at")
    page.locator("#use").click()
    expect(page.locator("#map")).to_be_hidden()
    assert (page.locator("#layer").input_value(), page.locator("#head").input_value()) == ("2", "1")


def test_a_tap_picks_a_map(shown):
    data, _ = explanation()
    page = shown(html_of(data), has_touch=True, viewport={"width": 390, "height": 800})
    page.locator("#maps > summary").tap()
    canvas = page.locator("#heads canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    # Simulates a tap by a click only: Playwright's tap() would also send a pointermove.
    canvas.dispatch_event("click", {"clientX": box["x"] + box["width"] / 2, "clientY": box["y"] + box["height"] * 2.5 / 4})
    expect(page.locator("#map-title")).to_have_text("Layer 1, head 2")


def read_cells(page, name, keys):
    """Moves the cursor of a heat map with keys, and returns the text shown for its cell."""
    page.locator(f"#{name} canvas").focus()
    for key in keys:
        page.keyboard.press(key)
    return page.locator(f"#{name} .reading").text_content()


def test_sections_show_the_values(shown):
    data, _ = explanation()
    one = data["attribution"][8]
    one["replaced"][2] = True
    page = shown(html_of(data))
    open_sections(page)
    shares = {"embedding": one["embedding"], "remainder": one["remainder"]}
    for layer in range(3):
        shares |= {f"head {layer}.{head}": one["heads"][layer][head] for head in range(4)}
        bias = "replaced attention" if layer == 2 else "output bias"
        shares |= {f"{bias} {layer}": one["attention_bias"][layer], f"FFN {layer}": one["ffn"][layer]}
    largest = sorted(shares, key=lambda name: -abs(shares[name]))[:10]
    listed = bars(page, "largest")
    assert [name for name, _ in listed] == largest
    assert all(same(text, shares[name]) for name, text in listed)
    assert page.locator("#largest .against").count() == sum(shares[name] < 0 for name in largest)
    parts = page.locator("#sum").text_content().split(": ", 1)[1]
    numbers = [value_of(number) for number in re.findall(r"[+−]?\d[\d.]*(?:e−\d+)?", parts)]
    sums = [one["logit"], one["embedding"], np.sum(one["heads"]), sum(one["attention_bias"][:2]),
            one["attention_bias"][2], sum(one["ffn"]), one["remainder"]]
    assert np.allclose(numbers, sums, rtol=1e-3, atol=1e-9)
    assert read_cells(page, "shares", ["ArrowDown", "ArrowDown", "ArrowRight"]).startswith("Layer 1, head 1: ")
    assert same(read_cells(page, "shares", ["ArrowDown"]).split(": ")[1], one["heads"][1][2])
    assert same(read_cells(page, "shares", ["ArrowDown"] * 2).removeprefix("Layer 1, output bias: "), one["attention_bias"][1])
    assert same(read_cells(page, "shares", ["ArrowDown"] * 3).removeprefix("Layer 1, FFN: "), one["ffn"][1])

    lens = data["lens"][1][7]
    likeliest = ", ".join(f"{text_of(data, token)} {percent(p)}" for token, p in lens["top"])
    assert read_cells(page, "lens-map", ["ArrowDown", "ArrowDown", "ArrowLeft"]) == (
        f"{visible(data['tokens'][7]['text'])}, layer 0: {text_of(data, data['lens'][3][7]['top'][0][0])} {percent(lens['p'])}, "
        f"rank {lens['rank']}. Likeliest: {likeliest}")

    listed = bars(page, "residual")
    assert [name for name, _ in listed] == ["embedding", "layer 0", "layer 1", "layer 2"]
    assert all(same(text, size[8]) for (_, text), size in zip(listed, data["residual"]))

    assert page.locator("#expert-layer option").all_text_contents() == ["1", "2"]
    page.locator("#expert-layer").select_option("2")
    taken = ", ".join(f"expert {expert} {weight}" for expert, weight in data["experts"][2][8])
    assert read_cells(page, "expert-map", ["ArrowDown"]) == f"{visible(data['tokens'][8]['text'])}: {taken}"

    assert [row[:4] for row in cells(page, "operation-rows")] == [
        ["q, k, v", "9 × 48 · 48 × 96", "36,864", "0.25"], ["down", "9 × 96 · 96 × 48", "1,234,567", "1.125"],
        ["all", "", "1,271,431", "1.375"]]

    changes = data["interventions"]
    expect(page.locator("#experiments-say")).to_contain_text("the changed model: 1.2: zero.")
    for name in ("before", "after"):
        assert bars(page, name) == [(text_of(data, token), percent(p)) for token, p in changes["rows"][8][name]]
    changed, divergence = re.search(r" ([+−][\d.]+)\. .*: ([\d.]+) nats", page.locator("#effect-reading").text_content()).groups()
    assert same(changed, changes["rows"][8]["top_change"]) and same(divergence, changes["kl"][8])
    order = np.argsort(changes["kl"])[::-1][:8]
    moved = bars(page, "moved")
    assert [name for name, _ in moved] == [f"{visible(data['tokens'][row]['text'])} ({row + 1})" for row in order]
    assert all(same(text, changes["kl"][row]) for (_, text), row in zip(moved, order))

    page.locator("#text .token").nth(4).evaluate("token => token.click()")  # open sections follow the selected token
    assert all(same(text, size[4]) for (_, text), size in zip(bars(page, "residual"), data["residual"]))


def test_parts_that_a_model_lacks_are_hidden(shown):
    data, _ = explanation()
    data |= {"experts": None, "operations": [], "interventions": None}
    for one in data["attribution"]:
        one["attention_bias"] = [0.0] * 3
    page = shown(html_of(data))
    for name in ("experts", "operations", "experiments"):
        expect(page.locator(f"#{name}")).to_be_hidden()
    open_sections(page)
    assert "bias" not in page.locator("#attribution").text_content()


def test_keyboard_reaches_everything(shown):
    data, weights = explanation()
    page = shown(html_of(data))
    page.keyboard.press("Tab")
    selected = page.locator("#text .token[aria-selected=true]")
    for key, row in [("ArrowLeft", 7), ("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("ArrowDown", 2), ("End", 8), ("ArrowUp", 7)]:
        page.keyboard.press(key)
        expect(selected).to_be_focused()
        assert selected_row(page) == row
    page.locator("#far button").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.locator("#layer").input_value() != "-1"
    expect(page.locator("#far button").nth(1)).to_be_focused()  # focus is kept although the list was rebuilt
    page.locator("#maps > summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#heads canvas")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator("#heads canvas")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#heads .reading")).to_contain_text("Layer 1, head 0: ")
    page.keyboard.press("Enter")
    expect(page.locator("#map-title")).to_have_text("Layer 1, head 0")
    page.keyboard.press("Escape")
    expect(page.locator("#map")).to_be_hidden()
    page.locator("#everywhere > summary").click()
    page.locator("#lens-map canvas").focus()
    for key in ["Home", "ArrowUp", "ArrowLeft", "Enter"]:
        page.keyboard.press(key)
    expect(page.locator("#lens-map canvas")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1600])
def test_nothing_is_wider_than_the_page(shown, width, scheme):
    data, _ = explanation(n_tokens=40, n_layers=12, n_heads=6)
    page = shown(html_of(data), viewport={"width": width, "height": 800}, color_scheme=scheme)
    open_sections(page)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0
    dark = scheme == "dark"
    ink, ground = (sum(map(int, re.findall(r"\d+", page.locator("section").first.evaluate(f"one => getComputedStyle(one).{what}"))[:3]))
                   for what in ("color", "backgroundColor"))
    assert (ink > ground) == dark
    page.locator("#heads canvas").click(position={"x": 10, "y": 10})
    expect(page.locator("#map")).to_be_visible()
    assert page.evaluate(wide) == 0
    assert page.evaluate("document.getElementById('map').scrollWidth - document.getElementById('map').clientWidth") == 0


def test_maps_follow_the_width_and_the_colours(shown):
    data, _ = explanation()
    page = shown(html_of(data), viewport={"width": 1280, "height": 800}, color_scheme="light")
    page.locator("#maps > summary").click()
    colour = f"canvas => [...({PIXELS})(canvas).slice(0, 3)]"
    before = page.locator("#heads canvas").evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"before => '' + ({colour})(document.querySelector('#heads canvas')) !== '' + before", arg=before)
    page.locator("#everywhere > summary").click()
    wide = page.locator("#lens-map canvas").bounding_box()["width"]
    page.set_viewport_size({"width": 300, "height": 800})
    page.wait_for_function("wide => document.querySelector('#lens-map canvas').clientWidth < wide", arg=wide)


def test_256_tokens_of_30_layers_are_shown(shown):
    data, weights = explanation(n_tokens=256, n_layers=30, n_heads=9)
    page = shown(html_of(data))
    open_sections(page)
    expect(page.locator("#text .token")).to_have_count(256)
    width, height = page.locator("#heads canvas").evaluate("canvas => [canvas.width, canvas.height]")
    assert width % 30 == 0 and height % 9 == 0 and width // 30 == height // 9 >= 256
    page.locator("#layer").select_option("29")
    page.locator("#head").select_option("8")
    assert bars(page, "looked")[0][1] == percent(weights[29, 8, 255].max())


@pytest.fixture
def served(browser):
    """Returns serve(html, answer), which opens the page as from a server; answer(request) answers POST requests."""
    wrong, pages = [], []

    def serve(html, answer):
        page = watched(browser.new_page(), wrong)
        pages.append(page)
        policy = ("default-src 'none'; style-src 'nonce-n'; script-src 'nonce-n'; connect-src 'self'; base-uri 'none'; "
                  "form-action 'none'; frame-ancestors 'none'")
        body = html.replace("<style>", '<style nonce="n">').replace("<script>", '<script nonce="n">')

        def route(route):
            if route.request.method == "POST":
                status, reply = answer(route.request)
                route.fulfill(status=status, json=reply)
            else:
                route.fulfill(body=body, content_type="text/html; charset=utf-8", headers={"Content-Security-Policy": policy})

        page.route("http://folio.test/**", route)
        page.goto("http://folio.test/explain")
        return page

    yield serve
    for page in pages:
        page.close()
    assert wrong == []


def test_experiments_ask_the_server(served):
    data, _ = explanation()
    data |= {"interventions": None, "server": ""}
    other, _ = explanation(seed=2)
    asked = []

    def answer(request):
        asked.append((request.url, request.post_data_json))
        return (400, {"error": {"message": "layer 2 is broken; use another"}}) if len(asked) == 3 else (200, copy.deepcopy(other))

    page = served(html_of(data), answer)
    page.locator("#experiments > summary").click()
    expect(page.locator("#effect")).to_be_hidden()
    expect(page.locator("#undo")).to_be_disabled()

    prompt = [one["id"] for one in data["tokens"]]
    page.locator("#cut-layer").select_option("1")
    page.locator("#cut-part").select_option("head 2")
    expect(page.locator("#cut-text")).to_be_hidden()
    page.locator("#run").click()
    expect(page.locator("#effect")).to_be_visible()
    assert asked == [("http://folio.test/v1/explain", {"prompt": prompt, "ablate": ["1.2"]})]
    assert bars(page, "next") == [(text_of(other, token), percent(p)) for token, _, p in other["candidates"][8]["list"]]
    assert bars(page, "after") == [(text_of(other, token), percent(p)) for token, p in other["interventions"]["rows"][8]["after"]]

    page.locator("#cut-layer").select_option("2")  # a second intervention, in addition to the first
    page.locator("#cut-part").select_option("FFN")
    page.locator("#cut-by").select_option("mean over the text")
    page.locator("#run").click()
    expect(page.locator("#run")).to_be_enabled()
    assert asked[1][1] == {"prompt": prompt, "ablate": ["1.2"], "mean": ["2.ffn"]}

    page.locator("#cut-part").select_option("")
    page.locator("#cut-by").select_option("zero")
    page.locator("#run").click()
    expect(page.locator("#form-wrong")).to_have_text("layer 2 is broken; use another")
    assert asked[2][1] == {"prompt": prompt, "ablate": ["1.2", "2"], "mean": ["2.ffn"]}

    page.locator("#undo").click()
    expect(page.locator("#effect")).to_be_hidden()
    assert bars(page, "next") == [(text_of(data, token), percent(p)) for token, _, p in data["candidates"][8]["list"]]
    assert len(asked) == 3
    page.locator("#cut-by").select_option("mean over the text")
    page.locator("#run").click()
    expect(page.locator("#effect")).to_be_visible()
    assert asked[3][1] == {"prompt": prompt, "mean": ["2"]}

    page.route("**/v1/explain", lambda route: None)  # no answer
    page.locator("#run").click()
    with page.expect_event("requestfailed"):  # "Start over" cancels the experiment
        page.locator("#undo").click()
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator("#form-wrong")).to_have_text("")
    expect(page.locator("#effect")).to_be_hidden()


def test_patches_ask_the_server(served):
    data, _ = explanation()
    data |= {"interventions": None, "server": ""}
    other, _ = explanation(seed=2)
    other["interventions"]["description"] = ["0.ffn@2:4: patch from another text"]
    asked = []

    def answer(request):
        asked.append(request.post_data_json)
        return 200, copy.deepcopy(other)

    page = served(html_of(data), answer)
    page.locator("#experiments > summary").click()
    page.locator("#cut-by").select_option("another text's")
    page.locator("#run").click()  # sends nothing, since the browser requires a text
    page.locator("#cut-text").fill("The dog")
    expect(page.locator("#cut-from")).to_be_hidden()
    page.locator("#cut-part").select_option("residual stream")
    page.locator("#run").click()
    expect(page.locator("#effect")).to_be_visible()
    prompt = [one["id"] for one in data["tokens"]]
    assert asked == [{"prompt": prompt, "patch": ["0.residual"], "from": "The dog"}]

    expect(page.locator("#cut-text")).to_be_disabled()  # all patches use the same text
    page.locator("#cut-part").select_option("FFN")
    page.locator("#cut-to").select_option(f"{visible(other['tokens'][2]['text'])} (3)")
    page.locator("#cut-from").fill("0")
    page.locator("#run").click()  # sends nothing, since the browser rejects token number 0
    page.locator("#cut-from").fill("5")
    page.locator("#run").click()
    expect(page.locator("#run")).to_be_enabled()
    assert asked[1:] == [{"prompt": prompt, "patch": ["0.residual", "0.ffn@2:4"], "from": "The dog"}]
    expect(page.locator("#experiments-say")).to_contain_text("0.ffn, token 3 by token 5: patch from another text.")

    page.locator("#undo").click()
    expect(page.locator("#cut-text")).to_be_enabled()
    page.locator("#cut-text").fill("")
    page.locator("#cut-by").select_option("zero")
    page.locator("#run").click()  # zero ablation needs no other text
    expect(page.locator("#effect")).to_be_visible()
    assert asked[2:] == [{"prompt": prompt, "ablate": ["0.ffn"]}]


def test_the_page_of_a_server_asks_for_a_text(served):
    first, _ = explanation()
    second, _ = explanation(n_tokens=4, seed=2)
    asked = []

    def answer(request):
        asked.append(request.post_data_json)
        if asked[-1] == {"prompt": "too long"}:
            return 400, {"error": {"message": "'prompt' has 300 tokens"}}
        return 200, {**(first if isinstance(asked[-1]["prompt"], str) else second), "interventions": None}

    page = served(html_of({"server": ""}), answer)
    expect(page.locator("main")).to_be_hidden()
    page.locator("#ask-text").fill("too long")
    page.locator("#ask button").click()
    expect(page.locator("#ask .wrong")).to_have_text("'prompt' has 300 tokens")
    expect(page.locator("main")).to_be_hidden()
    page.locator("#ask-text").fill("The cat")
    page.keyboard.press("Enter")
    expect(page.locator("#text .token")).to_have_count(9)
    expect(page.locator("#ask .wrong")).to_have_text("")
    assert selected_row(page) == 8 and page.url.endswith("/explain#" + ",".join(str(one["id"]) for one in first["tokens"]))
    page.evaluate("location.hash = '#5,,6'")
    page.reload()
    expect(page.locator("#text .token")).to_have_count(4)
    assert asked == [{"prompt": "too long"}, {"prompt": "The cat"}, {"prompt": [5, None, 6]}] and selected_row(page) == 3


@pytest.mark.skipif(not (BUILD / "explain").exists(), reason="build/explain is not built")
def test_the_page_of_the_program(shown, tmp_path):
    args = ["explain", "ROMEO:", "-m", GOLDEN, "--ablate", "1.2"]
    data = json.loads(run(*args, "--json").stdout)
    run(*args, "-o", tmp_path / "page.html")
    page = shown((tmp_path / "page.html").read_text(encoding="utf-8"))
    open_sections(page)
    assert bars(page, "next") == [(text_of(data, token), percent(p)) for token, _, p in data["candidates"][5]["list"]]
    assert all(same(text, size[5]) for (_, text), size in zip(bars(page, "residual"), data["residual"]))
    expect(page.locator("#experiments-say")).to_contain_text("1.2: zero")
