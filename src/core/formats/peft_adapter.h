// A low-rank adapter (Hu et al. 2021, "LoRA") as peft stores it: a directory with adapter_config.json and
// adapter_model.safetensors. A matrix W of the model then acts as W + scale · B A.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/manifest.h"

namespace folio::core {

inline constexpr int64_t kMaxAdapterRank = 256;

struct Adapter {
  /// What is added to one matrix (n_out, k) of the model.
  struct Part {
    Role role;
    int64_t layer;
    size_t rank;
    float scale;
    std::vector<float> a;  ///< (rank, k)
    std::vector<float> b;  ///< (n_out, rank), its rows in the order of the model's: see rope_layout.h
  };

  std::string path;
  std::vector<Part> parts;  ///< in the manifest's order, each matrix once
};

/// A directory as peft writes it.
struct AdapterFolder {
  std::string path;
  float scale = 1.0F;  ///< times the adapter's own
};

/// The adapter in `directory` for a model of this configuration, its scale times `factor`. Throws Error that says what
/// is missing, is of another shape than the model's, or is not supported: only linear layers of the blocks, no biases,
/// no DoRA, ranks up to kMaxAdapterRank.
[[nodiscard]] Adapter read_adapter(const std::filesystem::path& directory, const ModelConfig& config,
                                   float factor = 1.0F);

/// What adapters, at least one, of one model add together: of each matrix the ranks lie behind each other, b times its
/// scale, as peft's add_weighted_adapter(combination_type="cat") has it. Throws Error if these are more than
/// kMaxAdapterRank.
[[nodiscard]] Adapter sum_of(std::span<const Adapter> adapters);

}  // namespace folio::core
