// A low-rank adapter (Hu et al. 2021, "LoRA"): a matrix W of the model then acts as W + scale · B A. Its files are
// peft's directories and llama.cpp's GGUFs: formats/adapter_files.h reads both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "core/weights.h"

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

  /// What is added to this matrix, or null.
  [[nodiscard]] const Part* find(Role role, int64_t layer) const;
};

/// What the files of an adapter say of it beside its numbers.
struct AdapterInfo {
  int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;         ///< of the adapter's inputs, while it is trained
  std::vector<Role> targets;  ///< the kinds of matrices that have parts, in the manifest's order
  std::string base;           ///< the base model: its name, or the path of its directory; empty: not said
  bool by_root = false;       ///< rank-stabilized (Kalajdzievski 2023): peft's use_rslora

  /// What B A is multiplied by: alpha / rank, or alpha / sqrt(rank); times `factor`.
  [[nodiscard]] float scale(float factor = 1.0F) const;
};

/// Where an adapter is, and what its own scale is multiplied by.
struct AdapterPath {
  std::string path;
  float scale = 1.0F;
};

/// The matrices that may have parts: those of the blocks.
[[nodiscard]] std::vector<TensorSpec> adaptable_matrices(const ModelConfig& config);

/// The one of these that a part is for. Throws Error that begins with `where` if there is none.
[[nodiscard]] const TensorSpec& matrix_of(const Adapter::Part& part, std::span<const TensorSpec> matrices,
                                          const std::string& where);

/// Throws Error that begins with `where` unless the parts have the info's rank, scale and targets.
void require_parts_of(const Adapter& adapter, const AdapterInfo& info, const std::string& where);

/// What adapters, at least one, of one model add together: of each matrix the ranks lie behind each other, b times its
/// scale, as peft's add_weighted_adapter(combination_type="cat") has it. Throws Error if these are more than
/// kMaxAdapterRank.
[[nodiscard]] Adapter sum_of(std::span<const Adapter> adapters);

/// The model's tensors, those with parts as F32 with the sums of scale · B A added. A tensor is computed when its bytes
/// are requested, so one is in memory at a time. Model and adapters have to outlive the stream.
[[nodiscard]] TensorStream merged(const StoredModel& model, std::span<const Adapter> adapters);

}  // namespace folio::core
