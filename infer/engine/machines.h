// Where a model runs: the CPU, a GPU, or the CPU with the first layers and a GPU with the last and the output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/model_config.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"
#include "infer/shards/sharded_cpu.h"

namespace folio::infer {

/// A machine that has the CPU's place: ranks of several processes (infer/ranks).
struct GivenMachine {
  Machine* machine = nullptr;  ///< has to outlive the model
  const Cpu* cpu = nullptr;    ///< what this process has of it
};

struct MachineOptions {
  size_t n_threads = 0;                   ///< of the CPU; 0: all cores
  std::optional<size_t> n_shards{};       ///< of the CPU; nothing: default_shards()
  std::optional<int> gpu{};               ///< nothing: the CPU
  std::optional<int64_t> gpu_layers{};    ///< the GPU has so many of the last layers; nothing: all
  std::optional<uint64_t> cache_bytes{};  ///< of the GPU's memory, for keys and values; nothing: what is left
  GivenMachine given{};                   ///< instead of a CPU and shards of this process
  bool fast = false;                      ///< a text may depend on the processor and on the texts beside it
  std::function<void(uint64_t done, uint64_t total)> on_progress{};  ///< bytes of the weights on their way to the GPU
};

/// The machines of one model.
class Machines {
 public:
  /// Throws core::UsageError if the model has fewer layers than `gpu_layers`, or shards are wanted beside a GPU, and
  /// core::Error if there is no such GPU: nothing else is taken in its place.
  Machines(const MachineOptions& options, const core::ModelConfig& config);

  [[nodiscard]] std::span<const Placement> placements() const { return placements_; }
  /// Null where the GPU has all layers; of several shards the first.
  [[nodiscard]] const Cpu* cpu() const {
    return given_ != nullptr ? given_ : sharded_ ? &sharded_->cpu(0) : cpu_.get();
  }
  /// Of the CPU, in this process.
  [[nodiscard]] size_t n_threads() const { return sharded_ ? sharded_->n_threads() : cpu() ? cpu()->n_threads() : 0; }
  /// Null unless there are several.
  [[nodiscard]] const ShardedCpu* shards() const { return sharded_.get(); }
  /// Null where the CPU has all layers.
  [[nodiscard]] const Machine* gpu() const { return gpu_.get(); }

 private:
  const Cpu* given_ = nullptr;
  std::unique_ptr<Cpu> cpu_;
  std::unique_ptr<ShardedCpu> sharded_;
  std::unique_ptr<Machine> gpu_;
  std::vector<Placement> placements_;
};

}  // namespace folio::infer
