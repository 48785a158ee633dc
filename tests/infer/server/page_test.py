"""Tests the server's page in a browser: conversations, alternative tokens, structured output, tools, several tabs, and
a restart of the server."""

import json
import random
import re

import jsonschema
import pytest

from browser import browser, expect, watched  # noqa: F401
from chat_model import write_chat_model
from support import GOLDEN, SMOLLM2
from wire import Wire

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture
def visitor(browser):
    """Returns visitor(url), which opens a tab. Tabs share storage. Errors and blocked requests fail the test."""
    wrong = []
    contexts = []

    def visit(url, locked=False, **device):
        if not contexts or device:
            contexts.append(browser.new_context(**device))
        page = watched(contexts[-1].new_page(), wrong)
        page.goto(url)
        if not locked:
            expect(page.locator("#model")).to_contain_text("context")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert wrong == []


def settle(page, **values):
    """Sets the given settings on the page: sampling options, system, schema or tools."""
    page.locator("#settings-said").click()
    for name, value in values.items():
        if name == "tools":
            page.locator("#tools").select_option(value)
        else:
            page.locator(f"#{name}" if name in ("system", "schema") else f"#set-{name}").fill(str(value))
    page.locator("#settings-said").click()


def say(page, text):
    page.locator("#draft").fill(text)
    page.locator("#send").click()


def ended(page):
    expect(page.locator(".writing")).to_have_count(0)
    expect(page.locator("#stop")).to_be_hidden()


def answers(page):
    return page.locator(".model .body").all_text_contents()


def kept(page):
    """Returns the conversations that are stored in the browser."""
    texts = page.evaluate("Object.entries(localStorage).filter(([key]) => key.startsWith('folio.conversation.')).map(([, text]) => text)")
    return [json.loads(text) for text in texts]


@pytest.fixture
def text_page(server, visitor):
    page = visitor(server(GOLDEN).url)
    settle(page, max_tokens=12, seed=1)
    return page


@pytest.fixture
def chat_page(server, visitor):
    if not SMOLLM2.exists():
        pytest.skip("make smollm2 fetches the model")
    page = visitor(server(SMOLLM2).url)
    settle(page, max_tokens=12, temperature=0, seed=1)
    return page


def test_conversation_is_editable_and_survives_reload(chat_page):
    page = chat_page
    settle(page, system="Answer in one sentence.")
    say(page, "What is the capital of France?")
    ended(page)
    say(page, "And of Italy?")
    ended(page)
    first, second = answers(page)
    assert first and second

    page.get_by_role("button", name="Regenerate").last.click()
    ended(page)
    assert answers(page) == [first, second], "greedy, so the same again"

    page.reload()
    expect(page.locator(".model .body")).to_have_text([first, second], use_inner_text=False)
    expect(page.locator("#system")).to_have_value("Answer in one sentence.")

    page.get_by_role("button", name="Edit").first.click()
    page.get_by_label("Edit message").fill(" ")
    page.locator(".editor").get_by_role("button", name="Send").click()
    expect(page.get_by_label("Edit message")).to_be_visible()  # an empty message is not sent
    page.get_by_label("Edit message").fill("What is the capital of Spain?")
    page.locator(".editor").get_by_role("button", name="Send").click()
    ended(page)
    expect(page.locator(".user .body")).to_have_text(["What is the capital of Spain?"])
    assert len(answers(page)) == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".model .body")).to_have_text([first, second], use_inner_text=False)


def test_escape_stops_and_keeps_the_partial_answer(chat_page):
    page = chat_page
    settle(page, max_tokens=1500)
    say(page, "Tell a very long story about a lighthouse, with many chapters.")
    expect(page.locator(".writing .body")).to_have_text(re.compile(r"\w+\s\w+"))
    page.keyboard.press("Escape")
    ended(page)
    expect(page.locator(".model .tools")).to_contain_text("stopped")
    page.get_by_role("button", name="Tokens").click()
    assert kept(page)[0]["messages"][1]["content"] == answers(page)[0]
    expect(page.locator("#figures dd").first).to_have_text("0")  # the server has stopped the request, too


