#!/usr/bin/env python3
"""Compiles the kernels for sm_90 and compares nvcc's resource usage with resources.txt in their folders.

Usage: scripts/cuda_report.py [--update]

Uses the nvcc of scripts/requirements-cuda.txt, in build/cuda-venv, for reproducible numbers; if it can't be installed,
prints a line and exits with 0. Warnings and spilled registers are errors. Occupancy is computed for kernels with
__launch_bounds__. A kernel with dynamic shared memory specifies the maximum in a comment of its file, where names in
braces stand for template arguments, and * for any:
// cuda_report: product<*, {tiles}> shares 512 * tiles bytes"""
import argparse
import concurrent.futures
import dataclasses
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = [ROOT / "infer/cuda", ROOT / "experiments/33_cuda"]
REQUIREMENTS = ROOT / "scripts/requirements-cuda.txt"
VENV = ROOT / "build/cuda-venv"
# nvcc's flags, as in infer/cuda/CMakeLists.txt. -cubin leaves out the host code, which the build compiles.
FLAGS = ["-cubin", "-std=c++20", "-O3", "-DNDEBUG", "-fmad=false", "-Werror=all-warnings"]
HEADER = """\
Resource usage of the kernels for sm_90, as reported by nvcc {version}. Written by scripts/cuda_report.py --update; make
cuda-report compares it. Registers per thread; shared memory per block, static + dynamic; resident warps per
multiprocessor, at most 64, and the resource that limits them.

"""


