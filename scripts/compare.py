#!/usr/bin/env python3
"""Compares programs in alternating rounds, on an idle machine and with busy processes running. scripts/bench_*.py use
the functions.

Usage: scripts/compare.py COMMAND... [--models FILE...] [--with FLAGS...] [--busy 0 1] [--copies N...] [--rounds 7]
       [--python PATH] [--svg FILE] [--keep FILE] [--json]

  scripts/compare.py "train tinyshakespeare --steps 200" "GOMP_SPINCOUNT=300000 train tinyshakespeare --steps 200"
  scripts/compare.py "bench -m {}" "llama.cpp -m {}" --models A.gguf B.gguf --with "--prompt-tokens 512 -t 2" "-t 1"

  training: "train tinyshakespeare --steps 100 --sample 0 --eval-batches 1" "pytorch" "pytorch --compile" --with
            "--layers 6 --dim 384 --heads 6 --hidden-dim 1024 --batch-size 8 --context 256 --dtype bf16 --dropout 0.2"
  llama2.c: "generate -m M.bin --tokenizer M.tokenizer.bin --temp 0 -n 255 -t 2" "OMP_NUM_THREADS=2 PATH/run M.bin -z
            M.tokenizer.bin -t 0 -n 256", after `build/export MODEL --out M.bin --format llama2c`
  beams:    "generate --beams 4 --beams-out 4 --early-stopping=never --length-penalty 10 -p TEXT -m {} -n 128 -t 2"
            "generate --prompts FILE_WITH_4_TIMES_TEXT --logit-bias 0=-100 --logit-bias 2=-100 -m {} -n 128 -t 2"
            "transformers -m DIRECTORY --beams 4 --prompt-tokens 8 --gen-tokens 128 -t 2", with an F32 model

A command is a quoted string of environment variables and a program with its flags, as in ENGINES. The program is train,
bench or generate in build/, or an absolute path to one of another build. llama.cpp, openvino, transformers and pytorch
(a training step) are the scripts *_speed.py, which have flags like those programs. llama-bench is a path to
llama.cpp's or ik_llama.cpp's program (best with `-rtr 1 -fa 1`), and run one to llama2.c's. {} stands for each of
--models; --with measures all commands with each of these strings of further flags. A busy process runs `while True:
pass` in Python. --copies 2 also runs two instances of a command at once without a busy process, and adds their speeds.

Each round runs every command once in each of these ways, in alternating order. Prints medians of tokens/s, and medians
with 95 % bootstrap intervals of three ratios within a round: to the same command on the idle machine, and, under the
same load, to the first command and to the fastest engine of other projects. For train, `steps` excludes the startup,
evaluations, samples and checkpoints that `run` includes. Also prints the peak memory of training in MB, and for bench
the share of the memory's read bandwidth, measured by the same process. --svg draws the ratios of the first command to
the fastest other engine. --keep appends each measurement to FILE, and also reports those already in it: repeat the
command to continue an interrupted run, or with a larger --rounds to add rounds."""
import argparse
import collections
import contextlib
import json
import math
import os
import pathlib
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from picture import plot_ratios

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TINYSHAKESPEARE = ROOT / "data" / "tinyshakespeare" / "input.txt"

# The stdout and stderr of an ended process, its wall and CPU time in seconds, and its maximum resident memory in MB,
# which is at least that of this Python process, since a forked process starts as a copy.
Result = collections.namedtuple("Result", "out error seconds cpu_seconds peak_mb")