def test_selecting_an_alternative_continues_from_it(text_page):
    page = text_page
    say(page, "ROMEO:")
    ended(page)
    before = page.locator(".token").all_text_contents()
    page.locator(".token").nth(3).hover()
    choices = page.locator("#choices button")
    expect(choices.first).to_be_visible()
    probabilities = [float(re.search(r"([\d.]+) %", text)[1]) for text in choices.locator("span:last-child").all_text_contents()]
    assert probabilities == sorted(probabilities, reverse=True) and sum(probabilities) <= 100.5
    other = page.locator("#choices button:not(.taken)").first
    chosen = other.locator("span").nth(1).text_content().replace("␣", " ").replace("⏎", "\n")
    other.click()
    ended(page)
    after = page.locator(".token").all_text_contents()
    assert after[:3] == before[:3] and after[3] == chosen != before[3]
    assert len(after) == 4 + 12, "the alternative, and max_tokens behind it"


def test_keyboard_selects_an_alternative(chat_page):
    page = chat_page
    say(page, "Name a colour.")
    ended(page)
    page.get_by_role("button", name="Tokens").click()
    before = page.locator(".token").all_text_contents()
    page.locator(".model .body").focus()
    for key in ["ArrowRight", "ArrowRight", "Enter", "ArrowDown"]:
        page.keyboard.press(key)
    chosen = page.locator("#choices button:focus span").nth(1).text_content().replace("␣", " ").replace("⏎", "\n")
    page.keyboard.press("Enter")
    ended(page)
    after = page.locator(".token").all_text_contents()
    assert after[0] == before[0] and after[1] == chosen


def test_two_tabs_stay_in_sync(server, visitor):
    url = server(GOLDEN).url
    one = visitor(url)
    settle(one, max_tokens=5)
    two = visitor(url)
    say(one, "JULIET:")
    say(two, "NURSE:")
    for page in (one, two):
        ended(page)
        expect(page.locator("#list button")).to_have_count(2)
    two.locator("#list button", has_text="JULIET").click()
    two.locator("#draft").fill("ROMEO:")
    say(one, "TYBALT:")
    ended(one)
    expect(two.locator(".user .body")).to_have_text(["JULIET:", "TYBALT:"])
    expect(two.locator("#draft")).to_have_value("ROMEO:")
    two.locator("#send").click()
    ended(two)
    assert sorted(len(conversation["messages"]) for conversation in kept(one)) == [2, 6]


def test_concurrent_tab_writes_make_a_copy(text_page):
    page = text_page
    say(page, "JULIET:")
    ended(page)
    # Simulate another tab that changes the stored conversation before this tab checks it again.
    page.evaluate("""() => {
      const key = Object.keys(localStorage).find((key) => key.startsWith("folio.conversation."));
      localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), revision: "other" }));
    }""")
    say(page, "PARIS:")
    ended(page)
    expect(page.locator("#list button")).to_have_text(["JULIET: (copy) text", "JULIET: text"])
    assert sorted(len(conversation["messages"]) for conversation in kept(page)) == [2, 4]


def test_page_reconnects_to_a_restarted_server(server, visitor):
    serve = server(GOLDEN, "--max-sequences", "4")  # not shared with other tests, so that it can be stopped
    page = visitor(serve.url)
    settle(page, max_tokens=5)
    say(page, "ROMEO:")
    ended(page)
    serve.stop()
    expect(page.locator("#away")).to_contain_text("unreachable")
    say(page, "\nJULIET:")
    expect(page.locator(".failed")).to_be_visible()
    page.locator("#draft").fill("not sent yet")
    serve.start()
    expect(page.locator("#away")).to_be_hidden()
    expect(page.locator("#draft")).to_have_value("not sent yet")
    page.get_by_role("button", name="Try again").click()
    ended(page)
    assert len(answers(page)) == 2 and all(answers(page))
    page.reload()
    expect(page.locator("#draft")).to_have_value("not sent yet")


