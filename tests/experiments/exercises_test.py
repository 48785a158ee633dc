"""Checks the exercises: unwritten files print their hint, solutions pass, and each typical mistake fails the test
listed for it, with an explanation, and passes earlier tests. FOLIO_EXERCISE_GROUPS lists the groups that are built."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "experiments" / "exercises"
BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))
PROGRAMS = BUILD / "exercises"
SANITIZED = os.environ.get("FOLIO_EXERCISE_SANITIZERS", "1") not in ("", "0")
GOLDEN = ROOT / "tests" / "golden" / "shakespeare_48"
SCRIPT = ROOT / "scripts" / "exercise.py"
sys.path.append(str(SCRIPT.parent))
import exercise as script  # noqa: E402

PLAIN = script.PLAIN  # groups that need no LibTorch
GROUPS = os.environ.get("FOLIO_EXERCISE_GROUPS", ",".join(PLAIN)).split(",")
FOLDERS = [EXERCISES, EXERCISES.parent / "33_cuda" / "exercises"]  # the second folder contains the group cuda

ALL = [f"{file.parent.name}/{file.stem}" for group in GROUPS
       for folder in FOLDERS for file in sorted((folder / "properties" / group).glob("*.cpp"))
       if file.stem != "reference"]
MISTAKE = re.compile(r"^//     (\w+): (\w+): (.+)$", re.M)  # name, test, words of its message


def read(*parts):
    return next(folder.joinpath(*parts) for folder in FOLDERS if folder.joinpath(*parts).exists()).read_text()


def file_of(exercise):
    return next(file for folder in FOLDERS for file in folder.glob(f"{exercise}.*"))


def properties_of(exercise):
    """Returns the name of an exercise's suite and the names of its tests, in order. Includes tests that are shared with
    the tests of modules/."""
    source = read("properties", f"{exercise}.cpp")
    for shared in re.findall(r'^#include "(tests/modules/properties/.+)"', source, re.M):
        source += (ROOT / shared).read_text()
    properties = re.findall(r"^(?:TYPED_)?TEST(?:_P)?\((\w+), (\w+)\)", source, re.M)
    assert len({suite for suite, _ in properties}) == 1
    return properties[0][0], [test for _, test in properties]


def only(exercise, test="*"):
    """Returns the flag that selects the tests of an exercise, or a single one."""
    suite, _ = properties_of(exercise)
    return f"--gtest_filter={suite}.{test}:*/{suite}/*.{test}"


def program(group, code):
    """Returns the name of the program that tests a group. `code` is unfilled, solutions or mistakes."""
    return f"{group if group in PLAIN else 'libtorch'}_{code}"


def mistakes_of(exercise):
    return MISTAKE.findall(read("mistakes", f"{exercise}.cpp"))


MISTAKES = [(exercise, *mistake) for exercise in ALL for mistake in mistakes_of(exercise)]


@functools.cache
def run(program, *arguments, mistake=None, stdin=""):
    environment = {**os.environ, "FOLIO_MISTAKE": mistake or "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([PROGRAMS / program, *map(str, arguments)], capture_output=True, env=environment, timeout=300,
                          text=True, input=stdin)
    assert done.returncode >= 0, f"{program} died of signal {-done.returncode}\n{done.stdout}{done.stderr}"
    return done


def judged(program, asked):
    """Runs the tests for each pair (mistake, flag) in `asked`. Returns {pair: (output, exit code)}. All pairs share a
    process, because loading LibTorch is slow."""
    done = run(program, "--each", stdin="".join(f"{mistake} {flag}\n" for mistake, flag in asked))
    runs = re.findall(r"(.*?)^exit (\d+)\n", done.stdout, re.M | re.S)
    assert done.returncode == 0 and len(runs) == len(asked), done.stdout
    return {key: (output, int(code)) for key, (output, code) in zip(asked, runs)}


# Messages of GoogleTest and LibTorch, which readers must not see: tests explain a failure in their own words.
GOOGLE_TEST = re.compile(r"Value of:|Which is:|Actual:|Expected|evaluates to|which exceeds|Google Test|C\+\+ exception|Failed$", re.M)


def verdicts(output):
    """Returns the pairs (verdict, test) in the order of the output, and the whole output with single spaces. A verdict
    is "holds" or "FAILS"."""
    return re.findall(r"^  (holds|FAILS)  (\w+)$", output, re.M), " ".join(output.split())


def test_readme_lists_every_exercise_once():
    listed = re.findall(r"^\| (\d+) \| \[\w+\]\([./\w]*?(\w+/\w+)\.\w+\) \|", read("README.md"), re.M)
    assert [int(number) for number, _ in listed] == list(range(1, len(listed) + 1))
    names = [name for _, name in listed]
    assert len(set(names)) == len(names)
    assert set(ALL) == {name for name in names if name.split("/")[0] in GROUPS}
    shown = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    assert all(re.search(rf"^ +{number}  (green|red  )  {name} ", shown, re.M) for number, name in listed), shown


def test_hints_are_stepwise_and_end_with_the_code():
    for exercise in script.exercises():
        *steps, last = exercise.hints()
        code = read("solutions", f"{exercise.full_name}.cpp")  # the last hint is the solution
        assert last == code.rstrip()
        assert len(steps) >= 2 and all(len(step.split()) > 20 for step in steps), exercise.full_name
        own = [line.strip() for line in code.splitlines() if len(line.strip()) > 25 and not line.startswith("#")]
        given = " ".join(" ".join(steps).split())
        assert own and not any(line in given for line in own), exercise.full_name


def test_each_property_belongs_to_one_hint():
    for exercise in script.exercises():
        named = [tests.split(", ") for step in exercise.hint_texts()
                 for tests in re.findall(r"<!-- properties: (.*?) -->", step)]
        _, properties = properties_of(exercise.full_name)
        assert sorted(sum(named, [])) == sorted(properties), exercise.full_name
        assert not any("<!--" in step for step in exercise.hints()), exercise.full_name


def test_the_hints_of_a_derivative_come_in_the_order_of_its_properties():
    exercise = next(e for e in script.exercises() if e.full_name == "serving/derivative")
    numbers = [exercise.hint_for(test) for test in properties_of("serving/derivative")[1]]
    assert numbers == sorted(numbers) and set(numbers) == {1, 2, 3, 4}


@pytest.mark.parametrize("printed,hint", [("  FAILS  A\n         rope is still to be\n         written.\n", None),
                                          ("\ufffd\n  holds  A\n  FAILS  B\n", "B"),
                                          ("  holds  A\n  FAILS  B\n         b is still to be written.\n", "B"),
                                          ("  holds  A\n  FAILS  B\n         Number 0 is 1.\n", "B"), ("  holds  A\n", None)])
def test_a_hint_is_offered_for_the_property_that_failed(tmp_path, capsys, printed, hint):
    program = tmp_path / "tests"
    written = printed.encode().replace("\ufffd".encode(), b"\xff")  # a byte that isn't UTF-8
    program.write_bytes(b"#!/bin/sh\nprintf '%s' '" + written + b"'\nexit 1\n")
    program.chmod(0o755)
    assert script.run_tests(program) == (1, hint)
    assert capsys.readouterr().out == printed


def test_a_failed_build_shows_errors_without_ninjas_progress(tmp_path, monkeypatch, capsys):
    errors = "a.cpp:1:2: error: expected ';'\nninja: error: unknown target 'b'\n"
    cmake = tmp_path / "cmake"
    cmake.write_text(f"#!/bin/sh\ncat <<'end'\n[1/2] Building a.o\nFAILED: a.o\n{errors}ninja: build stopped.\nend\nexit 1\n")
    cmake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(SystemExit, match="1"):
        script.build(tmp_path, "b")
    assert capsys.readouterr().out == errors


def test_hint_is_printed_by_number():
    def hint(number):
        return subprocess.run([sys.executable, SCRIPT, "rms_norm_backward", "--hint", number], capture_output=True, text=True)
    assert "hint 1 of 3" in hint("1").stdout and "r³" in hint("2").stdout
    assert hint("3").stdout.endswith(read("solutions", "training/rms_norm_backward.cpp"))
    assert hint("0").returncode == hint("4").returncode == 1 and "1 to 3" in hint("4").stderr
    of_none = subprocess.run([sys.executable, SCRIPT, "--hint", "1"], capture_output=True, text=True)
    assert of_none.returncode == 2 and "N=1 HINT=1" in of_none.stderr


# For each exercise, a regular expression for code that would reveal the solution on a page that is read earlier.
SPOILERS = {"rms_norm": r"rsqrt|sqrt\(", "rope": r"\bcos\w* [-+*]|\* cos", "swiglu": r"sigmoid|silu|exp\(-",
            "attention": r"softmax|masked_fill|triu", "block": r"ffn->forward|ffn\.forward", "adamw": r"sqrt\(",
            "cross_entropy_backward": r"one_hot", "tape_rule": r"\binner\b|\* columns", "kv_cache": r"capacity|length_error",
            "q8_0": r"\b127", "best_pair": r"best_pair\(|map<", "bpe_merges": r"best_pair\(|merged",
            "derivative": r"derivative\(|nothing\(", "token_mask": r"token_mask\(|derivative\(",
            "experts": r"sort|topk|routes\.push_back|whose", "all_reduce": r"\.pass\(|std::plus",
            "feed_forward_part": r"part\.w2|output_of|part_of\(", "attribution": r"sqrt\(|readout|stream\[",
            "absorbed": r"absorb", "expected_tokens": r"\*=",
            "warp_sum": r"__shfl_(xor|down)_sync"}


def test_recommended_reading_does_not_reveal_solutions():
    rows = re.findall(r"^\| \d+ \| \[\w+\]\([./\w]*?(\w+)/(\w+)\.\w+\) \|.*\|(.*)\|$", read("README.md"), re.M)
    checked = 0
    for group, name, pages in rows:
        for page in re.findall(r"\]\(\.\./(\w+/README\.md)\)", pages):
            blocks = re.findall(r"```cpp\n(.*?)```", (EXERCISES.parent / page).read_text(), re.S)
            spoiler = next(words for part, words in SPOILERS.items() if name.startswith(part))
            assert not any(re.search(spoiler, block) for block in blocks), f"{page} has a solution of {group}/{name}"
            checked += 1
    assert checked >= 10


def test_unknown_exercise_error_lists_the_names():
    done = subprocess.run([sys.executable, SCRIPT, "layer_norm"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "layer_norm" in done.stderr and ALL[0] in done.stderr


@pytest.mark.parametrize("exercise", ALL)
def test_unwritten_exercise_fails_with_its_hint(exercise):
    source = file_of(exercise).read_text()
    hints = re.findall(r"throw Unfilled\(\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)\)", source)
    if not hints:  # a reader has already written a solution in place of the throw
        assert "CI" not in os.environ, f"{exercise} is written"
        pytest.skip(f"{exercise} is written")
    group = exercise.split("/")[0]
    every = tuple(("", only(other)) for other in ALL if program(other.split("/")[0], "") == program(group, ""))
    output, code = judged(program(group, "unfilled"), every)["", only(exercise)]
    seen, text = verdicts(output)
    _, properties = properties_of(exercise)
    assert code == 1 and seen == [("FAILS", properties[0])], output
    spoken = " ".join("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', hints[0])).replace("\\n", " ").split())
    assert spoken in text and str(file_of(exercise).relative_to(ROOT)) in spoken


@pytest.mark.parametrize("group", GROUPS)
def test_solutions_pass_every_property(group):
    done = run(program(group, "solutions"))
    seen, _ = verdicts(done.stdout)
    expected = [test for exercise in ALL
                if program(exercise.split("/")[0], "solutions") == program(group, "solutions")
                for test in properties_of(exercise)[1]]
    assert done.returncode == 0 and all(verdict == "holds" for verdict, _ in seen), done.stdout
    assert sorted(test for _, test in seen) == sorted(expected)


@pytest.mark.parametrize("exercise,mistake,test,cause", MISTAKES, ids=lambda value: str(value).replace(" ", "_"))
def test_a_mistake_fails_its_property_and_is_told_its_cause(exercise, mistake, test, cause):
    _, properties = properties_of(exercise)
    if not SANITIZED and re.search("past the end|no numbers below 0|outside the range|more memory", cause):
        pytest.skip("built without sanitizers")
    group = exercise.split("/")[0]
    every = tuple((named, only(other)) for other, named, *_ in MISTAKES
                  if program(other.split("/")[0], "") == program(group, ""))
    output, code = judged(program(group, "mistakes"), every)[mistake, only(exercise)]
    seen, text = verdicts(output)
    assert code == 1, output
    assert seen == [("holds", before) for before in properties[:properties.index(test)]] + [("FAILS", test)], output
    assert cause in text, output
    if "a race in" in text:  # a data race, so the output must name both lines
        assert re.search(r"s at \w+\.cpp:\d+ what thread .* has (read|written) at \w+\.cpp:\d+", text), output
    assert not GOOGLE_TEST.search(output), output


def test_readme_shows_the_printed_output():
    printed = run("engine_mistakes", "--gtest_filter=RmsNorm.*", mistake="mean_instead_of_mean_square").stdout
    assert all("        " + line in read("README.md") for line in printed.splitlines()), printed


@pytest.mark.skipif(not SANITIZED, reason="built without sanitizers")
def test_readme_shows_the_sanitizers_output():
    printed = run("engine_mistakes", "--gtest_filter=RmsNorm.*", mistake="one_past_the_end").stdout
    assert re.search(r" at mistakes/engine/rms_norm.cpp:\d+\. ", " ".join(printed.split())), printed
    said = re.sub(r"mistakes/(engine/rms_norm.cpp):\d+", r"\1:17", " ".join(printed.split())).split(" (experiments")[0]
    assert said in " ".join(read("README.md").split()), printed


def test_every_assertion_of_a_property_has_an_explanation():
    for file in [*(file for folder in FOLDERS for file in folder.glob("properties/**/*.[ch]*")),
                 *(ROOT / "tests/modules/properties").glob("*.h")]:
        code = re.sub(r"//.*", "", file.read_text())
        for assertion in re.findall(r"\b(?:EXPECT|ASSERT)_[A-Z]+\((?:[^;]|;(?=[^\n\"]*\"))*;", code):
            assert "<<" in assertion, f"{file.name}: {assertion}"


@pytest.mark.parametrize("exercise", ALL)
def test_every_property_is_one_that_a_mistake_fails(exercise):
    _, properties = properties_of(exercise)
    mistakes = mistakes_of(exercise)
    assert len({name for name, _, _ in mistakes}) == len(mistakes)
    assert {name for name, _, _ in mistakes} == set(re.findall(r'wrong\("(\w+)"\)', read("mistakes", f"{exercise}.cpp")))
    others = [test for test in properties if test not in [named for _, named, _ in mistakes]]
    asked = [(name, only(exercise, test)) for test in others for name, _, _ in mistakes]
    runs = judged(program(exercise.split("/")[0], "mistakes"), asked) if asked else {}
    for test in others:
        assert any(runs[name, only(exercise, test)][1] for name, _, _ in mistakes), f"no mistake fails {test}"


@pytest.mark.parametrize("group", GROUPS)
def test_without_a_mistake_all_properties_hold(group):
    assert run(program(group, "mistakes")).returncode == 0


def test_a_build_without_exercises_does_not_count_as_set_up(tmp_path):
    (tmp_path / "CMakeCache.txt").touch()
    (tmp_path / "build.ninja").write_text("build train: phony\n")  # as of `make demo`
    assert not any(script.configured(tmp_path, group) for group in (*PLAIN, "modules", "training"))
    assert all(script.configured(BUILD, group) for group in GROUPS)


# ---- The program `row`, which trains a model built from the reader's solutions ----

ROW = re.compile(r"^  (?:Folio's|your) parts +(\d+) +(\d+\.\d+) +(\d+\.\d+)$", re.M)
needs_libtorch = pytest.mark.skipif("modules" not in GROUPS, reason="built without LibTorch")


@needs_libtorch
def test_llama_of_solutions_gives_folios_row():
    done = run("row_solutions", "--steps", "3")
    rows = ROW.findall(done.stdout)
    assert done.returncode == 0 and len(rows) == 2 and rows[0][0] == rows[1][0], done.stdout + done.stderr
    # The bound includes the rounding of float losses of at most 5, and of printing them with 4 decimals.
    assert all(abs(float(ours) - float(theirs)) < 2e-4 for ours, theirs in zip(rows[0][1:], rows[1][1:])), done.stdout
    assert "\nFolio's: batches, embedding, last norm, output, LibTorch\n" in done.stdout
    assert len(done.stdout.split("Yours writes:\n\nROMEO:")[1]) >= 60
    refused = run("row_solutions", "--steps", "0")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and "--steps" in refused.stderr


@needs_libtorch
@pytest.mark.parametrize("mistake", ["no_scale", "summed", "target_forgotten", "never_cleared", "no_warmup", "goes_uphill"])
def test_mistake_in_any_part_changes_the_row(mistake):
    done = run("row_mistakes", "--steps", "3", mistake=mistake)
    ours, yours = ROW.findall(done.stdout)
    assert ours[0] == yours[0] and ours != yours, done.stdout + done.stderr


@needs_libtorch
def test_row_reports_libtorchs_error_in_one_line():
    done = run("row_mistakes", "--steps", "3", mistake="angles_stay_double")
    assert done.returncode == 1 and done.stderr.startswith("row: ") and done.stderr.count("\n") == 1, done.stderr


@needs_libtorch
def test_rows_text_uses_the_readers_sampler():
    drawn = run("row_solutions", "--steps", "3").stdout
    likeliest = run("row_mistakes", "--steps", "3", mistake="always_the_likeliest").stdout
    assert ROW.findall(drawn) == ROW.findall(likeliest)
    assert drawn.split("Yours writes:")[1] != likeliest.split("Yours writes:")[1]


# ---- The program generate: the engine with the exercises' kernels ----


def text_of(program, *arguments, mistake=None):
    done = run(program, "-m", GOLDEN, "-n", 80, *arguments, mistake=mistake)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("flags", [("--temp", "0"), ("-s", "1"), ("-s", "2", "--temp", "1.5", "--top-k", "7"),
                                   ("-s", "3", "--top-p", "0.6"), ("-s", "4", "--top-p", "1", "--min-p", "0.2")])
def test_solutions_generate_like_the_engine(flags):
    spoken = text_of("../generate", *flags, "ROMEO:")
    assert text_of("generate_solutions", *flags) == spoken
    assert text_of("generate_mistakes", *flags) == spoken  # correct unless a mistake is selected
    if all("throw Unfilled" in file_of(exercise).read_text() for exercise in ALL if exercise.startswith("engine/")):
        assert text_of("generate", *flags) == spoken


def test_generate_reports_which_functions_it_calls():
    every = "rms_norm, rope, swiglu, matmul, attention, sampler"
    done = run("generate_solutions", "-m", GOLDEN, "-n", "1")
    assert f"yours: {every}\nthe engine's: nothing\n" in done.stderr
    unwritten = [e.split("/")[1] for e in ALL if "throw Unfilled" in file_of(e).read_text()]
    listed = re.search(r"^the engine's: (.+)$", run("generate", "-m", GOLDEN, "-n", "1").stderr, re.M).group(1)
    assert set(unwritten) >= set(listed.split(", ")) - {"nothing"}


@pytest.mark.parametrize("mistake", ["no_root", "turns_backwards", "relu", "transposed", "no_scale",
                                     "order_of_ids"])
def test_mistake_changes_the_text(mistake):
    assert text_of("generate_mistakes", "-s", "1", mistake=mistake) != text_of("generate_mistakes", "-s", "1")


def test_missing_model_error_says_how_to_get_one(tmp_path):
    done = subprocess.run([PROGRAMS / "generate"], capture_output=True, text=True,
                          env={**os.environ, "FOLIO_HOME": str(tmp_path)})
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "make demo" in done.stderr, done.stderr


def test_models_with_other_parts_are_rejected(tmp_path):
    model = tmp_path / "model"
    shutil.copytree(GOLDEN, model)
    config = json.loads((model / "config.json").read_text())
    config["rope_scaling"] = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 64}
    config.pop("rope_parameters", None)
    (model / "config.json").write_text(json.dumps(config))
    done = run("generate", "-m", model)
    assert done.returncode == 1 and done.stderr.count("\n") >= 1 and "plain Llamas" in done.stderr, done.stderr
