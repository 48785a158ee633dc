"""Folio's inference engine for Python: generates, scores, and exposes a model's intermediate values.

    from folio import Model
    with Model("runs/tinyshakespeare") as model:
        print(model.generate("ROMEO:", max_tokens=100, seed=1))
"""

from ._engine import Error, version as __version__
from .explanation import Explanation
from .model import Model
from .runs import Run, runs

__all__ = ["Error", "Explanation", "Model", "Run", "__version__", "runs"]
