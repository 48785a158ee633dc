"""Defines a kind of bad file: a small valid model with one defect, and the expected error."""

import dataclasses
import typing

REFUSES, SHOWS, PASSES = "refuses", "shows", "passes"


@dataclasses.dataclass
class Kind:
    """`write(folder)` writes the model and returns its path and its --tokenizer file, or None.

    The one-line error must contain `phrase` and the name of `file`. `inspect` may reject the file, too, or show what it
    can with the phrase in place of the rest, or pass if it doesn't read the broken part.
"""

    name: str
    phrase: str
    write: typing.Callable
    file: str
    inspect: str = REFUSES
    prompts: str = None  # a file for --prompts, which only generate reads


class Kinds:
    """A table of kinds that break the same model: `make()` returns it, `write(folder, model)` writes it."""

    def __init__(self, prefix, make, write, file, inspect=REFUSES):
        self.prefix, self.make, self.write, self.file, self.inspect = prefix, make, write, file, inspect
        self.all = []

    def add(self, name, phrase, change, file=None, inspect=None):
        def write(folder):
            model = self.make()
            return self.write(folder, model, change(model))
        self.all.append(Kind(f"{self.prefix}: {name}", phrase, write, file or self.file, inspect or self.inspect))


def write_file(path, packed):
    """Writes bytes, or (bytes, length) as a sparse file that continues with zeros."""
    head, size = packed if isinstance(packed, tuple) else (packed, len(packed))
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path