class Process:
    """A started program. Its output goes to files, since a full pipe would block it."""

    def __init__(self, *command, environment=None, folder=None, log=None):
        self.log = log  # path of a file to which the output is written, even if the program fails
        self.command = [str(word) for word in command]
        self.out, self.error = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.begun = time.perf_counter()
        try:
            self.process = subprocess.Popen(self.command, env=os.environ | (environment or {}), cwd=folder,
                                            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.error)
        except OSError as error:
            sys.exit(f"{self.command[0]}: {error.strerror}")

    def result(self):
        """Waits for the program to end and returns a Result. If the program failed, exits with its error output."""
        _, status, usage = os.wait4(self.process.pid, 0)
        seconds = time.perf_counter() - self.begun
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        said = []
        for file in (self.out, self.error):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
            file.close()
        if self.log:
            self.log.write_text("".join(said))
        if code:
            sys.exit(f"{' '.join(self.command)} ended with {code}: {said[1][-2000:].strip()}")
        return Result(*said, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def close(self):
        """Terminates the program unless result() has waited for its end."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run(*command, **more):
    with contextlib.closing(Process(*command, **more)) as process:
        return process.result()


def json_of(*command):
    return json.loads(run(*command).out)


@contextlib.contextmanager
def busy(n):
    """Keeps n processes that never sleep running during the `with` block."""
    code = "print(flush=True)\nwhile True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(n)]
    try:
        for process in processes:
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# A program to measure: the script that runs it, or None; its flags, in which RUN is replaced by a new directory; and a
# function that maps its Result and that directory to measurements, such as {"decode": tokens/s}.
Engine = collections.namedtuple("Engine", "script flags speeds")
RUN = object()
MEMORY = "peak, MB"


def speeds_of_json(result, _):
    said = json.loads(result.out)
    speeds = {what: said[f"{what}_tokens_per_s"] for what in ("prefill", "decode")}
    return speeds | ({"bandwidth, %": 100 * said["bandwidth_share"]} if said.get("bandwidth_share") else {})


def speeds_of_training(result, folder):
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    tokens = [entry["tokens"] - before for entry, before in zip(log, [0] + [e["tokens"] for e in log])]
    in_steps = sum(n / entry["tokens_per_s"] for n, entry in zip(tokens, log))
    return {"steps": sum(tokens) / in_steps, "run": sum(tokens) / result.seconds, MEMORY: result.peak_mb}


def speeds_of_pytorch(result, _):
    return {"steps": json.loads(result.out)["steps_tokens_per_s"], MEMORY: result.peak_mb}


def speeds_of_llama_bench(result, _):
    tests = json.loads(re.sub("^[=C].*", "", result.out, flags=re.MULTILINE))  # without lines that ik_llama.cpp adds
    return {"prefill" if test["n_prompt"] else "decode": test["avg_ts"] for test in tests}


def speeds_of_llama2c(result, _):
    return {"decode": float(re.search(r"achieved tok/s: ([\d.]+)", result.error)[1])}


ENGINES = {"train": Engine(None, ["--out", RUN], speeds_of_training),
           "bench": Engine(None, ["--json"], speeds_of_json),
           "generate": Engine(None, ["--json"], speeds_of_json),
           "llama.cpp": Engine(HERE / "llama_cpp_speed.py", [], speeds_of_json),
           "openvino": Engine(HERE / "openvino_speed.py", [], speeds_of_json),
           "transformers": Engine(HERE / "transformers_speed.py", [], speeds_of_json),
           "pytorch": Engine(HERE / "pytorch_speed.py", [], speeds_of_pytorch),
           "llama-bench": Engine(None, ["-o", "json"], speeds_of_llama_bench),
           "run": Engine(None, [], speeds_of_llama2c)}
PEERS = {"llama.cpp", "openvino", "transformers", "pytorch", "llama-bench", "run"}  # engines of other projects


class Command:
    """A command to measure: environment variables, a program of ENGINES and its flags. `python` is the path of a Python
    interpreter with the packages of other projects."""

    def __init__(self, line, python=sys.executable):
        words, self.environment = shlex.split(line), {}
        while words and "=" in words[0]:
            name, value = words.pop(0).split("=", 1)
            self.environment[name] = value
        name = pathlib.Path(words[0]).name if words else ""
        if name not in ENGINES:
            sys.exit(f"{line}: the program is none of {', '.join(ENGINES)}")
        self.engine, self.is_peer = ENGINES[name], name in PEERS
        program = BUILD / name if words[0] == name else pathlib.Path(words[0]).resolve()
        start = [python, self.engine.script] if self.engine.script else [program]
        self.words = [*start, *words[1:], *self.engine.flags]

    def speeds(self, copies=1):
        """Runs `copies` instances of the command at the same time. Returns the sums of their measurements."""
        with contextlib.ExitStack() as stack:
            folders = [pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run" for _ in range(copies)]
            words = [[folder if word is RUN else word for word in self.words] for folder in folders]
            processes = [stack.enter_context(contextlib.closing(Process(*one, environment=self.environment)))
                         for one in words]
            found = [self.engine.speeds(process.result(), folder) for process, folder in zip(processes, folders)]
        return {what: sum(speeds[what] for speeds in found) for what in found[0]}


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}, but must be at least 1")
    return int(text)


def parser(doc, rounds, threads=2):
    """Returns a parser with the flags that all comparisons have. `rounds` and `threads` are the defaults of --rounds
    and --threads; threads=None omits --threads."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=positive, default=rounds)
    if threads:
        p.add_argument("--threads", type=positive, default=threads)
    p.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="append to FILE, and continue its measurements")
    p.add_argument("--json", action="store_true", help="print the measurements of all rounds, and no table")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, which ends busy processes and servers
    return p