def test_no_horizontal_scrolling_on_phones(server, visitor):
    page = visitor(server(GOLDEN).url, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    settle(page, max_tokens=20, seed=1)
    say(page, "ROMEO: " + "O" * 100)
    ended(page)
    page.locator("#settings-said").click()
    page.locator("#list-box summary").click()
    page.locator(".token", has_text=re.compile(r"\w")).first.tap()  # not a line feed, which has no width to tap on
    expect(page.locator("#choices")).to_be_visible()
    widths = page.evaluate("[document.documentElement, document.querySelector('.columns'), document.querySelector('main')]"
                           ".map((box) => box.scrollWidth)")
    assert max(widths) <= 360
    box = page.locator("#choices").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360


@pytest.mark.parametrize("width", [390, 1000, 1280])
def test_conversation_fills_the_height(server, visitor, width):
    page = visitor(server(GOLDEN).url, viewport={"width": width, "height": 800})
    expect(page.locator("#engine")).to_be_visible()
    assert page.locator("main").bounding_box()["height"] > 690
    page.get_by_role("button", name="Hide engine").click()
    page.reload()
    expect(page.locator("#model")).to_contain_text("context")
    expect(page.locator("#engine")).to_be_hidden()
    main = page.locator("main").bounding_box()
    assert main["height"] > 690 and main["x"] + main["width"] == width
    page.get_by_role("button", name="Show engine").click()
    expect(page.locator("#steps")).to_be_visible()


def test_input_grows_with_its_text(text_page):
    height = lambda: text_page.locator("#draft").bounding_box()["height"]
    two = height()
    text_page.locator("#draft").fill("a\n" * 7)
    eight = height()
    text_page.locator("#draft").fill("a\n" * 200)
    assert two < eight - 80 and eight < height() < 800 / 2
    text_page.reload()
    assert height() > eight, "a draft that was kept"
    text_page.locator("#draft").fill("")
    assert height() == two


def test_model_output_is_escaped(text_page):
    page = text_page

    def forged(route):
        entry = {"id": 1, "token": HOSTILE, "bytes": list(HOSTILE.encode()), "logprob": -0.1}
        choice = {"index": 0, "text": HOSTILE, "finish_reason": "stop", "logprobs": {"content": [{**entry, "top_logprobs": [entry]}]}}
        route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n")

    page.route("**/v1/completions", forged)
    say(page, HOSTILE)
    ended(page)
    assert answers(page) == [HOSTILE]
    page.locator(".token").click()
    expect(page.locator("#choices")).to_contain_text("<img")
    page.reload()
    expect(page.locator("#list")).to_contain_text("<img")
    assert page.locator("img, .talk script").count() == 0 and page.title() == "Folio"


# ---- structured output and tools ----

SCHEMA = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 0, "maximum": 130},
                                           "color": {"enum": ["red", "dark blue"]}},
          "required": ["count", "color"], "additionalProperties": False}


@pytest.fixture(scope="session")
def random_chat(server, tmp_path_factory):
    """Returns a server of a model with random weights and a vocabulary in which any JSON can be written."""
    return server(write_chat_model(tmp_path_factory.mktemp("page") / "chat.gguf", context=8192), "-t", "1")


@pytest.fixture
def random_page(random_chat, visitor):
    page = visitor(random_chat.url)
    settle(page, max_tokens=300, seed=1)
    return page


SEED = 1234567890123456


def forge(page, answer):
    """Replaces the server: answer(body) returns (list of deltas, finish reason) for each request. A delta's "tokens"
    are those of its event; the seed is SEED. Returns the list of all requests' bodies, which grows with each request."""
    came = []

    def forged(route):
        came.append(json.loads(route.request.post_data))
        deltas, reason = answer(came[-1])
        entry = lambda text: {"id": len(text), "token": text, "bytes": list(text.encode()), "logprob": -0.1}
        chunks = [{"delta": delta, "logprobs": {"content": list(map(entry, delta.pop("tokens", [])))}, "finish_reason": None}
                  for delta in deltas] + [{"delta": {}, "finish_reason": reason}]
        lines = [json.dumps({"seed": SEED, "choices": [{"index": 0, **chunk}]}) for chunk in chunks] + ["[DONE]"]
        route.fulfill(content_type="text/event-stream", body="".join(f"data: {line}\n\n" for line in lines))

    page.route("**/v1/chat/completions", forged)
    return came


def test_reasoning_and_text_in_one_event(random_page):
    forge(random_page, lambda body: ([{"reasoning_content": "mat"}, {"reasoning_content": ".", "content": "No"},
                                      {"content": ", it"}], "stop"))
    say(random_page, "hello")
    ended(random_page)
    assert kept(random_page)[0]["messages"][1]["content"] == "<think>\nmat.\n</think>\n\nNo, it"


