"""Runs form_tool.cpp for the tests that compare forms with other packages."""

import json
import os
import subprocess
from pathlib import Path

TOOL = Path(os.environ["FOLIO_BUILD_DIR"]) / "tests" / "form_tool"


class Tool:
    """A process that answers questions about forms. A question has a form's source: a schema, regex or grammar."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
