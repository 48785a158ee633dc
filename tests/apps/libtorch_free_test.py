"""Tests that no file of the serving half includes LibTorch and no serving program links it. Programs with GPU kernels
must start without CUDA libraries on machines without a GPU."""

import os
import re
import subprocess

import pytest

from support import BUILD, ROOT

TRAINING_FOLDERS = ["modules", "train"]
TRAINING_PROGRAMS = ["train", "verify"]
# The experiments that need LibTorch, in addition to 1 to 14.
TRAINING_STUDIES = ["24_experts", "25_latent", "26_pipeline", "27_ranks", "29_galore", "32_inside"]
# Everything not listed as training must not use LibTorch, so that new files and programs are tested by default.
SERVING_FOLDERS = ["data", "infer", *(f"src/{folder.name}" for folder in (ROOT / "src").iterdir()
                                      if folder.is_dir() and folder.name != "apps")]
APPS = [f for f in (ROOT / "src/apps").rglob("*") if f.suffix in (".h", ".cpp")]
SERVING_SOURCES = [f for f in APPS if f.stem not in ("train", "train_data", "train_options", "train_report", "verify")]
PROGRAMS = [f.parent.name if f.stem == "main" else f.stem for f in APPS if "\nint main(" in f.read_text(encoding="utf-8")]
SERVING_PROGRAMS = [p for p in PROGRAMS if p not in TRAINING_PROGRAMS and (p != "cuda_bench" or (BUILD / p).exists())]
ENGINE_STUDIES = [f.name for f in (ROOT / "experiments").glob("[0-9]*") if int(f.name[:2]) >= 15
                  and f.name not in TRAINING_STUDIES]

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
LIBTORCH = re.compile(r"^(torch|ATen|c10|caffe2|TH)/")


def sources(folder):
    files = [f for f in (ROOT / folder).rglob("*") if f.suffix in (".h", ".cpp", ".cu", ".cuh")]
    assert files, f"{folder} has no sources: the scan looks in the wrong place"
    return files


def includes(files):
    return {(str(f.relative_to(ROOT)), header) for f in files
            for header in INCLUDE.findall(f.read_text(encoding="utf-8"))}


# test_folders_include_only_permitted_headers tests that they don't include headers of the training half.
@pytest.mark.parametrize("folder", [*SERVING_FOLDERS, *(f"experiments/{study}" for study in ENGINE_STUDIES)])
def test_serving_sources_do_not_include_libtorch(folder):
    found = includes(sources(folder))
    assert found
    assert [(f, h) for f, h in found if LIBTORCH.match(h)] == []


def test_serving_programs_do_not_include_training():
    found = includes(SERVING_SOURCES)
    assert ("src/apps/serve.cpp", "infer/server/serve_http.h") in found
    assert [(f, h) for f, h in found if LIBTORCH.match(h) or h.startswith(("modules/", "train/"))] == []


def test_tape_is_plain_cpp():
    found = includes(f for f in sources("experiments/14_tape") if f.name != "twin.cpp")
    assert [(f, h) for f, h in found if LIBTORCH.match(h) or h.startswith("experiments/growing/")] == []


def test_scan_detects_libtorch():
    for folder in TRAINING_FOLDERS:
        assert any(LIBTORCH.match(header) for _, header in includes(sources(folder)))