@pytest.mark.parametrize("events", [
    {".": [".\n"], "\nNext": ["Next"]},  # "\n" may begin a stop, so the server holds it back
    {"Hello": ["\n", "</think>", "\n\n", "Hello"], " you": [" you"]}], ids=["stop", "reasoning"])
def test_an_event_has_another_text_than_its_tokens(random_page, events):
    forge(random_page, lambda body: ([{"content": text, "tokens": tokens} for text, tokens in events.items()], "stop"))
    say(random_page, "hello")
    ended(random_page)
    answer = kept(random_page)[0]["messages"][1]
    assert answer["content"] == "".join(events) and [token["text"] for token in answer["tokens"] if token["text"]] == list(events)


def test_tokens_after_reasoning_cannot_be_replaced(random_page):
    page = random_page
    page.evaluate("""() => {  // each piece takes a second
      let now = 1;
      const appended = append;
      performance.now = () => now;
      append = (...given) => { appended(...given); now += 1000; };
    }""")
    forge(page, lambda body: ([{"reasoning_content": "mat"}, {"content": "No", "tokens": ["No"]}], "stop"))
    say(page, "hello")
    ended(page)
    assert kept(page)[0]["messages"][1]["seconds"] == 3, "the reasoning, its end, and the text"
    page.get_by_role("button", name="Tokens").click()
    page.locator(".token", has_text="No").click()
    expect(page.locator("#choices button")).to_have_count(1)  # "Why this token?" would lack the reasoning's tokens
    expect(page.locator("#choices button")).to_be_disabled()


def test_numbers_have_three_digits(text_page):
    assert text_page.evaluate("[99.97, 10, 0, 0.125, 1234.6].map(short)") == ["100", "10", "0", "0.125", "1235"]


def call_lines(page):
    return page.locator(".calls:not(:empty)").all_text_contents()


def test_answers_match_the_schema(random_page):
    page = random_page
    settle(page, schema=json.dumps(SCHEMA))
    expect(page.locator("#settings-said")).to_contain_text("schema")
    for _ in range(2):
        say(page, "he is the user")
        ended(page)
        page.reload()  # the schema is kept
    first, second = answers(page)
    assert list(json.loads(first)) == ["count", "color"]
    jsonschema.validate(json.loads(first), SCHEMA)
    jsonschema.validate(json.loads(second), SCHEMA)
    page.locator(".token").first.click()
    page.locator("#choices button:not(.taken)").first.click()
    expect(page.locator("#notice")).to_contain_text("ignores the schema")
    ended(page)


def test_invalid_settings_are_shown_and_not_sent(random_page):
    page = random_page
    came = forge(page, lambda body: ([{"content": "yes"}], "stop"))
    for field, wrong, why, right in [
            ("set-temperature", "100.5", "a number from 0 to 100.", "0.5"), ("set-top_k", "1.5", "a whole number", "40"),
            ("set-max_tokens", "0", "from 1 to", "7"), ("set-stop", "x\n" * 17, "At most 16", "x"),
            ("schema", '{"type": ', "Invalid JSON", "{}"), ("schema", "[1]", "JSON object", "")]:
        page.locator("#settings-said").click()
        page.locator(f"#{field}").fill(wrong)
        expect(page.locator(f"#{field}-wrong")).to_contain_text(why)
        page.locator("#settings-said").click()
        say(page, "he is")
        expect(page.locator(f"#{field}")).to_be_focused()
        expect(page.locator("#draft")).to_have_value("he is")
        page.locator(f"#{field}").fill(right)
        expect(page.locator(f"#{field}-wrong")).to_be_empty()
        page.locator("#settings-said").click()
    assert came == [] and page.locator(".message").count() == 0
    say(page, "he is")
    ended(page)
    [body] = came
    assert (body["temperature"], body["top_k"], body["max_tokens"], body["stop"]) == (0.5, 40, 7, ["x"])
    assert "response_format" not in body


def test_each_setting_has_a_description(text_page):
    controls = text_page.locator("#settings [aria-describedby]").all()
    assert len(controls) == 11
    for control in controls:
        help_id = control.get_attribute("aria-describedby").split()[-1]
        assert len(text_page.locator(f"#{help_id}").text_content()) > 10


# ---- Markdown ----

