#!/usr/bin/env python3
"""Lists the exercises of experiments/exercises/README.md, builds and tests one, or prints one of its hints.

An exercise is a row of the table there. Select it by number or by file: rms_norm, or engine/rms_norm if several folders
have one. Passed exercises are recorded in runs/exercises/."""

import argparse
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "experiments" / "exercises"
PLAIN = ("path", "engine", "serving", "cuda")  # groups that don't need LibTorch
ROW = re.compile(r"^\| (\d+) \| \[[^]]+\]\(([./\w]*?(\w+)/(\w+)\.\w+)\) \| (.+?) \|", re.M)


class Exercise:
    def __init__(self, number, file, group, name, what):
        self.number, self.group, self.name, self.what = number, group, name, what
        self.file = (FOLDER / file).resolve()
        self.folder = self.file.parents[1]
        self.full_name = f"{group}/{name}"
        self.note = ROOT / "runs" / "exercises" / group / name

    def hint_texts(self):
        text = (self.folder / "hints" / self.group / f"{self.name}.md").read_text()
        return re.split(r"^\d+\. ", text, flags=re.M)[1:]

    def hints(self):
        """Returns the hints as paragraphs, followed by the solution."""
        steps = [" ".join(re.sub(r"<!--.*?-->", "", step, flags=re.S).split()) for step in self.hint_texts()]
        solution = (self.folder / "solutions" / self.group / f"{self.name}.cpp").read_text()
        return [textwrap.fill(step, 110) for step in steps] + [solution.rstrip()]

    def hint_for(self, test):
        """Returns the number of the hint whose `<!-- properties: … -->` names this test; 1 if none does."""
        for number, text in enumerate(self.hint_texts(), 1):
            if any(test in tests.split(", ") for tests in re.findall(r"<!-- properties: (.*?) -->", text)):
                return number
        return 1

    def is_green(self):
        """Returns True if the exercise's last test run passed, and its file hasn't changed since."""
        return self.note.exists() and self.note.stat().st_mtime >= self.file.stat().st_mtime

    def set_green(self, green):
        if green:
            self.note.parent.mkdir(parents=True, exist_ok=True)
            self.note.touch()
        else:
            self.note.unlink(missing_ok=True)


def exercises():
    return [Exercise(*row) for row in ROW.findall((FOLDER / "README.md").read_text())]


def find(wanted, every):
    found = [e for e in every if wanted in (e.number, e.name, e.full_name)]
    if len(found) != 1:
        names = ", ".join(e.full_name for e in found or every)
        sys.exit(f"exercise: {wanted} is {'more than one' if found else 'none'} of the exercises: {names}")
    return found[0]


def configured(folder, group):
    """Returns True if the folder is set up with the group's exercises, unlike that of `make demo`."""
    ninja = folder / "build.ninja"
    return (folder / "CMakeCache.txt").exists() and ninja.exists() and f"exercise_{group}_" in ninja.read_text()


