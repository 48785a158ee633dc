"""Defines a kind of bad file: a small valid model with one defect, and the expected error."""

import dataclasses
import typing

REFUSES, SHOWS, PASSES = "refuses", "shows", "passes"


@dataclasses.dataclass
class Kind:
    """A bad file. `write(folder)` writes all files and returns (path of the model, path for --tokenizer or None).

    The one-line error must contain `phrase` and the name of `file`. The program `inspect` rejects the file (REFUSES),
    shows the valid part and the phrase (SHOWS), or doesn't read the invalid part (PASSES).
"""

    name: str
    phrase: str
    write: typing.Callable
    file: str
    inspect: str = REFUSES


def kinds_of(prefix, make, write, file, inspect, defects):
    """Returns kinds of bad files made from one valid model, which `make()` returns and `write(folder, model, change(model))`
    writes. `defects` are tuples (name, phrase, change)."""
    def bad(change):
        def write_bad(folder):
            model = make()
            return write(folder, model, change(model))
        return write_bad
    return [Kind(f"{prefix}: {name}", phrase, bad(change), file, inspect) for name, phrase, change in defects]


def write_file(path, packed):
    """Writes bytes, or for (bytes, length) a sparse file: the bytes, then zeros up to the length. Returns the path."""
    head, size = packed if isinstance(packed, tuple) else (packed, len(packed))
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path
