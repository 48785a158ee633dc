"""Tests functions of scripts/bootstrap.sh with fake commands: nothing is installed. Also tests which tests the Makefile's
goals run."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(code, goal="build", **environment):
    """Runs `code` after the script's functions are defined. Returns (exit code, output)."""
    functions = 'source <(sed "/^system_packages$/,\\$d" scripts/bootstrap.sh); venv=build/none; '
    kept = {name: value for name, value in os.environ.items() if name not in ("CMAKE_PREFIX_PATH", "Torch_DIR")}
    done = subprocess.run(["bash", "-c", functions + code, "scripts/bootstrap.sh", goal], cwd=ROOT, env={**kept, **environment},
                          capture_output=True, text=True)
    return done.returncode, done.stdout


def test_goals_that_build_full_tests_run_them():
    presets = {preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]}

    def excluded(name):
        preset = presets[name]
        own = preset.get("filter", {}).get("exclude")
        return own.get("label", "") if own else excluded(preset["inherits"]) if "inherits" in preset else ""

    names = re.findall(r"--target all full\n\t@ctest --preset (\w+)", (ROOT / "Makefile").read_text())
    assert names == ["full", "sanitize", "fuzz"]
    assert [name for name in names if "full" in excluded(name)] == []


def test_make_long_runs_every_python_test_that_is_otherwise_shortened():
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
    runs = next(preset["filter"]["include"]["name"] for preset in presets if preset["name"] == "long")
    tests = {name: [pathlib.Path(file).read_text() for file in re.findall(r'"([^"]+_test\.py)"', command)]
             for folder in pathlib.Path(os.environ["FOLIO_BUILD_DIR"]).glob("obj/**/CTestTestfile.cmake")
             for name, command in re.findall(r"^add_test\(\[=\[(\w+)\]=\] (.*)", folder.read_text(), re.M)}
    shortens = re.compile(r'(if|not) "?(support\.|FOLIO_)?LON[G]\b')
    shortened = [name for name, texts in tests.items() if any(map(shortens.search, texts))]
    assert len(shortened) > 3
    assert [name for name in shortened if not re.search(runs, name)] == []


def test_interrupting_make_test_ends_the_installation(tmp_path):
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    (tmp_path / "build/venv/bin").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    for file, condition in {"scripts/bootstrap.sh": '"$1" = test', "cmake": '"$1" = --build', "build/venv/bin/python": ""}.items():
        (tmp_path / file).write_text(f"#!/bin/sh\n[ {condition} ] || exit 0\necho begun\nsleep 300 | cat\n")
        (tmp_path / file).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CI": "true"}
    make = subprocess.Popen(["make", "--no-print-directory", "test"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
                            text=True, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        assert [make.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
        os.killpg(make.pid, signal.SIGINT)
        make.communicate(timeout=120)  # ends when all processes have closed the pipe
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(make.pid, signal.SIGKILL)


def test_unknown_goals_are_rejected():
    done = subprocess.run(["scripts/bootstrap.sh", "tests"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith('bootstrap: unknown goal "tests"')


@pytest.mark.parametrize("goal, user, asks", [
    ("test", 0, True), ("test-build", 0, True), ("interop", 1000, True), ("interop-library", 0, True),
    ("test", 1000, False), ("test-build", 1000, False), ("build", 0, False), ("serving", 0, False)])
def test_headers_of_python_are_installed_where_the_module_is_built(goal, user, asks):
    for package in ("python3.11-dev", ""):
        fakes = f"apt-get() {{ :; }}; id() {{ echo {user}; }}; python3() {{ echo {package}; }}; "
        status, output = run(fakes + "missing=(); find_missing; echo ${missing[*]}", goal)
        assert status == 0 and ("python3.11-dev" in output.split()) == (asks and package != "")


def test_a_prefix_path_without_libtorch_does_not_count_as_libtorch(tmp_path):
    code = "has_torch() { return 1; }; make_venv() { :; }; install_torch() { echo installs; }; libtorch"
    (tmp_path / "libtorch/share/cmake/Torch").mkdir(parents=True)
    (tmp_path / "libtorch/share/cmake/Torch/TorchConfig.cmake").touch()
    for path, installs in (("", True), (f"{tmp_path}/ros", True), (f"{tmp_path}/ros:{tmp_path}/libtorch", False),
                           (f"{tmp_path}/libtorch/share/cmake", False)):
        assert run(code, CMAKE_PREFIX_PATH=path) == (0, "installs\n" if installs else "")
    assert run(code, Torch_DIR=str(tmp_path)) == (0, "")


def test_torch_for_cuda_counts_only_with_a_cuda_toolkit(tmp_path):
    for version in ("2.13.0", "2.6.0"):
        for cuda in (False, True):
            packages = tmp_path / f"{version}-{cuda}"
            (packages / "torch/lib").mkdir(parents=True)
            (packages / "torch/__init__.py").touch()
            (packages / f"torch-{version}.dist-info").mkdir()
            (packages / f"torch-{version}.dist-info/METADATA").write_text(f"Name: torch\nVersion: {version}\n")
            if cuda:
                (packages / "torch/lib/libtorch_cuda.so").touch()
            for nvcc in (False, True):
                status, _ = run(f"has_nvcc() {{ {str(nvcc).lower()}; }}; has_torch {sys.executable}", PYTHONPATH=str(packages))
                assert (status == 0) == (version == "2.13.0" and (nvcc or not cuda)), (version, cuda, nvcc)


def test_an_environment_without_pip_is_repaired(tmp_path):
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    code = f"venv={tmp_path}; has_torch() {{ return 1; }}; python3() {{ echo repairs; }}; make_venv"
    for has_pip in (False, True):
        python.write_text(f"#!/bin/sh\n{str(has_pip).lower()}\n")
        python.chmod(0o755)
        assert run(code) == (0, "" if has_pip else "repairs\n")


def test_cmake_skips_a_torch_for_cuda_without_a_cuda_toolkit(tmp_path):
    config = tmp_path / "torch/share/cmake/Torch"
    config.mkdir(parents=True)
    (config / "TorchConfig.cmake").write_text("message(FATAL_ERROR used)\n")
    (config / "TorchConfigVersion.cmake").write_text("set(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
    (tmp_path / "torch/__init__.py").touch()
    command = ["cmake", "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON", "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF", "-P",
               "scripts/libtorch.cmake"]
    for cuda, message in ((False, "used"), (True, "No LibTorch")):
        if cuda:
            (tmp_path / "torch/lib").mkdir()
            (tmp_path / "torch/lib/libtorch_cuda.so").touch()
        status, output = run(f"{' '.join(command)} 2>&1", PYTHONPATH=str(tmp_path))
        assert status == 1 and message in output, output
