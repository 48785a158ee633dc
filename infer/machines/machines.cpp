#include "infer/machines/machines.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/memory_nodes.h"
#include "infer/cuda/cuda.h"
#include "infer/ranks/local.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

CpuOptions cpu_options(const MachineOptions& options) {
  return {.n_threads = options.n_threads, .fast = options.fast && kernels::fast_pays()};
}

std::string Machines::describe() const {
  std::string all;
  for (const Placement& p : placements) all += (all.empty() ? "" : " and ") + p.machine.describe();
  return all;
}

Machines make_machines(const MachineOptions& options, const core::ModelConfig& config) {
  const int64_t n_layers = config.n_layers;
  Machines machines;
  if (options.given.machine != nullptr) {
    machines.cpu = options.given.cpu;
    machines.n_threads = machines.cpu == nullptr ? 0 : machines.cpu->n_threads();
    machines.placements.push_back({.machine = *options.given.machine, .layers = {0, n_layers}});
    return machines;
  }
  const int64_t on_gpu = options.gpu ? options.gpu_layers.value_or(n_layers) : 0;
  if (on_gpu > n_layers) {
    throw core::UsageError(fmt::format("--gpu-layers is {}, but the model has {} layers", on_gpu, n_layers));
  }
  if (options.gpu && options.n_shards.value_or(1) > 1) {
    throw core::UsageError(
        fmt::format("--shards {} applies only to CPUs, but {} of the {} layers are on a GPU; omit "
                    "--shards or --device",
                    *options.n_shards, on_gpu, n_layers));
  }
  const auto own = [&](auto machine) -> auto& {
    auto& it = *machine;
    machines.owned.push_back(std::move(machine));
    return it;
  };
  if (options.gpu) {
    machines.gpu = &own(make_cuda({.device = *options.gpu,
                                   .cache_bytes = options.cache_bytes,
                                   .max_logit_rows = options.max_logit_rows,
                                   .fast = options.fast,
                                   .on_progress = options.on_progress}));
  }
  const auto nodes = core::memory_nodes();
  const size_t n_threads = options.n_threads == 0 ? core::default_threads() : options.n_threads;
  machines.n_shards = options.n_shards.value_or(options.gpu ? 1 : default_shards(nodes.size(), n_threads, config));
  const CpuOptions of_cpu = cpu_options(options);
  if (machines.n_shards > 1) {
    auto& shards = own(std::make_unique<ShardedCpu>(machines.n_shards, of_cpu, nodes));
    machines.cpu = &shards.cpu(0);
    machines.n_threads = shards.n_threads();
    machines.placements.push_back({.machine = shards, .layers = {0, n_layers}});
  } else if (on_gpu < n_layers) {
    auto& cpu = own(std::make_unique<Cpu>(of_cpu));
    machines.cpu = &cpu;
    machines.n_threads = cpu.n_threads();
    machines.placements.push_back({.machine = cpu, .layers = {0, n_layers - on_gpu}});
  }
  if (on_gpu > 0) machines.placements.push_back({.machine = *machines.gpu, .layers = {n_layers - on_gpu, n_layers}});
  return machines;
}

}  // namespace folio::infer
