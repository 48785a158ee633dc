#include "infer/cpu/cpu.h"

#include <fmt/format.h>

#include "core/error.h"
#include "infer/cpu/cpu_stage.h"
#include "infer/cpu/prefetch.h"

namespace folio::infer {

Cpu::Cpu(const CpuOptions& options)
    : kernels_(options.kernels != nullptr ? *options.kernels : kernels::kernels_for(core::select_isa())),
      pool_(options.n_threads),
      fast_(options.fast && kernels_.matmul_fast != nullptr),
      copies_weights_(options.copies_weights) {
  // Rejects an unknown FOLIO_PREFETCH at startup instead of during generation.
  static_cast<void>(select_prefetch());
}

std::string Cpu::describe() const { return fmt::format("{} threads, {}", n_threads(), core::isa_name(kernels_.isa)); }

std::unique_ptr<Stage> Cpu::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  core::require(!model.config.latent(), "latent attention ({}) is not supported by the engine", model.config.family);
  core::require(model.config.head_dim <= static_cast<int64_t>(kernels::kMaxHeadDim),
                "head_dim is {}, but the CPU kernels support at most {}", model.config.head_dim, kernels::kMaxHeadDim);
  return std::make_unique<CpuStage>(*this, model, shard, cache_type);
}

}  // namespace folio::infer
