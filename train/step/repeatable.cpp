#include "train/step/repeatable.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace folio::train {
namespace {

// Calls void name(int), if a library of this process has it: which BLAS and which OpenMP there are depends on LibTorch.
void call_if_there(const char* name, int argument) {
  if (void* function = ::dlsym(RTLD_DEFAULT, name)) reinterpret_cast<void (*)(int)>(function)(argument);
}

// "mkl" in "…, BLAS_INFO=mkl, BUILD_TYPE=Release, …"
std::string_view blas_of(std::string_view config) {
  constexpr std::string_view kKey = "BLAS_INFO=";
  const size_t key = config.find(kKey);
  if (key == std::string_view::npos) return "unknown";
  config.remove_prefix(key + kKey.size());
  return config.substr(0, config.find_first_of(", \n"));
}

}  // namespace

void fix_threads(int threads) {
  // MKL promises it for its newer code alone, and takes its oldest on processors of others. Source: its developer
  // guide, "Conditional Numerical Reproducibility". It reads the variable once, at its first product.
  if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f")) ::setenv("MKL_CBWR", "AUTO,STRICT", 0);
  if (threads <= 0) threads = at::get_num_threads();
  at::set_num_threads(threads);
  call_if_there("MKL_Set_Dynamic", 0);  // LibTorch's own call does so too, today
  call_if_there("openblas_set_num_threads", threads);
  // The variables OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS would let the load decide, and products within LibTorch's own
  // parallel loops start threads of their own.
  call_if_there("omp_set_dynamic", 0);
  call_if_there("omp_set_max_active_levels", 1);
}

std::string why_not_repeatable(std::string_view device, std::string_view config, bool openblas) {
  if (device == "cuda") return "on CUDA some sums are added in the order in which they finish";
  const std::string_view blas = blas_of(config);
  if (blas == "mkl" || openblas) return "";
  return fmt::format("this LibTorch multiplies with a BLAS (\"{}\") whose threads cannot be fixed here", blas);
}

std::string why_not_repeatable(std::string_view device) {
  return why_not_repeatable(device, at::show_config(), ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads") != nullptr);
}

}  // namespace folio::train
