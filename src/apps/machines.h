// Where a model runs: --device and what belongs to it, and the machines that these flags ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/model_config.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

namespace folio::apps {

/// --threads, --device, --gpu-layers, --cache-memory and --fast.
struct MachineFlags {
  size_t threads = 0;
  std::optional<int> gpu{};  ///< nothing: the CPU
  std::optional<int64_t> gpu_layers{};
  std::optional<uint64_t> cache_bytes{};  ///< of the GPU's memory
  bool fast = false;
};

/// What is said of a GPU where there is none is wrong usage.
void add_machine_flags(CLI::App& app, MachineFlags& flags);

/// Thrown by the parser for --device list, as CLI::CallForHelp is for --help.
class CallForDevices : public CLI::Success {
 public:
  CallForDevices() : CLI::Success("CallForDevices", "", CLI::ExitCodes::Success) {}
};
/// A line for each GPU: how --device names it, its name, its memory, and the driver. Throws core::Error if there is
/// none.
void print_devices();

/// The machines of one model: the CPU, a GPU, or the CPU with the first layers and a GPU with the last and the output.
/// Shows on a terminal how far the weights' way to the GPU is.
class Machines {
 public:
  /// Throws core::UsageError if the model has fewer layers than --gpu-layers says, and core::Error if there is no such
  /// GPU: nothing else is taken in its place.
  Machines(const MachineFlags& flags, const core::ModelConfig& config);

  [[nodiscard]] std::span<const infer::Placement> placements() const { return placements_; }
  /// Null where the GPU has all layers.
  [[nodiscard]] const infer::Cpu* cpu() const { return cpu_.get(); }
  /// Null where the CPU has all layers.
  [[nodiscard]] const infer::Machine* gpu() const { return gpu_.get(); }

 private:
  std::unique_ptr<infer::Cpu> cpu_;
  std::unique_ptr<infer::Machine> gpu_;
  std::vector<infer::Placement> placements_;
};

}  // namespace folio::apps
