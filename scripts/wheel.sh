#!/usr/bin/env bash
# Builds the Python package's wheel in build/wheelhouse/ for the Python of build/venv, including the libraries that it
# needs, and installs it into a separate environment, build/venv-wheel.
#
#   scripts/wheel.sh              compiles the module, like `pip install .` (minutes)
#   scripts/wheel.sh MODULE       uses a module from the build folder
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/build/venv/bin/python
house=$PWD/build/wheelhouse
environment=$PWD/build/venv-wheel

rm -rf "$house" build/wheel-unrepaired
if [ $# -eq 0 ]; then
  how=()
else
  how=(--no-build-isolation -C "cmake.define.FOLIO_PYTHON_MODULE=$(realpath "$1")" -C install.strip=false)
fi
"$python" -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir build/wheel-unrepaired "${how[@]}" .
# The tag is the oldest manylinux with a sufficient C library; fmt and utf8proc are included in the wheel.
PATH=$PWD/build/venv/bin:$PATH "$python" -m auditwheel repair --strip --wheel-dir "$house" build/wheel-unrepaired/*.whl
rm -rf build/wheel-unrepaired

# Installs the wheel without an index. NumPy, its one requirement, and the tests' packages come from build/venv.
rm -rf "$environment"
"$python" -m venv "$environment"
"$environment/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --no-deps "$house"/*.whl
"$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' >"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/venv.pth"
ls -l "$house"/*.whl
