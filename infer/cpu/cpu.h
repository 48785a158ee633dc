// The CPU as a machine: a pool of threads and the kernels of an instruction set. All models that it serves share them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/thread_pool.h"
#include "infer/forward/machine.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

using kernels::in_lanes;

/// Multiplications that take a core about a microsecond.
inline constexpr size_t kWorthAThread = 8 * 1024;

struct CpuOptions {
  size_t n_threads = 0;                       ///< 0: all cores of this process
  const kernels::Kernels* kernels = nullptr;  ///< null: the best of this machine, or what FOLIO_ISA names
  bool fast = false;  ///< prompts through Kernels::matmul_fast, where the processor has it; F16 weights become BF16
  bool copies_weights = false;  ///< no weight stays where its file is mapped: it lies in memory of one's own
};

class Cpu final : public Machine {
 public:
  explicit Cpu(const CpuOptions& options = {});

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override;

  [[nodiscard]] core::ThreadPool& pool() { return pool_; }
  [[nodiscard]] const kernels::Kernels& kernels() const { return kernels_; }
  [[nodiscard]] bool fast() const { return fast_; }
  [[nodiscard]] bool copies_weights() const { return copies_weights_; }
  [[nodiscard]] size_t n_threads() const { return pool_.size(); }

 private:
  const kernels::Kernels& kernels_;
  core::ThreadPool pool_;
  bool fast_;
  bool copies_weights_;
};

}  // namespace folio::infer