MARKDOWN = {
    "a **b *c* d** _e_ ~~f~~ `g *h*`": "<p>a <strong>b <em>c</em> d</strong> <em>e</em> <s>f</s> <code>g *h*</code></p>",
    "2*3*4, snake_case_name, 5 * 6 * 7, \\*a\\*": "<p>2*3*4, snake_case_name, 5 * 6 * 7, *a*</p>",
    "# A\nb\nc\n\n---\n> d\n> - e": "<h2>A</h2><p>b\nc</p><hr><blockquote><p>d</p><ul><li><p>e</p></li></ul></blockquote>",
    "2. a\n   - b\n\n   c\n3. d": '<ol start="2"><li><p>a</p><ul><li><p>b</p></li></ul><p>c</p></li><li><p>d</p></li></ol>',
    "x\n| a | b |\n|---|:-:|\n| 1 | `2` |": '<p>x</p><div class="grid"><table><thead><tr><th>a</th><th>b</th></tr></thead>'
                                          '<tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table></div>',
    "[a](javascript:alert(1)) ![b](data:c) <b>d</b>": "<p>[a](javascript:alert(1)) ![b](data:c) &lt;b&gt;d&lt;/b&gt;</p>",
}


@pytest.mark.parametrize("source", MARKDOWN)
def test_markdown_is_rendered(random_page, source):
    html = random_page.evaluate("(text) => drawMarkdown(document.createElement('div'), text.split('\\n')).innerHTML", source)
    assert html == MARKDOWN[source]


def test_incremental_markdown_matches_the_whole(random_page):
    draw = random.Random(3)
    signs = ["**", "*", "_", "`", "```\n", "\n", "\n\n", "- ", "  ", "1. ", "> ", "|", "|-|\n", "# ", "[a](https://b.c)", "~~",
             "\\", "x", "y z", "<i>"]
    texts = ["".join(draw.choice(signs) for _ in range(60)) for _ in range(60)] + [">" * 20_000, "- " * 5000, "*" * 5000]
    differ = random_page.evaluate("""(texts) => texts.filter((text) => {
      const draw = (box, text) => drawMarkdown(box, text.split("\\n"));
      const box = document.createElement("div");
      for (let n = 0; n < text.length; n += Math.ceil(text.length / 50)) draw(box, text.slice(0, n));
      return draw(box, text).innerHTML !== draw(document.createElement("div"), text).innerHTML || box.querySelector("i");
    })""", texts)
    assert differ == []


def test_chats_are_formatted_and_code_can_be_copied(random_page):
    page = random_page
    code = f"def f():\n    return '{HOSTILE}'"
    text = f"It is **this**:\n\n```python\n{code}\n```\n[more](https://example.org/)"
    pieces = [piece for piece in re.findall(r"\W*\w*", text) if piece]
    forge(page, lambda body: ([{"content": piece, "tokens": [piece]} for piece in pieces], "stop"))
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as on plain HTTP
    say(page, "How?")
    ended(page)
    expect(page.locator(".model strong")).to_have_text("this")
    assert page.locator(".model pre code").text_content() == code
    link = page.locator(".model a")
    assert (link.get_attribute("href"), link.get_attribute("rel")) == ("https://example.org/", "noopener noreferrer")
    assert page.locator("img, .talk script, .token").count() == 0 and page.title() == "Folio"

    tools = page.locator(".model .tools")
    for button, copied in [(page.locator("figure button"), code), (tools.get_by_role("button", name="Copy"), text)]:
        button.evaluate("""(it) => {
          window.labels = [];
          new MutationObserver(() => labels.push(it.textContent)).observe(it, { childList: true });
        }""")
        button.click()
        page.wait_for_function("labels.includes('Copied')")
        page.locator("#draft").fill("")
        page.locator("#draft").press("Control+V")
        expect(page.locator("#draft")).to_have_value(copied)

    assert str(SEED) not in page.locator(".model").text_content()
    tools.get_by_role("button", name="Seed").click()
    expect(page.locator("#notice")).to_contain_text(str(SEED))
    page.get_by_role("button", name="Use this seed").click()
    expect(page.locator("#set-seed")).to_have_value(str(SEED))

    tools.get_by_role("button", name="Tokens").click()
    assert answers(page) == [text] == ["".join(page.locator(".token").all_text_contents())]
    tools.get_by_role("button", name="Tokens").click()
    expect(page.locator(".model strong")).to_have_text("this")


