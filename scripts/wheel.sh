#!/usr/bin/env bash
# Makes the Python package's wheel in build/wheelhouse/, for the Python of build/venv, with the libraries that it needs
# inside, and installs it into an environment of its own, build/venv-wheel.
#
#   scripts/wheel.sh              compiles the module, as `pip install .` does (minutes)
#   scripts/wheel.sh MODULE       takes the module that the build folder has
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
# The tag says the oldest manylinux whose C library has all that the module asks for; fmt and utf8proc come inside.
PATH=$PWD/build/venv/bin:$PATH "$python" -m auditwheel repair --strip --wheel-dir "$house" build/wheel-unrepaired/*.whl
rm -rf build/wheel-unrepaired

# From the wheel alone, without an index. NumPy, its one requirement, and what the tests compare with are those of build/venv.
rm -rf "$environment"
"$python" -m venv "$environment"
"$environment/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --no-deps "$house"/*.whl
"$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' >"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/venv.pth"
ls -l "$house"/*.whl
