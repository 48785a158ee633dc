// When each kernel began and ended on the device, as CUPTI records it: the times of the kernels of a step that was
// recorded as a whole, which events can't see into.
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
    double us = 0.0;  ///< of all calls together
  };

  /// From here on; before the steps are recorded that are to be seen. Null where there is no CUPTI, with the reason.
  [[nodiscard]] static std::unique_ptr<Trace> begin(std::string& why);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Forgets what was seen so far.
  void clear();
  /// What ended since, by name. The device has to be idle.
  [[nodiscard]] std::map<std::string, Kernel> kernels();

 private:
  Trace() = default;
};

}  // namespace folio::infer::gpu::bench
