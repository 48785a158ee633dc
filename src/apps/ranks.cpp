#include "apps/ranks.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "core/error.h"
#include "core/manifest.h"
#include "infer/machines/machines.h"
#include "infer/ranks/net/rank_config.h"

namespace folio::apps {

void add_rank_flags(Flags& app, ModelFlags& flags) {
  app.add_option("--pipeline-parallel", flags.n_stages,
                 "number of pipeline stages when run as several ranks (default: 1, tensor parallelism only)")
      ->in_range(1, infer::kMostRanks)
      ->default_str("");
  app.footer([] {
    return wrapped(
        "Several processes can run one model: start N ranks with torchrun --no-python --nproc-per-node N, or set RANK, "
        "WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process. The output does not change.");
  });
}

Ranks::Ranks(const Flags& app, ModelFlags& flags) {
  const auto world = infer::rank_config_from_environment();
  if (!world) {
    if (flags.n_stages > 1) {
      throw core::UsageError(
          fmt::format("--pipeline-parallel {0} needs at least {0} ranks, but this is a single process; start it with "
                      "torchrun --no-python --nproc-per-node {0}",
                      flags.n_stages));
    }
    return;
  }
  infer::MachineOptions& machines = flags.load.machines;
  const std::pair<const char*, bool> flags_of_one_process[] = {{"--shards", machines.n_shards.value_or(1) > 1},
                                                               {"--device", machines.gpu.has_value()}};
  for (const auto& [flag, is_used] : flags_of_one_process) {
    if (is_used && app.count(flag) > 0) {
      throw core::UsageError(fmt::format("{} requires a single process, but WORLD_SIZE is {}; leave out one of them",
                                         flag, world->n_ranks));
    }
  }
  machine_.emplace(*world, flags.n_stages, infer::cpu_options(machines));
  machines.given = {.machine = &*machine_, .cpu = &machine_->cpu()};
}

infer::LoadedModel Ranks::open(const ModelFlags& flags) {
  std::optional<infer::LoadedModel> model;
  const auto body = [&] { model.emplace(open_model(flags)); };
  machine_ ? machine_->run(body) : body();
  return std::move(*model);
}

// Ctrl-C and torchrun send signals to all ranks. Ranks other than 0 ignore them, because rank 0 shuts them down.
bool Ranks::follow(infer::LoadedModel& model) {
  if (!machine_) return false;
  const auto load = [&] { static_cast<void>(model.engine()); };
  if (machine_->leads()) {
    machine_->run(load);
    return false;
  }
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  machine_->run(load);
  machine_->follow();
  return true;
}

uint64_t Ranks::exchanged_bytes(const core::StoredModel& model, int64_t batch) const {
  const auto manifest = core::tensor_manifest(model.config);
  bool in_blocks = true;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::Role role = manifest[i].role;
    const bool rounds = role == core::Role::Wo || role == core::Role::W2 || role == core::Role::ExpertW2;
    in_blocks = in_blocks && (!rounds || core::info(model.tensors[i].type).block_elements > 1);
  }
  const auto rows = static_cast<size_t>(batch);
  const size_t n_stages = machine_->n_stages();
  const size_t n_shards = machine_->world().n_ranks / n_stages;
  const auto width = static_cast<size_t>(model.config.dim);
  const auto logits = n_stages == 1 ? 0 : static_cast<size_t>(model.config.vocab_size);
  return infer::exchanged_bytes(model.config, n_shards, rows, rows, in_blocks) +
         sizeof(float) * rows * ((n_stages - 1) * n_shards * width + logits);
}

}  // namespace folio::apps