def set_up(preset, goal, what):
    print(f"First set-up, once: {what}", flush=True)
    subprocess.run([ROOT / "scripts" / "bootstrap.sh", goal], check=True)
    subprocess.run(["cmake", "--preset", preset, "-DFOLIO_KERNELS=native", "--log-level=ERROR"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


def build_folder(group):
    """Returns a build folder for the group, and sets it up if necessary."""
    full, serving = ROOT / "build", ROOT / "build-serving"
    if configured(full, group):
        return full
    if group not in PLAIN:
        set_up("default", "build", "build/ is configured, with LibTorch, which is installed if there is none (minutes).")
        return full
    if not configured(serving, group):
        set_up("serving", "serving", "system packages, if some are missing, and build-serving/ (seconds).")
    return serving


def build(folder, target):
    """Builds the target. If that fails, prints the compiler's messages without ninja's own lines, and exits with 1."""
    done = subprocess.run(["cmake", "--build", folder, "--target", target], stdout=subprocess.PIPE, text=True,
                          errors="replace")
    if done.returncode:
        noise = re.compile(r"^(\[|FAILED: |ninja: (build stopped|Entering)|.* -o )")
        print("\n".join(line for line in done.stdout.splitlines() if not noise.match(line)))
        sys.exit(1)


def build_generate():
    folder = build_folder("engine")
    print("Building generate with your functions (with the engine, if nothing has built it yet: minutes).", flush=True)
    build(folder, "exercise_generate")
    program = (folder / "exercises" / "generate").relative_to(ROOT)
    print(f'Now your own arithmetic speaks: {program} "ROMEO:"')


def train_row():
    folder = build_folder("modules")
    print("Training a Llama of Folio's parts and one of yours, some minutes each. The first time, the trainer is compiled "
          "before.", flush=True)
    build(folder, "exercise_row")
    return subprocess.run([folder / "exercises" / "row"]).returncode


def show_list(every):
    width = max(len(e.full_name) for e in every)
    for e in every:
        print(f"  {e.number:>2}  {'green' if e.is_green() else 'red  '}  {e.full_name.ljust(width)}  {e.what}")
    print("\nmake exercise N=1 (or a name) checks one, with HINT=1 it helps; how it works: experiments/exercises/README.md")


def show_hint(exercise, number):
    hints = exercise.hints()
    if not 1 <= number <= len(hints):
        sys.exit(f"exercise: {exercise.full_name} has the hints 1 to {len(hints)}, and the last is the code")
    what = "the code" if number == len(hints) else f"the last, {len(hints)}, is the code"
    print(f"{exercise.number} {exercise.full_name}, hint {number} of {len(hints)} ({what})\n\n{hints[number - 1]}")


def run_tests(program):
    """Prints the program's output as it arrives. Returns (exit code, name of the failed test). The name is None if no
    test failed or if the exercise is still unwritten."""
    lines = []
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    text = " ".join("".join(lines).split())
    failed = re.search(r"FAILS (\w+)", text)
    if not failed or ("still to be written" in text and "holds" not in text.split()):
        return process.returncode, None
    return process.returncode, failed.group(1)


def run(exercise, every):
    print(f"{exercise.number} {exercise.full_name}: {exercise.what}", flush=True)
    folder = build_folder(exercise.group)
    if exercise.group not in PLAIN and not (folder / "obj" / "modules" / "libfolio_modules.a").exists():
        print("First set-up, once: LibTorch's headers and Folio's modules are compiled (a minute or two).", flush=True)
    build(folder, f"exercise_{exercise.group}_{exercise.name}")
    code, failed = run_tests(folder / "exercises" / exercise.group / exercise.name)
    exercise.set_green(code == 0)
    if code:
        hint = exercise.hint_for(failed)
        print(f"red: {exercise.file.relative_to(ROOT)}\nA hint: make exercise N={exercise.number} HINT={hint}")
        return 1
    print("green")
    if exercise.group == "engine" and all(e.is_green() for e in every if e.group == "engine"):
        build_generate()
    if exercise.full_name == "modules/llama":
        train_row()
    following = [e for e in every if not e.is_green()]
    if following:
        print(f"Next: make exercise N={following[0].number} ({following[0].full_name})")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercise", nargs="?", help="a number, a name, generate, or row; without it, the list")
    parser.add_argument("--hint", type=int, metavar="N", help="print the exercise's hint N; the last is the code")
    arguments = parser.parse_args()
    wanted = arguments.exercise
    every = exercises()
    if arguments.hint is not None and not wanted:
        parser.error("a hint is one of an exercise: make exercise N=1 HINT=1")
    if arguments.hint is not None:
        show_hint(find(wanted, every), arguments.hint)
    elif not wanted:
        show_list(every)
    elif wanted == "generate":
        build_generate()
    elif wanted == "row":
        return train_row()
    else:
        return run(find(wanted, every), every)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:  # the command has printed the reason
        sys.exit(error.returncode)
    except KeyboardInterrupt:
        sys.exit(130)
