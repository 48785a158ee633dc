// Creates the machines of a model: the CPU, its shards, a GPU, or the CPU for the first layers and a GPU for the last
// ones and the output. The engine uses them only through the Machine interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

namespace folio::infer {

/// A machine of several processes that run one model together (infer/ranks/net), used instead of this process's CPU.
struct GivenMachine {
  Machine* machine = nullptr;  ///< must outlive the model; null: no such machine
  const Cpu* cpu = nullptr;    ///< the part of the machine that this process runs on its CPU
};

struct MachineOptions {
  size_t n_threads = 0;                   ///< CPU threads; 0: all cores
  std::optional<size_t> n_shards{};       ///< number of shards of the CPU; default: default_shards()
  std::optional<int> gpu{};               ///< index of the GPU; default: no GPU
  std::optional<int64_t> gpu_layers{};    ///< number of layers, counted from the last, on the GPU; default: all
  std::optional<uint64_t> cache_bytes{};  ///< maximum GPU memory for the KV cache; default: what is free
  size_t max_logit_rows = 64;             ///< maximum rows of a step that need logits, for which GPU memory is left
  GivenMachine given{};                   ///< replaces this process's CPU and its shards, if its machine isn't null
  bool fast = false;                      ///< true: BF16 products on CPUs; on GPUs, output may depend on the batch
  std::function<void(uint64_t done, uint64_t total)> on_progress{};  ///< called with bytes of weights copied to the GPU
};

/// Returns the CPU options in `options`: n_threads, and `fast` if BF16 products are faster on this CPU.
[[nodiscard]] CpuOptions cpu_options(const MachineOptions& options);

/// The machines of one model.
struct Machines {
  std::vector<Placement> placements;
  const Cpu* cpu = nullptr;  ///< the CPU, or its first shard if it has several; null if all layers are on the GPU
  size_t n_threads = 0;      ///< CPU threads in this process
  size_t n_shards = 1;       ///< number of CPU shards (tensor parallelism)
  Machine* gpu = nullptr;    ///< null if no GPU was requested
  std::vector<std::unique_ptr<Machine>> owned{};

  /// Returns a description of the machines, such as "2 threads, avx512bf16", in the order of their layers.
  [[nodiscard]] std::string describe() const;
};

/// Creates the machines that `options` specify. Throws core::UsageError if the model has fewer layers than `gpu_layers`
/// or shards are combined with a GPU, and core::Error if the GPU does not exist: there is no fallback.
[[nodiscard]] Machines make_machines(const MachineOptions& options, const core::ModelConfig& config);

}  // namespace folio::infer
