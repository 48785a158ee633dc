"""Training runs written by build/train, and their logs as arrays.

    run = folio.runs()[-1]
    plt.plot(*run.curve("loss")); plt.plot(*run.curve("val_loss"))
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._engine import Error
from .model import Model


class Run:
    """The directory of a run, such as runs/tinyshakespeare."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path)
        if not (self.path / "log.jsonl").is_file():
            raise Error(f"{self.path}: this is no folder of a run, which has a log.jsonl; build/train makes one")

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def log(self) -> dict[str, np.ndarray]:
        """The lines of log.jsonl as columns: step, tokens, loss, lr, …, val_loss. Missing numbers are NaN.

        String columns, such as sample, have dtype object; missing strings are None. The log is read at the first
        access, and not updated while a run continues. An incomplete last line is omitted.
        """
        lines = _lines(self.path / "log.jsonl")
        columns: dict[str, np.ndarray] = {}
        for name in dict.fromkeys(key for line in lines for key in line):
            values = [line.get(name) for line in lines]
            if any(isinstance(value, str) for value in values):
                columns[name] = np.array(values, dtype=object)
            elif all(isinstance(value, int) for value in values):
                columns[name] = np.array(values, dtype=np.int64)
            else:
                columns[name] = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return columns

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns (steps, values) of the log's lines that contain the number `name`, such as "loss"."""
        if name not in self.log or self.log[name].dtype == object:
            numbers = ", ".join(key for key, column in self.log.items() if column.dtype != object)
            raise Error(f"{self.path}: its log has no number {name!r}; it has {numbers}")
        has = ~np.isnan(self.log[name].astype(np.float64))
        return self.log["step"][has], self.log[name][has]

    @property
    def config(self) -> dict[str, Any]:
        """The contents of config.toml: every flag of the run and its value."""
        config: dict[str, Any] = {}
        for line in (self.path / "config.toml").read_text(encoding="utf-8").splitlines():
            key, equals, value = line.partition(" = ")
            if equals and not line.startswith("#"):
                try:
                    config[key] = json.loads(value)
                except ValueError:
                    config[key] = value
        return config

    def model(self, **options: Any) -> Model:
        """Loads the run's model. Accepts Model()'s options."""
        return Model(self.path / "model.gguf", **options)


def runs(home: Union[str, os.PathLike[str], None] = None) -> list[Run]:
    """Returns the runs in `home`/runs, oldest first. `home` defaults to $FOLIO_HOME or the working directory."""
    folder = Path(home if home is not None else os.environ.get("FOLIO_HOME") or ".") / "runs"
    logs = sorted(folder.glob("*/log.jsonl"), key=lambda log: log.stat().st_mtime)
    return [Run(log.parent) for log in logs]


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = []
    texts = path.read_bytes().split(b"\n")  # not a str, because the last line may end within a character
    for number, text in enumerate(texts, 1):
        if not text:
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            if number == len(texts):
                break  # a killed process left an incomplete last line
            raise Error(f"{path}:{number}: this line is no JSON object")
        lines.append(line)
    return lines
