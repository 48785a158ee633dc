import sys

import pytest

import support
from exactness import make_home

sys.path.append(str(support.ROOT / "tests" / "apps" / "files"))


@pytest.fixture
def home(tmp_path):
    """Returns a new folder with cats.txt, a text of a few kilobytes."""
    return make_home(tmp_path)


@pytest.fixture(scope="session")
def golden_gguf(tmp_path_factory):
    return support.export(support.GOLDEN, tmp_path_factory.mktemp("golden") / "golden.gguf")


@pytest.fixture(scope="session")
def accented_run(tmp_path_factory):
    """Returns the directory of a run on a text with characters of two, three and four bytes."""
    home = tmp_path_factory.mktemp("accented")
    text = home / "accented.txt"
    text.write_text(support.ACCENTED, encoding="utf-8")
    support.succeed("train", text, "--out", home / "run", *support.LEARNING_RUN, home=home)
    return home / "run"
