"""Runs the Gradio pages of docs/interfaces.md: streamed outputs grow, and equal those of folio.Model.
scripts/bootstrap.sh installs Gradio and its client in build/venv-gradio."""

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gradio_client import Client

from folio import Model

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "shakespeare_48"
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
BLOCKS = re.findall(r"(?:^    .*\n)+", (ROOT / "docs" / "interfaces.md").read_text(), re.M)
PAGES = [textwrap.dedent(block) for block in BLOCKS if "import gradio" in block]


class Page:
    """A running Gradio page. `code` is an example of the docs; `changes` are pairs (old, new) to replace in it."""

    def __init__(self, folder, code, *changes):
        for old, new in changes:
            assert code.count(old) == 1, f"{old} is not in the page once:\n{code}"
            code = code.replace(old, new)
        (folder / "page.py").write_text(code)
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, "-u", folder / "page.py"], stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True,
            env=os.environ | {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"})
        for line in self.process.stdout:
            if found := re.search(r"http://\S+", line):
                self.client = Client(found[0], verbose=False)
                return
        raise AssertionError(f"the page ended: {self.log.read_text()}")

    def __enter__(self):
        return self.client

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def test_page_in_three_lines(tmp_path):
    model = Model(GOLDEN)
    prompts = ["ROMEO:", "JULIET:\nWhat", "K", "First Citizen:"] * 2
    expected = [model.generate(prompt, seed=1) for prompt in prompts]
    with Page(tmp_path, PAGES[0], ('"runs/tinyshakespeare"', repr(str(GOLDEN))),
              ("model.stream(prompt", "model.stream(prompt, seed=1")) as client:
        def say(prompt):
            job = client.submit(prompt, api_name="/say")
            return job.result(), job.outputs()

        with ThreadPoolExecutor(len(prompts)) as users:
            told = list(users.map(say, prompts))
    assert [outputs[-1] for _, outputs in told] == expected
    for (_, outputs), text in zip(told, expected):
        assert outputs and all(text.startswith(output) for output in outputs)  # a fast model may yield only one output
        assert sorted(outputs, key=len) == outputs


def test_chat_in_three_lines(tmp_path):
    if not SMOLLM2.exists():
        pytest.skip(f"{SMOLLM2} is not there: make smollm2 fetches it")
    model = Model(SMOLLM2, context=1024)
    first = model.chat("What is 2 + 2?", temperature=0, max_tokens=20)
    messages = [dict(role="user", content="What is 2 + 2?"), dict(role="assistant", content=first),
                dict(role="user", content="And one more?")]
    second = model.chat(messages, temperature=0, max_tokens=20)
    model.close()
    with Page(tmp_path, PAGES[1], ('"model.gguf"', f"{str(SMOLLM2)!r}, context=1024"),
              ("stream=True", "stream=True, temperature=0, max_tokens=20")) as client:
        assert client.predict("What is 2 + 2?", api_name="/answer") == first
        assert client.predict("And one more?", api_name="/answer") == second
