// The CPU backend (Machine): a thread pool and the kernels of an instruction set, shared by all models loaded on it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/thread_pool.h"
#include "infer/forward/machine.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

using kernels::in_lanes;

/// Number of multiply-adds that a core computes in about a microsecond. Divide a loop's multiply-adds by it to get
/// ThreadPool::parallel_for's `worth`, which is in microseconds.
inline constexpr size_t kWorthAThread = 8 * 1024;

struct CpuOptions {
  size_t n_threads = 0;                       ///< 0: all cores available to this process
  const kernels::Kernels* kernels = nullptr;  ///< null: those that FOLIO_ISA selects, or the fastest supported ones
  bool fast = false;                          ///< --fast: BF16 for 16-bit weights and attention, where supported
  bool copies_weights = false;                ///< copy all weights to private memory instead of using the mapped file
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
