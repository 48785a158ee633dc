// Times of individual kernels, recorded by CUPTI, which unlike events can measure kernels within a CUDA graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace folio::infer::gpu::bench {

class Trace {
 public:
  struct Kernel {
    uint64_t calls = 0;
    double us = 0.0;  ///< total microseconds of all calls
  };

  /// Starts recording; must be called before graphs are captured. Returns null and sets `why` if CUPTI is missing.
  [[nodiscard]] static std::unique_ptr<Trace> begin(std::string& why);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Discards the times recorded so far.
  void clear();
  /// Returns {name: number of calls and their total time since clear()} of each kernel. The device must be idle.
  [[nodiscard]] std::map<std::string, Kernel> kernels();

 private:
  Trace() = default;
};

}  // namespace folio::infer::gpu::bench
