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

/// What adapter_config.json says of a plain LoRA.
struct AdapterInfo {
  int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;         ///< of the adapter's inputs, while it is trained
  std::vector<Role> targets;  ///< the kinds of matrices that have parts, in the manifest's order
  std::string base;           ///< the base model: its name, or the path of its directory; empty: not said
  bool by_root = false;       ///< rank-stabilized (Kalajdzievski 2023): "use_rslora"

  /// What B A is multiplied by: alpha / rank, or alpha / sqrt(rank).
  [[nodiscard]] double scale() const;
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

/// What the adapter in `directory` says of itself. Throws Error as read_adapter does, but for shapes.
[[nodiscard]] AdapterInfo read_adapter_info(const std::filesystem::path& directory);

/// The name of such a matrix among a config's target_modules: "q_proj" of Role::Wq. Throws Error for a tensor that is
/// no matrix of the blocks.
[[nodiscard]] std::string target_name(Role role);

/// Writes adapter_config.json and adapter_model.safetensors (F32) into `directory`, which exists, as peft's
/// save_pretrained does; each file atomically. read_adapter() gives the same parts. `config` is the base's. Throws
/// Error unless the parts have the info's rank, scale and targets and the shapes of the model's matrices.
void write_adapter(const std::filesystem::path& directory, const ModelConfig& config, const Adapter& adapter,
                   const AdapterInfo& info);

/// What adapters, at least one, of one model add together: of each matrix the ranks lie behind each other, b times its
/// scale, as peft's add_weighted_adapter(combination_type="cat") has it. Throws Error if these are more than
/// kMaxAdapterRank.
[[nodiscard]] Adapter sum_of(std::span<const Adapter> adapters);

}  // namespace folio::core
