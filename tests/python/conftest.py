import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "apps"))
import support  # noqa: E402


@pytest.fixture(scope="session")
def golden_gguf(tmp_path_factory):
    """Exports the small Shakespeare model of tests/golden as GGUF, and returns the path of the file."""
    return support.export(support.GOLDEN, tmp_path_factory.mktemp("golden") / "golden.gguf")


@pytest.fixture(scope="session")
def model(golden_gguf):
    import folio

    with folio.Model(golden_gguf, threads=2) as model:
        yield model
