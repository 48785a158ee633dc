"""Runs the program of form_tool.cpp, which checks strings against forms (output constraints)."""

import json
import os
import subprocess
from pathlib import Path

import pytest

TOOL = Path(os.environ["FOLIO_BUILD_DIR"]) / "tests" / "form_tool"
SMOLLM2 = Path(__file__).resolve().parents[3] / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Tool:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="module")
def tool():
    tool = Tool()
    yield tool
    tool.close()
