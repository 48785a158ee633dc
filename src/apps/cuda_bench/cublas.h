// cuBLAS, for comparison. It is loaded at run time, so neither the build nor a serving program needs it.
#pragma once

#include <memory>
#include <string>

#include "infer/cuda/device.h"

namespace folio::infer::gpu::bench {

class Cublas {
 public:
  /// Loads the library at `path`, or the one that the loader finds if `path` is empty. Returns null and sets `why` if
  /// there is none. Throws core::Error if the library cannot be used.
  [[nodiscard]] static std::unique_ptr<Cublas> open(const std::string& path, Stream& stream, std::string& why);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// Computes out (n_rows, n_out) = x (n_rows, k) · weightᵀ with weight (n_out, k), all F16, accumulated in F32.
  void multiply(const void* x, size_t n_rows, const void* weight, size_t n_out, size_t k, void* out);

 private:
  struct Functions;
  explicit Cublas(std::unique_ptr<Functions> functions);

  void* handle_ = nullptr;
  DeviceMemory workspace_;
  std::unique_ptr<Functions> functions_;
};

}  // namespace folio::infer::gpu::bench
