"""Tests train --family: models of other families than Llama are trained, saved, verified, and read by transformers."""

import pytest

from published import train_family
from support import LONG

FAMILIES = {"qwen2": [], "qwen3 window": ["--head-dim", "6", "--sliding-window", "9", "--tie-embeddings", "false"],
            "gemma2 window": ["--sliding-window", "9"], "glm4": [], "youtu": []}
if LONG:
    FAMILIES |= {"mistral": ["--sliding-window", "12"], "qwen3": ["--head-dim", "12"],
                 "gemma3_text window": ["--sliding-window", "9"], "olmo2": [], "granite": [], "phi3": [], "glm": []}


@pytest.mark.parametrize("name", FAMILIES)
def test_training_of_each_family(home, name):
    family = name.split()[0]
    done, _ = train_family(home, family, "--family", family, *FAMILIES[name])
    assert ("AutoTokenizer" in done.stderr) == (family == "qwen2")
