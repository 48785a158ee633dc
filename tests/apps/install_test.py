"""Tests that the documentation's programs build and run with an installed Folio, found by find_package(Folio)."""

import os
import re
import subprocess

from support import BUILD, GOLDEN, ROOT, generate


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, "CUDACXX": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PROGRAMS = {path.stem for path in (ROOT / "docs/cli").glob("*.md") if not path.stem.startswith("train-")}


def program_of(document):
    return re.search(r"```cpp\n(.*?)```", (ROOT / document).read_text(), re.DOTALL).group(1)


def test_documented_programs_run_outside_the_tree(tmp_path):
    # All that is installed must be built by `make programs`. No program links this library.
    assert "libfolio_interfaces.a" in run("ninja", "-C", BUILD, "-t", "query", "obj/apps/programs")
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "folio")
    assert not (tmp_path / "folio/folio").exists()  # the Python module, which only the wheel contains
    assert {path.name for path in (tmp_path / "folio/bin").iterdir()} == PROGRAMS
    (tmp_path / "main.cpp").write_text(program_of("README.md"))
    (tmp_path / "interfaces.cpp").write_text(program_of("docs/faster_transformer.md"))
    run("cmake", "-S", ROOT / "tests/apps/install", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'folio'}",
        f"-DREADME_MAIN={tmp_path / 'main.cpp'}", f"-DINTERFACES_MAIN={tmp_path / 'interfaces.cpp'}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", tmp_path / "build")
    text = run(tmp_path / "build/mine", GOLDEN)
    assert text == generate(GOLDEN, "-p", "ROMEO:", "-n", "100", "-s", "0")["text"] and len(text) > 50
    ids = [int(id) for id in run(tmp_path / "build/interfaces", GOLDEN).split()]
    for own, prompt in ((ids[:20], "Fir"), (ids[20:], "F")):
        assert own[len(prompt):] == generate(GOLDEN, "-p", prompt, "-n", 20 - len(prompt), "--temp", 0)["tokens"]
    # Programs that use the installed package must not include headers of the source tree.
    assert str(ROOT) not in "".join(path.read_text() for path in (tmp_path / "build").rglob("*.d"))
    assert run(tmp_path / "folio/bin/generate", "--version") == run(BUILD / "generate", "--version")
