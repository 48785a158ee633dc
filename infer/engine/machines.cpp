#include "infer/engine/machines.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/memory_nodes.h"
#include "infer/cuda/cuda.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

Machines::Machines(const MachineOptions& options, const core::ModelConfig& config) {
  const int64_t n_layers = config.n_layers;
  if (options.given.machine != nullptr) {
    given_ = options.given.cpu;
    placements_.push_back({.machine = *options.given.machine, .layers = {0, n_layers}});
    return;
  }
  const int64_t on_gpu = options.gpu ? options.gpu_layers.value_or(n_layers) : 0;
  if (on_gpu > n_layers) {
    throw core::UsageError(fmt::format("--gpu-layers is {}, but the model has {}", on_gpu, n_layers));
  }
  if (options.gpu && options.n_shards.value_or(1) > 1) {
    throw core::UsageError(
        fmt::format("--shards {} are shards of a CPU, but {} of the {} layers are on a GPU; leave out "
                    "--shards or --device",
                    *options.n_shards, on_gpu, n_layers));
  }
  if (options.gpu) {
    gpu_ = make_cuda({.device = *options.gpu,
                      .cache_bytes = options.cache_bytes,
                      .fast = options.fast,
                      .on_progress = options.on_progress});
  }
  const auto nodes = core::memory_nodes();
  const size_t n_threads = options.n_threads == 0 ? core::default_threads() : options.n_threads;
  const size_t n_shards = options.n_shards.value_or(options.gpu ? 1 : default_shards(nodes.size(), n_threads, config));
  const CpuOptions cpu{.n_threads = options.n_threads, .fast = options.fast && kernels::fast_pays()};
  if (n_shards > 1) {
    sharded_ = std::make_unique<ShardedCpu>(n_shards, cpu, nodes);
    placements_.push_back({.machine = *sharded_, .layers = {0, n_layers}});
  } else if (on_gpu < n_layers) {
    cpu_ = std::make_unique<Cpu>(cpu);
    placements_.push_back({.machine = *cpu_, .layers = {0, n_layers - on_gpu}});
  }
  if (on_gpu > 0) placements_.push_back({.machine = *gpu_, .layers = {n_layers - on_gpu, n_layers}});
}

}  // namespace folio::infer
