"""Compares chats with llama.cpp: the tokens of a rendered conversation and the greedy answer. The models are small,
with random F32 weights."""

import json
import sys

import jinja2
import pytest

from engines import ROOT, LlamaCpp, assert_same_text, folio

sys.path.append(str(ROOT / "tests" / "data" / "chat"))

from chat_model import write_chat_model  # noqa: E402
from published_templates import KNOWN  # noqa: E402


def rendered(template, messages):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True, bos_token="<s>",
                                                    eos_token="</s>")


@pytest.mark.parametrize("name", KNOWN)
def test_chat_tokens_and_answer_match_llama_cpp(name, tmp_path):
    template = KNOWN[name]
    path = write_chat_model(tmp_path / "model.gguf", template)
    with LlamaCpp(path, n_ctx=512) as theirs:
        for system, prompt in [(None, "hello world"), ("Be brief.\n", "  why?\n\n  So. "), (None, "\n{{ 中文 }} 😀")]:
            if system is not None and name == "Gemma":
                continue  # Gemma's template rejects system messages
            messages = [{"role": "user", "content": prompt}]
            messages = messages if system is None else [{"role": "system", "content": system}, *messages]
            flags = [] if system is None else ["--system", system]
            ours = json.loads(folio("chat", "--json", "-m", path, "-n", 40, "--temp", 0, "-p", prompt, *flags))
            assert ours["prompt_tokens"] == theirs.tokenize(rendered(template, messages), special=True)
            tokens, gaps = theirs.greedy(ours["prompt_tokens"], 40, never=[])
            assert assert_same_text(ours["tokens"], tokens, gaps) > 0
