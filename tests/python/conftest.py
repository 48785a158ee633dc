import sys
from pathlib import Path

import pytest

import folio

sys.path.insert(0, str(Path(__file__).parents[1] / "apps"))
import support  # noqa: E402
from chat_model import write_chat_model  # noqa: E402


@pytest.fixture(scope="session")
def golden_gguf(tmp_path_factory):
    """Exports the small Shakespeare model of tests/golden as GGUF, and returns the path of the file."""
    return support.export(support.GOLDEN, tmp_path_factory.mktemp("golden") / "golden.gguf")


@pytest.fixture(scope="session")
def model(golden_gguf):
    with folio.Model(golden_gguf, threads=2) as model:
        yield model


@pytest.fixture(scope="session")
def oracle():
    """Returns the model of tests/golden in transformers."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(support.GOLDEN, attn_implementation="eager").eval()


@pytest.fixture(scope="session")
def tokenizer():
    """Returns the tokenizer of tests/golden in transformers."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(support.GOLDEN)


@pytest.fixture(scope="session")
def chat_gguf(tmp_path_factory):
    """Returns the path of a chat model with random weights, whose vocabulary can form any JSON."""
    return write_chat_model(tmp_path_factory.mktemp("chat") / "chat.gguf")


@pytest.fixture(scope="session")
def chats(chat_gguf):
    with folio.Model(chat_gguf, threads=1) as model:
        yield model