def test_rejected_forms_are_shown(text_page):
    page = text_page
    page.locator("#settings-said").click()
    expect(page.locator("#tools-box")).to_be_hidden()  # a model without a chat template has no tools
    page.locator("#schema").fill(json.dumps(SCHEMA))
    page.locator("#settings-said").click()
    say(page, "ROMEO:")
    ended(page)
    expect(page.locator(".failed").last).to_contain_text("0x7b")


def test_tool_call_round_trip(random_page):
    page = random_page
    settle(page, tools="required")
    came = []
    page.on("request", lambda request: came.append(json.loads(request.post_data)) if request.url.endswith("/chat/completions") else None)
    say(page, "he is the user")
    expect(page.locator(".message.model")).to_have_count(2)
    ended(page)
    assert [body["tool_choice"] for body in came] == ["required", "auto"]
    assert [message["role"] for message in came[1]["messages"]] == ["user", "assistant", "tool"]
    asked, returned = came[1]["messages"][1:]
    [call] = asked["tool_calls"]
    assert asked["content"] is None and returned["tool_call_id"] == call["id"] and returned["content"]
    tool = next(tool["function"] for tool in came[0]["tools"] if tool["function"]["name"] == call["function"]["name"])
    jsonschema.validate(json.loads(call["function"]["arguments"]), tool["parameters"])
    lines = [f"{tool['name']} {call['function']['arguments']}", returned["content"]]
    assert call_lines(page) == lines and answers(page)[0] == "" != answers(page)[1]
    expect(page.locator(".model .tools").first).to_contain_text("tool call")

    page.reload()
    assert call_lines(page) == lines
    say(page, "and then?")
    expect(page.locator(".message.model")).to_have_count(4)
    ended(page)
    assert came[2]["messages"][:3] == came[1]["messages"] and len(came[2]["messages"]) == 5


def test_streamed_calls_are_answered(random_page):
    page = random_page
    settle(page, tools="auto")
    given = '{"expression": "(3 + 4.5) * -2 / 4"}'

    def answer(body):
        if body["messages"][-1]["role"] == "tool":
            return [{"content": "It is "}, {"content": "that."}], "stop"
        pieces = [{"index": 0, "id": "a1", "type": "function", "function": {"name": "calculate", "arguments": ""}},
                  *({"index": 0, "function": {"arguments": letter}} for letter in given),
                  {"index": 1, "id": "a2", "type": "function", "function": {"name": "get_time", "arguments": '{"time_zone": '}},
                  {"index": 1, "function": {"arguments": '"Nowhere/At_all"}'}},
                  {"index": 2, "id": "a3", "type": "function", "function": {"name": "constructor", "arguments": "{}"}}]
        return [{"content": "Wait. "}, *({"tool_calls": [piece]} for piece in pieces)], "tool_calls"

    came = forge(page, answer)
    say(page, HOSTILE)
    expect(page.locator(".model .body")).to_have_text(["Wait. ", "It is that."], use_inner_text=False)
    ended(page)
    _, asked, *returned = came[1]["messages"]
    assert asked["content"] == "Wait. " and asked["tool_calls"][0] == {
        "id": "a1", "type": "function", "function": {"name": "calculate", "arguments": given}}
    assert [message["tool_call_id"] for message in returned] == ["a1", "a2", "a3"]
    assert returned[0]["content"] == "-3.75"
    assert returned[1]["content"].startswith("error: ") and "Nowhere" in returned[1]["content"]
    assert returned[2]["content"] == "error: unknown function constructor"
    calls, *results = call_lines(page)
    assert calls == f'calculate {given}get_time {{"time_zone": "Nowhere/At_all"}}constructor {{}}'
    assert results == [message["content"] for message in returned]


def test_model_must_answer_after_five_rounds_of_calls(random_page):
    page = random_page
    settle(page, tools="auto")

    def answer(body):
        if body["tool_choice"] == "none":
            return [{"content": "Enough."}], "stop"
        n = len(body["messages"])
        call = {"index": 0, "id": f"c{n}", "function": {"name": "get_time", "arguments": "{}"}}
        return [{"reasoning_content": "so"}, {"tool_calls": [call]}], "tool_calls"

    came = forge(page, answer)
    say(page, "What time is it?")
    expect(page.locator(".model .body").last).to_have_text("Enough.")
    assert [body["tool_choice"] for body in came] == ["auto"] * 5 + ["none"]
    assert came[1]["messages"][1]["content"] == "<think>\nso\n</think>\n\n"


