# Finds LibTorch: CMAKE_PREFIX_PATH or Torch_DIR first, then the active Python's torch (one for CUDA only with a CUDA
# toolkit), then the wheel in build/venv (scripts/bootstrap.sh), then the system's. Rejects versions that are too old or
# use the old C++ ABI.
set(FOLIO_MIN_TORCH 2.7)

function(folio_torch_of_python python)
  # Finds torch.utils.cmake_prefix_path without importing torch, which takes seconds and needs further packages.
  execute_process(COMMAND ${python} -c "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0] + '/share/cmake')"
                  OUTPUT_VARIABLE prefix ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND EXISTS ${prefix}/../../lib/libtorch_cuda.so)
    find_package(CUDAToolkit QUIET)
    if(NOT CUDAToolkit_FOUND)  # without it, the configuration of a torch for CUDA ends with an error
      return()
    endif()
  endif()
  if(NOT failed)
    list(APPEND CMAKE_PREFIX_PATH ${prefix})
    find_package(Torch ${FOLIO_MIN_TORCH} QUIET)
    if(Torch_FOUND)
      set(Torch_DIR ${Torch_DIR} CACHE PATH "Where TorchConfig.cmake is" FORCE)
    endif()
  endif()
endfunction()

# A CUDA build of LibTorch would query this machine's GPUs with a program that CMake before 3.30 can't compile; no file
# here uses the answer.
if(NOT DEFINED TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  set(TORCH_CUDA_ARCH_LIST 9.0)
endif()

# Torch's configuration warns about parts of the wheel that aren't linked here.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
find_package(Torch ${FOLIO_MIN_TORCH} QUIET)
if(NOT Torch_FOUND)
  foreach(python IN ITEMS python3 ${PROJECT_SOURCE_DIR}/build/venv/bin/python)
    if(NOT Torch_DIR OR Torch_DIR MATCHES NOTFOUND)
      folio_torch_of_python(${python})
    endif()
  endforeach()
  find_package(Torch ${FOLIO_MIN_TORCH} QUIET)
endif()
unset(CMAKE_MESSAGE_LOG_LEVEL)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "No LibTorch of at least ${FOLIO_MIN_TORCH} was found. Run scripts/bootstrap.sh, or pass "
          "-DCMAKE_PREFIX_PATH=<libtorch>, or build the serving half alone with -DFOLIO_TRAIN=OFF.")
endif()
if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(FATAL_ERROR "The LibTorch in ${Torch_DIR} is an old-ABI build (_GLIBCXX_USE_CXX11_ABI=0), which can't be "
          "linked with fmt and GoogleTest of this system. Take a build of 2.7 or newer, or the cxx11-ABI one.")
endif()
# Link before LibTorch: the CUDA wheel's exports an older std::filesystem, whose functions crash.
if(NOT APPLE AND NOT CMAKE_CXX_FLAGS MATCHES "-stdlib=libc")
  list(PREPEND TORCH_LIBRARIES stdc++)
endif()
message(STATUS "LibTorch: ${Torch_DIR}")
