#include "train/step/repeatable.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace folio::train {
namespace {

// Calls `void name(int)` if a loaded library has it. LibTorch determines which BLAS and OpenMP are loaded.
void call_if_there(const char* name, int argument) {
  if (void* function = ::dlsym(RTLD_DEFAULT, name)) reinterpret_cast<void (*)(int)>(function)(argument);
}

// Returns the BLAS of a LibTorch configuration, such as "mkl" for "…, BLAS_INFO=mkl, BUILD_TYPE=Release, …".
std::string_view blas_of(std::string_view config) {
  constexpr std::string_view kKey = "BLAS_INFO=";
  const size_t key = config.find(kKey);
  if (key == std::string_view::npos) return "unknown";
  config.remove_prefix(key + kKey.size());
  return config.substr(0, config.find_first_of(", \n"));
}

}  // namespace

void fix_threads(int threads) {
  // MKL_CBWR makes results bitwise equal for any number of threads. On other vendors' processors it would select
  // MKL's oldest code. MKL reads it at the first product. Source: MKL's guide, "Conditional Numerical Reproducibility".
  if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f")) ::setenv("MKL_CBWR", "AUTO,STRICT", 0);
  if (threads <= 0) threads = at::get_num_threads();
  at::set_num_threads(threads);
  call_if_there("MKL_Set_Dynamic", 0);  // at::set_num_threads() does this as well, in current versions
  call_if_there("openblas_set_num_threads", threads);
  // Override OMP_DYNAMIC, which would adapt threads to the load, and OMP_MAX_ACTIVE_LEVELS, which would let products
  // within LibTorch's parallel loops start more threads.
  call_if_there("omp_set_dynamic", 0);
  call_if_there("omp_set_max_active_levels", 1);
}

std::string why_not_repeatable(std::string_view device, std::string_view config, bool openblas) {
  if (device == "cuda") return "some CUDA kernels add in no fixed order";
  const std::string_view blas = blas_of(config);
  if (blas == "mkl" || openblas) return "";
  return fmt::format("LibTorch uses a BLAS (\"{}\") whose number of threads cannot be fixed", blas);
}

std::string why_not_repeatable(std::string_view device) {
  return why_not_repeatable(device, at::show_config(), ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads") != nullptr);
}

}  // namespace folio::train
