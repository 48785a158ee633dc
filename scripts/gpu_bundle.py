"""Creates the bundle of scripts/gpu_check: sources, headers and libraries that a GPU machine may lack, and a model."""
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = "folio-gpu"  # the archive's top folder
MOST_BYTES = 60_000_000
LAYERS = 8  # the bundled model is SmolLM2 cut to this number of layers
MODEL = f"models/smollm2-{LAYERS}.Q4_1.gguf"


def header_only(target, properties=""):
    return f"""\
if(NOT TARGET {target})
  add_library({target} INTERFACE IMPORTED GLOBAL)
  set_target_properties({target} PROPERTIES {properties}
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}/../../include")
endif()
"""


# {NAME: contents of NAMEConfig.cmake}, for find_package() in the bundle. GTest is built from the included sources.
CONFIGS = {
    "fmt": header_only("fmt::fmt", "INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1"),
    "nlohmann_json": header_only("nlohmann_json::nlohmann_json"),
    "CLI11": header_only("CLI11::CLI11"),
    "GTest": """\
if(NOT TARGET GTest::gtest)
  find_package(Threads REQUIRED)
  set(GTEST_AT ${CMAKE_CURRENT_LIST_DIR}/../..)
  add_library(carried_gtest STATIC ${GTEST_AT}/googletest/src/gtest-all.cc)
  target_include_directories(carried_gtest SYSTEM PUBLIC ${GTEST_AT}/include PRIVATE ${GTEST_AT}/googletest)
  target_link_libraries(carried_gtest PUBLIC Threads::Threads)
  add_library(GTest::gtest ALIAS carried_gtest)
endif()
set(GTest_FOUND ON)
"""}
HEADERS = {"fmt": "fmt/format.h", "nlohmann": "nlohmann/json.hpp", "CLI": "CLI/CLI.hpp", "gtest": "gtest/gtest.h",
           "utf8proc.h": "utf8proc.h"}


def find(what, folders, remedy):
    for folder in folders:
        if (pathlib.Path(folder) / what).exists():
            return pathlib.Path(folder)
    sys.exit(f"gpu_check: {what} is in none of {', '.join(map(str, folders))}; {remedy}")


def source_files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True)
    if listed.returncode:
        why = listed.stderr.decode().partition("\n")[0]
        sys.exit(f"gpu_check: bundle cannot list the sources in {ROOT}: git ls-files: {why}; use a git clone")
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def pack_dependencies(deps, includes, libraries):
    remedy = "install it, or name its folder with --include"
    for name, probe in HEADERS.items():
        source = find(probe, includes, remedy) / name
        target = deps / "include" / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    googletest = find("src/gtest-all.cc", ["/usr/src/googletest/googletest", "/usr/src/gtest"],
                      "install the sources of GoogleTest (libgtest-dev)")
    shutil.copytree(googletest / "src", deps / "googletest/src")
    (deps / "lib").mkdir()
    shutil.copy(find("libutf8proc.a", libraries, "install libutf8proc-dev") / "libutf8proc.a", deps / "lib")
    for name, text in CONFIGS.items():
        config = deps / "cmake" / name / f"{name}Config.cmake"
        config.parent.mkdir(parents=True)
        config.write_text(text)


def bundle(args):
    export = next((ROOT / folder / "export" for folder in args.build if (ROOT / folder / "export").exists()), None)
    if export is None:
        sys.exit("gpu_check: there is no export in " + ", ".join(args.build) + "; make programs builds it")
    if not args.model.exists():
        sys.exit(f"gpu_check: {args.model} is not there; make smollm2 fetches it")
    with tempfile.TemporaryDirectory() as temporary:
        top = pathlib.Path(temporary) / NAME
        for name in source_files():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, top / name)
        pack_dependencies(top / "deps", args.include + ["/usr/include", "/usr/local/include"],
                          ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/lib"])
        (top / MODEL).parent.mkdir()
        subprocess.run([export, args.model, "--layers", str(LAYERS), "--out", top / MODEL], check=True)
        corpus = ROOT / "data/tinyshakespeare/input.txt"
        if corpus.exists():
            (top / "data/tinyshakespeare").mkdir()
            shutil.copy(corpus, top / "data/tinyshakespeare")
        else:
            print(f"gpu_check: without {corpus}, which scripts/get_tinyshakespeare.py fetches, the step train can't run there")
        with tarfile.open(args.out, "w:gz", compresslevel=6) as tar:
            tar.add(top, NAME)
    size = args.out.stat().st_size
    if size > MOST_BYTES:
        args.out.unlink()
        sys.exit(f"gpu_check: the bundle has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}")
    print(f"{args.out}: {size / 1e6:.1f} MB; there: tar xf it, cd {NAME}, scripts/gpu_check run")