@dataclasses.dataclass
class Kernel:
    file: str
    name: str
    threads: int = 0  # maximum threads per block; 0: not specified
    registers: int = 0
    stack: int = 0
    spilled: int = 0
    static_shared: int = 0
    dynamic_shared: int | None = 0  # bytes; None: used, but the size is not specified

    def occupancy(self):
        """Returns (resident warps per multiprocessor, the resource that limits them), computed as in cuda_occupancy.h
        for compute capability 9.0."""
        up = lambda n, to: (n + to - 1) // to * to
        warps = up(self.threads, 32) // 32
        registers_of_warp = up(self.registers * 32, 256)
        shared = up(self.static_shared + (self.dynamic_shared or 0) + 1024, 128)  # CUDA reserves 1024 bytes
        fits = registers_of_warp * up(warps, 4) <= 65536 and shared <= 228 * 1024
        blocks = {"threads": 64 // warps, "blocks": 32, "shared": 228 * 1024 // shared,
                  "registers": 4 * (16384 // registers_of_warp) // warps}
        limit = min(blocks, key=blocks.get)
        return (blocks[limit] * warps if fits else 0), limit

    def row(self):
        warps, limit = self.occupancy() if self.threads else ("-", "-")
        shared = f"{self.static_shared}+{'?' if self.dynamic_shared is None else self.dynamic_shared}"
        at_most = "<=" if self.dynamic_shared is None and self.threads else ""
        return [self.file, self.name, str(self.threads or "-"), str(self.registers), shared, str(self.stack), str(self.spilled),
                f"{at_most}{warps}", limit]


def fail(*lines):
    sys.exit("\n".join(f"cuda_report: {line}" for line in lines))


def pinned_nvcc():
    """Returns (path of nvcc in build/cuda-venv, ""), or (None, the reason why there is none). Installs it if
    necessary."""
    stamp = VENV / ".folio-requirements"
    wanted = REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(VENV, ignore_errors=True)
        install = [VENV / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--timeout", "15",
                   "--retries", "1", "-r", REQUIREMENTS]
        for command in ([sys.executable, "-m", "venv", VENV], install):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            if done.returncode != 0:
                return None, ((done.stderr or done.stdout).strip().splitlines() or ["no reason given"])[-1]
        stamp.write_text(wanted)
    found = list(VENV.glob("lib/python*/site-packages/nvidia/*/bin/nvcc"))
    return (found[0], "") if found else (None, "its packages have no bin/nvcc")


def readable(mangled):
    """Returns {mangled name: name without namespaces and parameters, such as "product<16, true>"}."""
    done = subprocess.run(["c++filt", "--no-params"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    names = {}
    for name, full in zip(mangled, done.stdout.splitlines()):
        full = re.sub(r"\(anonymous namespace\)::|folio::infer::gpu::|folio::experiments::", "", full)
        names[name] = re.sub(r"\((?:\w+ )*\w+\)(?=\d)", "", full).replace("> >", ">>")  # removes casts such as (int)16
    return names


def compile_file(nvcc, source):
    """Compiles a source file. Returns (kernels, problems): the problems are compiler errors, or kernels that spill
    registers."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [nvcc, source, "-o", f"{scratch}/out.cubin", "-arch=sm_90", *FLAGS, f"-I{ROOT}", f"-I{ROOT}/src", "--keep",
                   "--keep-dir", scratch, "-Xptxas", "-v"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            return [], [line for line in said.splitlines() if not line.startswith("ptxas info")]
        ptx = (pathlib.Path(scratch) / f"{source.stem}.ptx").read_text()
    kernels = parse(source, said, ptx)
    return kernels, [f"{k.file}: {k.name} spills {k.spilled} bytes of registers; give it smaller tiles or fewer threads"
                     for k in kernels if k.spilled]


def bytes_said(name, comments):
    """Returns the bytes of dynamic shared memory that the first `cuda_report` comment for the kernel specifies, or
    None if there is no such comment."""
    for pattern, expression in comments:
        regex = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(pattern)).replace(r"\*", ".+")
        found = re.fullmatch(regex, name)
        if found:
            value = {"true": True, "false": False}
            return int(eval(expression, {}, {k: value[v] if v in value else int(v) for k, v in found.groupdict().items()}))
    return None


def parse(source, said, ptx):
    names = readable(re.findall(r"Compiling entry function '(\w+)'", said))
    comments = re.findall(r"// cuda_report: (.+) shares (.+) bytes", source.read_text())
    dynamic = re.findall(r"^\.extern \.shared .* (\w+)\[\];", ptx, re.MULTILINE)
    kernels = []
    # nvcc lists a kernel, then the functions it calls without inlining. A kernel needs the maximum of their registers.
    for paragraph in said.split("Compiling entry function '")[1:]:
        mangled = paragraph.split("'")[0]
        number = lambda pattern: [int(n) for n in re.findall(pattern, paragraph)]
        k = Kernel(source.name, names[mangled])
        k.registers = max(number(r"Used (\d+) registers"))
        k.static_shared = sum(number(r"(\d+) bytes smem")[:1])
        k.stack = max(number(r"(\d+) bytes stack frame"))
        k.spilled = sum(number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"))
        body = re.search(rf"\.entry {mangled}\(.*?^}}", ptx, re.MULTILINE | re.DOTALL)[0]
        bound = re.search(r"\.maxntid (\d+)(?:, (\d+))?(?:, (\d+))?", body)
        for n in bound.groups("1") if bound else []:
            k.threads = max(k.threads, 1) * int(n)
        if any(re.search(rf"\b{re.escape(name)}\b", body) for name in dynamic):
            k.dynamic_shared = bytes_said(k.name, comments)
        kernels.append(k)
    return kernels


def table(kernels, version):
    head = ["file", "kernel", "threads", "registers", "shared", "stack", "spilled", "warps", "limited by"]
    rows = [head, *(k.row() for k in sorted(kernels, key=lambda k: (k.file, k.name)))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    left = (0, 1, 8)
    line = lambda row: "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
    return HEADER.format(version=version) + "".join(line(row) + "\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the tables anew")
    update = parser.parse_args().update
    nvcc, reason = pinned_nvcc()
    if nvcc is None:
        print(f"cuda_report: nothing was checked, since the pinned nvcc can't be had: {reason}")
        return
    version = re.search(r"nvidia-cuda-nvcc==(\S+)", REQUIREMENTS.read_text())[1]
    for folder in FOLDERS:
        compare(folder, nvcc, version, update)


def compare(folder, nvcc, version, update):
    sources = sorted(folder.glob("*.cu"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(lambda source: compile_file(nvcc, source), sources))
    problems = [problem for _, said in compiled for problem in said]
    if problems:
        fail(*problems)
    kernels = [k for some, _ in compiled for k in some]
    now = table(kernels, version)
    file = folder / "resources.txt"
    if update:
        file.write_text(now)
    before = file.read_text() if file.exists() else ""
    name = file.relative_to(ROOT)
    if now != before:
        lines = difflib.unified_diff(before.splitlines(), now.splitlines(), str(name), "now", "", "", 0, "")
        fail(f"the kernels have other needs than {name} says; if that is meant, run scripts/cuda_report.py --update", *lines)
    print(f"cuda_report: {len(kernels)} kernels in {len(sources)} files, as {name} says")


if __name__ == "__main__":
    main()
