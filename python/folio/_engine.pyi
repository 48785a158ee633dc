# The compiled module, for type checkers. python/src/module.cpp lists its functions; bodies of requests, options and
# other values of JSON types are JSON text. For all signatures: python -m nanobind.stubgen -m folio._engine
from typing import Any

version: str

class Error(RuntimeError): ...
class Refusal(Error): ...

def __getattr__(name: str) -> Any: ...
