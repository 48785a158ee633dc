"""A kind of bad file: a small valid model with one defect, and the message that the programs have to give."""

import dataclasses
import typing

REFUSES, SHOWS, PASSES = "refuses", "shows", "passes"


@dataclasses.dataclass
class Kind:
    """`write(folder)` leaves the model there and returns its path and its --tokenizer file, or None.

    `phrase` has to stand in the one line that refuses it, beside the name of `file`. `inspect` may refuse it, too, or
    show what it can and say the phrase in its place, or pass, where it does not look at the broken part.
    """

    name: str
    phrase: str
    write: typing.Callable
    file: str
    inspect: str = REFUSES
    prompts: str = None  # a file for --prompts: then it is generate alone that reads it


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
