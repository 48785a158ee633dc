"""What is installed is enough for a project of one's own: the README's program, by find_package(Folio)."""

import os
import re
import subprocess

from support import BUILD, GOLDEN, ROOT, generate


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, "CUDACXX": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_program_of_the_readme_runs_outside_the_tree(tmp_path):
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "folio")
    program = re.search(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    (tmp_path / "main.cpp").write_text(program)
    run("cmake", "-S", ROOT / "tests/apps/install", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'folio'}",
        f"-DREADME_MAIN={tmp_path / 'main.cpp'}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", tmp_path / "build")
    text = run(tmp_path / "build/mine", GOLDEN)
    assert text == generate(GOLDEN, "-p", "ROMEO:", "-n", "100", "-s", "0")["text"] and len(text) > 50
    assert str(ROOT) not in "".join(path.read_text() for path in (tmp_path / "build").rglob("*.d"))  # no header of the tree
    assert run(tmp_path / "folio/bin/generate", "--version") == run(BUILD / "generate", "--version")
