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
  // Rejects an unknown value of FOLIO_PREFETCH at startup instead of during generation.
  static_cast<void>(select_prefetch());
}

std::string Cpu::describe() const {
  return fmt::format("{} threads, {}{}", n_threads(), core::isa_name(kernels_.isa), fast_ ? ", sums of BF16" : "");
}

std::unique_ptr<Stage> Cpu::load(const core::StoredModel& model, const Shard& shard, CacheType cache_type) {
  const bool latent = model.config.latent();
  const int64_t head_dim = latent ? model.config.latent_dim() : model.config.head_dim;
  core::require(head_dim <= static_cast<int64_t>(kernels::kMaxHeadDim),
                "{}: {} is {}, but the CPU kernels support at most {}", model.path,
                latent ? "kv_lora_rank + qk_rope_head_dim" : "head_dim", head_dim, kernels::kMaxHeadDim);
  return std::make_unique<CpuStage>(*this, model, shard, cache_type);
}

}  // namespace folio::infer