def test_truncated_calls_are_not_run(random_page):
    page = random_page
    settle(page, tools="auto")
    call = {"index": 0, "id": "c1", "function": {"name": "calculate", "arguments": '{"expression": "1 +'}}
    came = forge(page, lambda body: ([{"tool_calls": [call]}], "length"))
    say(page, "How much?")
    ended(page)
    say(page, "How much?")
    ended(page)
    assert [message["role"] for message in came[1]["messages"]] == ["user", "user"]
    assert call_lines(page) == ['calculate {"expression": "1 +'] * 2


def test_calculator(text_page):
    draw = random.Random(1)

    def expression(depth):
        if depth == 0 or draw.random() < 0.2:
            return draw.choice(["7", "0.25", "12.5", "3.", ".5", "100"])
        left, right = expression(depth - 1), expression(depth - 1)
        return draw.choice([f"({left})", f"-{left}", f"{left} + {right}", f"{left}-{right}", f"{left}*{right}", f"{left} /{right}"])

    def value(text):
        try:
            return eval(text)  # the page's calculator must give the same values
        except ZeroDivisionError:
            return None

    drawn = [expression(4) for _ in range(300)]
    ours = text_page.evaluate("""(all) => all.map((one) => { try { return calculate(one); } catch { return null; } })""", drawn)
    assert ours == [value(text) for text in drawn] and len(set(ours)) > 100
    wrong = ["", "1 +", "(1", "1)", "1 2", "2 ** 3", "alert(1)", "1.2.3", "1e5", "1 / 0", "((", "()", "0x10"]
    assert text_page.evaluate("""(all) => all.filter((one) => { try { calculate(one); return true; } catch { return false; } })""", wrong) == []


def test_clock_supports_time_zones(text_page):
    times = text_page.evaluate("""["UTC", "Asia/Tokyo"].map((time_zone) => runTool({ name: "get_time", arguments: JSON.stringify({ time_zone }) }))""")
    hours = [int(re.search(r"(\d\d):\d\d:\d\d", text)[1]) for text in times]
    assert (hours[1] - hours[0]) % 24 == 9, times
    assert re.search(r"\d\d:\d\d", text_page.evaluate("""runTool({ name: "get_time", arguments: "{}" })"""))


def test_an_export_can_be_imported(text_page, tmp_path):
    page = text_page
    say(page, "ROMEO:")
    ended(page)
    with page.expect_download() as download:
        page.locator("#export").click()
    download.value.save_as(tmp_path / "one.json")
    before = kept(page)
    page.locator("#delete").click()
    expect(page.locator("#list button")).to_have_count(0)
    page.locator("#import-file").set_input_files(tmp_path / "one.json")
    expect(page.locator("#list button")).to_have_count(1)
    assert kept(page)[0]["messages"][1]["tokens"] == before[0]["messages"][1]["tokens"]
    page.locator("#import-file").set_input_files(tmp_path / "one.json")
    expect(page.locator("#notice")).to_contain_text("Nothing to import")
    (tmp_path / "saved.json").write_text(json.dumps([{"role": "user", "content": "from chat"}]))
    page.locator("#import-file").set_input_files(tmp_path / "saved.json")
    expect(page.locator("#list button").first).to_have_text("from chat")
    for bad in ("", "null", "[null]", '{"conversations": [{}]}'):
        (tmp_path / "bad.json").write_text(bad)
        page.locator("#notice").evaluate("notice => { notice.textContent = ''; }")
        page.locator("#import-file").set_input_files(tmp_path / "bad.json")
        expect(page.locator("#notice")).to_contain_text("Import failed: the file is neither an export of this page nor a list")


def test_api_key_is_requested_and_kept_for_the_session(server, visitor):
    page = visitor(server(GOLDEN, "--api-key", "sesame").url, locked=True)
    for key in ("wrong", "sesame"):
        expect(page.get_by_label("key")).to_be_visible()
        page.get_by_label("key").fill(key)
        page.get_by_role("button", name="Submit").click()
    expect(page.locator("#model")).to_contain_text("context")
    page.reload()
    expect(page.locator("#model")).to_contain_text("context")
    expect(page.locator("#key-form")).to_be_hidden()
    settle(page, max_tokens=5)
    say(page, "ROMEO:")
    ended(page)
    expect(page.locator(".token")).to_have_count(5)


