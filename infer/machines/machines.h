// Makes the machines of a model: the CPU, its shards, a GPU, or the CPU with the first layers and a GPU with the last
// and the output. The engine gets them from here, and knows no kind of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

namespace folio::infer {

/// A machine in place of the CPU: ranks of several processes (infer/ranks/net).
struct GivenMachine {
  Machine* machine = nullptr;  ///< has to outlive the model
  const Cpu* cpu = nullptr;    ///< this process's part of it
};

struct MachineOptions {
  size_t n_threads = 0;                   ///< of the CPU; 0: all cores
  std::optional<size_t> n_shards{};       ///< of the CPU; default: default_shards()
  std::optional<int> gpu{};               ///< default: the CPU
  std::optional<int64_t> gpu_layers{};    ///< number of the last layers that the GPU has; default: all
  std::optional<uint64_t> cache_bytes{};  ///< of the GPU's memory, for keys and values; default: what is left
  GivenMachine given{};                   ///< instead of a CPU and shards of this process
  bool fast = false;                      ///< output may depend on the processor and on the other sequences of a step
  std::function<void(uint64_t done, uint64_t total)> on_progress{};  ///< bytes of the weights on their way to the GPU
};

/// The machines of one model.
struct Machines {
  std::vector<Placement> placements;
  const Cpu* cpu = nullptr;  ///< null where the GPU has all layers; of several shards the first
  size_t n_threads = 0;      ///< of the CPU, in this process
  size_t n_shards = 1;       ///< of the CPU
  Machine* gpu = nullptr;    ///< null where the CPU has all layers
  std::vector<std::unique_ptr<Machine>> owned{};
};

/// Throws core::UsageError if the model has fewer layers than `gpu_layers`, or shards are requested together with a
/// GPU, and core::Error if there is no such GPU: nothing else is taken in its place.
[[nodiscard]] Machines make_machines(const MachineOptions& options, const core::ModelConfig& config);

}  // namespace folio::infer