def speed_parser(doc, **more):
    """Returns a parser with the flags of scripts that measure another engine as build/bench does. `more` maps
    further flags to their defaults, which also determine their types."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("-m", "--model", required=True)
    p.add_argument("-t", "--threads", type=int, default=0)
    for name, value in {"prompt_tokens": 128, "gen_tokens": 64, "repetitions": 5, **more}.items():
        p.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return p


def print_speeds(measure, a):
    """Calls measure(prompt tokens, output tokens, repetition), which returns tokens/s of prefill and decode, once as a
    short warm-up and then for each of --repetitions. Prints the medians as a line of JSON."""
    measure(min(16, a.prompt_tokens), min(16, a.gen_tokens), 0)
    speeds = [measure(a.prompt_tokens, a.gen_tokens, i + 1) for i in range(a.repetitions)]
    prefill, decode = map(statistics.median, zip(*speeds))
    print(json.dumps({"prefill_tokens_per_s": prefill, "decode_tokens_per_s": decode}))


def alternate(names, measure, a, warm_up=0):
    """Calls measure(name, round) for each name once per round, in alternating order, after `warm_up` rounds that don't
    count. A name is a string or a tuple. Returns {name: [result of each round]}, including results that the file of
    --keep already contains."""
    results = {name: [] for name in names}
    for line in a.keep.read_text().splitlines() if a.keep and a.keep.exists() else []:
        name, value = json.loads(line)
        results.setdefault(tuple(name) if isinstance(name, list) else name, []).append(value)
    for i in range(-warm_up, a.rounds):
        for name in list(names)[:: 1 if i % 2 == 0 else -1]:
            values = results[name]
            if len(values) >= (i + 1 if i >= 0 else a.rounds):  # measured by an earlier run of this command
                continue
            value = measure(name, i)
            if i < 0:
                continue
            values.append(value)
            print(f"round {i + 1}: {json.dumps([name, value])[:200]}", file=sys.stderr, flush=True)
            if a.keep:
                with a.keep.open("a") as file:
                    print(json.dumps([name, value]), file=file)
    return {name: values for name, values in results.items() if values}


def ratios(ours, theirs):
    return [x / y for x, y in zip(ours, theirs)]


def with_range(values, digits=2):
    """Formats the median of the values with their minimum and maximum."""
    median, low, high = (f"{f(values):,.{digits}f}" for f in (statistics.median, min, max))
    return median if len(values) == 1 else f"{median} ({low} to {high})"


def interval(values, draws=10_000):
    """Returns (low, high), the 95 % bootstrap interval of the median of `values`."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(draws))
    return medians[draws * 25 // 1000], medians[draws * 975 // 1000 - 1]


def with_interval(values, digits=2):
    low, high = interval(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


# Factors of Student's t for 95 % intervals, by number of values; more than 10 use the last, slightly too large.
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def mean_with_interval(values, form=".1f"):
    """Formats the mean ± half the width of its 95 % confidence interval (Student's t)."""
    mean = f"{statistics.mean(values):{form}}"
    if len(values) == 1:
        return mean
    half = T95[min(len(values), 10)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} ± {half:{form.removeprefix('+')}}"


def table(head, rows, title=""):
    """Prints the title and the rows as a Markdown table."""
    rows = [[str(cell) for cell in row] for row in rows]
    is_number = [all(row[i][:1] in "0123456789-" for row in rows) for i in range(len(head))]
    print(f"{title}\n" if title else "", end="")
    print(f"| {' | '.join(head)} |\n|{'|'.join('--:' if number else '---' for number in is_number)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def report(a, results, head, rows, title=""):
    """Prints a table; with --json, all results instead."""
    if a.json:
        print(json.dumps([{"name": name, "rounds": values} for name, values in results.items()]), flush=True)
    else:
        table(head, rows, title)


def comparisons(results):
    """Yields (key, speeds, and three lists of ratios: to the same command on an idle machine, to the first command, and
    to the best engine of another project). Keys of `results` are (model, flags, command, busy processes, copies); a
    yielded key also has the name of the speed."""
    speed = {(*name, what): [r[what] for r in rounds] for name, rounds in results.items() for what in rounds[0]}
    for key in sorted(speed, key=lambda key: (*key[:2], key[4], key[3], key[5])):
        model, flags, command, n_busy, copies, what = key
        beside = [k for k in speed if k[:2] == key[:2] and k[3:] == key[3:]]
        peers = [k for k in beside if Command(k[2]).is_peer]
        best_of = min if what == MEMORY else max
        others = [speed.get((model, flags, command, 0, 1, what)) if (n_busy, copies) != (0, 1) else None,
                  speed[beside[0]] if key != beside[0] else None,
                  [best_of(values) for values in zip(*(speed[k] for k in peers))] if key not in peers else None]
        yield key, speed[key], *(ratios(speed[key], other) if other else [] for other in others)


def rows_of(results):
    rows = []
    for (model, flags, command, n_busy, copies, what), speeds, *all_ratios in comparisons(results):
        median = statistics.median(speeds)
        shown = f"{f'{copies} x ' if copies > 1 else ''}{command} {flags}".strip()
        rows.append([f"`{shown}`", pathlib.Path(model).name, what, n_busy,
                     f"{median:,.0f}" if median >= 100 else f"{median:.3g}",
                     *(with_interval(values) if values else "" for values in all_ratios)])
    return rows


def picture_of(results):
    groups = {}
    for (model, flags, command, n_busy, copies, what), _, _, to_first, to_peer in comparisons(results):
        if not to_first and to_peer and what != MEMORY:  # the first command, which has no ratio to itself
            column = f"{what} {flags}" + f", {n_busy} busy" * (n_busy > 0) + f", {copies} at once" * (copies > 1)
            groups[pathlib.Path(model).stem, column] = to_peer
    return plot_ratios(groups, "Folio's tokens a second over those of the fastest other engine",
                       "Right of 1 Folio is faster. Medians of alternating rounds, with bars from minimum to maximum")


def main():
    p = parser(__doc__, rounds=7, threads=None)
    p.add_argument("commands", nargs="+", metavar="COMMAND")
    p.add_argument("--models", nargs="+", default=[""], metavar="FILE")
    p.add_argument("--with", nargs="+", default=[""], metavar="FLAGS", dest="flags")
    p.add_argument("--busy", nargs="+", type=int, default=[0, 1], metavar="N")
    p.add_argument("--copies", nargs="+", type=positive, default=[], metavar="N")
    p.add_argument("--python", default=sys.executable, help="that has the packages of other projects")
    p.add_argument("--svg", type=pathlib.Path)
    a = p.parse_args()

    def measure(name, _):
        model, flags, line, n_busy, copies = name
        command = Command(f"{line} {flags}".replace("{}", model), a.python)
        with busy(n_busy):
            return command.speeds(copies)

    ways = [(n, 1) for n in a.busy] + [(0, n) for n in a.copies]
    names = [(model, flags, line, *way)
             for model in a.models for flags in a.flags for way in ways for line in a.commands]
    results = alternate(names, measure, a)
    report(a, results, ["command", "model", "", "busy", "tokens/s", "ratio to itself alone", "to the first command",
                        "to the best peer"], rows_of(results))
    if a.svg:
        a.svg.write_text(picture_of(results))


if __name__ == "__main__":
    main()