def test_live_view_shows_steps_and_blocks_but_no_text(text_page):
    page = text_page
    settle(page, max_tokens=100)
    say(page, "ROMEO:")
    expect(page.locator("#steps")).to_have_attribute("aria-label", re.compile(r"Steps \d+ to \d+, \d+ sequence"))
    ended(page)
    expect(page.locator("#blocks")).to_have_attribute("aria-label", re.compile(r"^0 of \d+ blocks in use"))
    expect(page.locator("#happened li").first).to_contain_text("starts")
    assert "ROMEO" not in page.locator("aside").text_content()


def why(page, token):
    """Opens the explanation of a token of the last answer, and returns its frame."""
    page.locator(".model .body").last.locator(".token").nth(token).dispatch_event("click")  # a line feed is unclickable
    page.get_by_role("button", name="Why this token?").click()
    return page.frame_locator("#why iframe")


def ids_in(page):
    return [int(token) for token in page.locator("#why-link").get_attribute("href").split("#")[1].split(",")]


def test_a_token_is_explained(server, visitor):
    serve = server(GOLDEN, "--api-key", "sesame")
    page = visitor(serve.url, locked=True)
    page.get_by_label("key").fill("sesame")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#model")).to_contain_text("context")
    settle(page, max_tokens=40, seed=1)
    say(page, "ROMEO:")
    ended(page)
    frame = why(page, 30)
    expect(frame.locator("#text .token")).to_have_count(36)  # the frame has the API key, too
    with Wire(serve) as wire:
        made = json.loads(wire.request("POST", "/v1/explain", {"prompt": ids_in(page)}, Authorization="Bearer sesame").answer()[2])
    assert "".join(token["text"] for token in made["tokens"]) == "ROMEO:" + "".join(page.locator(".model .token").all_text_contents()[:30])

    def assert_shows(explained):
        first = explained.locator("#next li").first
        expect(first).to_contain_text(f"{100 * made['candidates'][-1]['list'][0][2]:.1f} %")
        assert explained.locator("#lens tr td:last-child").all_text_contents() == [str(level[-1]["rank"]) for level in made["lens"]]
        expect(explained.locator("#looked li").first).to_be_visible()
        expect(explained.locator("#far li").first).to_be_visible()

    assert_shows(frame)
    with page.context.expect_page() as opened:
        page.locator("#why-link").click()
    assert_shows(opened.value)  # the new tab has the API key, too
    frame.locator("#experiments > summary").click()
    frame.locator("#cut-part").select_option("head 2")
    frame.locator("#run").click()
    expect(frame.locator("#effect")).to_be_visible()
    expect(frame.locator("#experiments-say")).to_contain_text("0.2: zero")
    frame.locator("#cut-by").select_option("another text's")
    frame.locator("#cut-text").fill("JULIET:")
    frame.locator("#cut-layer").select_option("1")
    frame.locator("#run").click()
    expect(frame.locator("#experiments-say")).to_contain_text("0.2: zero; 1.2: patch from another text")
    page.locator("#why-close").click()
    expect(page.locator("#why")).to_be_hidden()


def test_why_shows_the_error_of_a_long_text(random_page):
    page = random_page
    page.evaluate("openNew('text')")
    settle(page, max_tokens=2)
    say(page, "he is the user " * 80)
    ended(page)
    expect(why(page, 0).locator("#ask .wrong")).to_contain_text("tokens, but at most 256 can be explained")


def test_a_token_of_a_chat_is_explained(random_chat, random_page):
    page = random_page
    settle(page, schema=json.dumps(SCHEMA), system="be kind")
    say(page, "he is the user")
    ended(page)
    tokens = [token["id"] for token in kept(page)[0]["messages"][1]["tokens"]]
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "he is the user"}]
    with Wire(random_chat) as wire:
        prompt = json.loads(wire.request("POST", "/tokenize", {"messages": messages}).answer()[2])["tokens"]
    for token in (0, 4):
        why(page, token)
        expect(page.locator("#why")).to_be_visible()
        assert ids_in(page) == prompt + tokens[:token]
        page.locator("#why-close").click()
