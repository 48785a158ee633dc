#include "apps/cuda_bench/cublas.h"

#include <dlfcn.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace folio::infer::gpu::bench {
namespace {

// Constants of cublas_api.h and library_types.h, which may be missing where nvcc is installed.
constexpr int kTransposed = 1;
constexpr int kAsItIs = 0;
constexpr int kF16 = 2;         // CUDA_R_16F
constexpr int kSumsInF32 = 68;  // CUBLAS_COMPUTE_32F
constexpr int kItsChoice = -1;  // CUBLAS_GEMM_DEFAULT
constexpr size_t kWorkspace = size_t{32} << 20U;

}  // namespace

struct Cublas::Functions {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, void* stream);
  int (*set_workspace)(void* handle, void* memory, size_t bytes);
  int (*gemm)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha, const void* a,
              int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c, int type_c, int ldc,
              int compute_type, int algorithm);
};

std::unique_ptr<Cublas> Cublas::open(const std::string& path, Stream& stream, std::string& why) {
  void* library = nullptr;
  for (const std::string& name :
       path.empty() ? std::vector<std::string>{"libcublas.so.13", "libcublas.so.12"} : std::vector<std::string>{path}) {
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    why = "libcublas.so.13 or .12 not found; give its path with --cublas or its directory in LD_LIBRARY_PATH";
    return nullptr;
  }
  auto functions = std::make_unique<Functions>();
  const auto find = [&](const char* name, auto& to) {
    void* found = dlsym(library, name);
    core::require(found != nullptr, "{} has no {}; use another cuBLAS", path.empty() ? "libcublas" : path, name);
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(found);
  };
  find("cublasCreate_v2", functions->create);
  find("cublasDestroy_v2", functions->destroy);
  find("cublasSetStream_v2", functions->set_stream);
  find("cublasSetWorkspace_v2", functions->set_workspace);
  find("cublasGemmEx", functions->gemm);
  std::unique_ptr<Cublas> cublas(new Cublas(std::move(functions)));
  core::require(cublas->functions_->create(&cublas->handle_) == 0 &&
                    cublas->functions_->set_stream(cublas->handle_, stream.handle()) == 0,
                "cuBLAS failed to start; check that it supports this driver");
  // Without a workspace of its own, cuBLAS would allocate one during graph capture.
  cublas->workspace_ = DeviceMemory(stream, kWorkspace);
  core::require(cublas->functions_->set_workspace(cublas->handle_, cublas->workspace_.as<void>(), kWorkspace) == 0,
                "cuBLAS rejected the workspace");
  return cublas;
}

Cublas::Cublas(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Cublas::~Cublas() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

// cuBLAS is column-major, so it treats a row-major matrix as its transpose. Therefore this computes outᵀ = weight · xᵀ:
// in memory, the column-major outᵀ is the row-major out.
void Cublas::multiply(const void* x, size_t n_rows, const void* weight, size_t n_out, size_t k, void* out) {
  const float one = 1.0F;
  const float zero = 0.0F;
  const auto m = static_cast<int>(n_out);
  const auto inner = static_cast<int>(k);
  const int status = functions_->gemm(handle_, kTransposed, kAsItIs, m, static_cast<int>(n_rows), inner, &one, weight,
                                      kF16, inner, x, kF16, inner, &zero, out, kF16, m, kSumsInF32, kItsChoice);
  core::require(status == 0, "cublasGemmEx failed with status {} for {} x {} x {}", status, n_rows, n_out, k);
}

}  // namespace folio::infer::gpu::bench