def rules():
    """Returns CONTRIBUTING.md's table, in its order, as {folder: other folders whose headers its files may include}."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Which folder may include which")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    return {re.findall("`([^`]+)`", folder)[0]: re.findall("`([^`]+)`", others) for folder, others in rows}


RULES = rules()
OURS = re.compile(r"^(core|data|infer|modules|train|jinja|apps)/")


def row_of(path):
    """Returns the innermost folder in the keys of RULES that contains `path`, or None."""
    rows = [folder for folder in RULES if path.startswith(folder + "/")]
    return max(rows, key=len) if rows else None


def test_include_table_is_complete_and_acyclic():
    for number, (folder, others) in enumerate(RULES.items()):
        assert {row_of(other + "/") or row_of(other) for other in others} <= set(list(RULES)[:number]), folder
    for folder in [*SERVING_FOLDERS, *TRAINING_FOLDERS, "python"]:
        for file in sources(folder):
            assert row_of(str(file.relative_to(ROOT)).removeprefix("src/")), f"{file} is in no row of the table"


@pytest.mark.parametrize("folder", RULES)
def test_folders_include_only_permitted_headers(folder):
    there = next(f for f in (ROOT / folder, ROOT / "src" / folder) if f.is_dir())
    files = [f for f in there.rglob("*") if f.suffix in (".h", ".cpp", ".cu", ".cuh")
             and row_of(str(f.relative_to(ROOT)).removeprefix("src/")) == folder]
    ours = {(f, h) for f, h in includes(files) if OURS.match(h)}
    assert ours
    assert [(f, h) for f, h in ours if h not in RULES[folder] and row_of(h) not in (folder, *RULES[folder])] == []


def test_textbook_does_not_mention_its_users():
    for file in (ROOT / "modules").glob("*.[hc]*"):
        assert not re.search("family|frozen|lora|fused|experts", file.read_text(encoding="utf-8"), re.I), file


def needed_libraries(program):
    dynamic = subprocess.run(["readelf", "-d", BUILD / program], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[([^\]]+)\]", dynamic)
    assert any(library.startswith("libc.so") for library in needed), dynamic
    return needed


def is_libtorch(library):
    return re.match(r"lib(torch|c10|caffe|gomp|mkl)", library)


@pytest.mark.parametrize("program", SERVING_PROGRAMS + [f"experiments/{study}" for study in ENGINE_STUDIES
                                                       if (BUILD / "experiments" / study).exists()])
def test_no_serving_program_links_libtorch(program):
    assert [library for library in needed_libraries(program) if is_libtorch(library)] == []


@pytest.mark.parametrize("program", SERVING_PROGRAMS)
def test_serving_programs_need_no_cuda_library(program):
    assert [library for library in needed_libraries(program) if re.match(r"lib(cu|nv)", library)] == []


@pytest.mark.parametrize("program", TRAINING_PROGRAMS)
def test_training_programs_link_libtorch(program):
    assert any(library.startswith("libtorch") for library in needed_libraries(program))


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


RANKED_PROGRAMS = ["bench", "generate", "serve"]
HAS_GLOO = any(library.startswith("libgloo") for library in needed_libraries("generate"))


def test_only_multiprocess_code_includes_gloo():
    assert {f for f, h in includes(sources("infer")) if h.startswith("gloo/")} == {"infer/ranks/net/peers.cpp"}


@pytest.mark.skipif(not HAS_GLOO, reason="built without Gloo")
def test_no_program_links_gloo_twice():
    """Only programs that run as ranks without LibTorch may link Debian's Gloo, since LibTorch contains its own Gloo."""
    files = [f for folder in ("", "tests", "experiments", "exercises") for f in (BUILD / folder).glob("*")
             if f.is_file() and os.access(f, os.X_OK) and is_elf(f)]
    needed = {str(f.relative_to(BUILD)): needed_libraries(f) for f in files}
    with_gloo = {name for name, libraries in needed.items() if any(lib.startswith("libgloo") for lib in libraries)}
    assert with_gloo >= set(RANKED_PROGRAMS) and with_gloo <= {*RANKED_PROGRAMS, "tests/test_ranks"}
    assert [name for name in with_gloo if any(is_libtorch(library) for library in needed[name])] == []


@pytest.mark.skipif(not HAS_GLOO, reason="built without Gloo")
@pytest.mark.parametrize("program", TRAINING_PROGRAMS)
def test_training_programs_have_no_symbols_of_debians_gloo(program):
    """LibTorch contains its own Gloo, whose virtual tables differ from those of Debian's Gloo. So training programs
    must contain neither Debian's classes nor classes derived from them."""
    names = subprocess.run(["nm", "-C", BUILD / program], capture_output=True, text=True, check=True).stdout
    assert "folio::" in names
    assert [line for line in names.splitlines() if "folio::infer::Peers" in line or "vtable for gloo::" in line] == []
