#include "infer/engine/machines.h"

#include <fmt/format.h>

#include "core/error.h"
#include "infer/cuda/cuda.h"

namespace folio::infer {

Machines::Machines(const MachineOptions& options, const core::ModelConfig& config) {
  const int64_t n_layers = config.n_layers;
  const int64_t on_gpu = options.gpu ? options.gpu_layers.value_or(n_layers) : 0;
  if (on_gpu > n_layers) {
    throw core::UsageError(fmt::format("--gpu-layers is {}, but the model has {}", on_gpu, n_layers));
  }
  if (options.gpu) {
    gpu_ = make_cuda({.device = *options.gpu,
                      .cache_bytes = options.cache_bytes,
                      .fast = options.fast,
                      .on_progress = options.on_progress});
  }
  if (on_gpu < n_layers) {
    cpu_ = std::make_unique<Cpu>(CpuOptions{.n_threads = options.n_threads});
    placements_.push_back({.machine = *cpu_, .layers = {0, n_layers - on_gpu}});
  }
  if (on_gpu > 0) placements_.push_back({.machine = *gpu_, .layers = {n_layers - on_gpu, n_layers}});
}

}  // namespace folio::infer
