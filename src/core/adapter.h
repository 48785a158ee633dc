// Low-rank adapters (LoRA, Hu et al. 2021): a matrix W of the model becomes W + scale · B A. They are stored as peft
// directories or llama.cpp GGUFs; formats/adapter_files.h reads both.
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
  /// The low-rank update of one matrix (n_out, k) of the model.
  struct Part {
    Role role;
    int64_t layer;
    size_t rank;
    float scale;
    std::vector<float> a;  ///< (rank, k)
    std::vector<float> b;  ///< (n_out, rank), rows in W's order in memory (of Wq and Wk: see FamilyInfo::pairs)
  };

  std::string path;
  std::vector<Part> parts;  ///< in manifest order, at most one per matrix

  /// Returns the part for a matrix, or null if the matrix isn't adapted.
  [[nodiscard]] const Part* find(Role role, int64_t layer) const;
};

/// The settings stored in an adapter's files.
struct AdapterInfo {
  int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;         ///< probability of dropping an adapter input during training
  std::vector<Role> targets;  ///< roles of the adapted matrices, in manifest order; empty if unknown
  std::string base;           ///< name or directory of the base model; empty if unknown
  bool by_root = false;       ///< rank-stabilized scale (Kalajdzievski 2023), peft's use_rslora

  /// Returns the factor of B A: `factor` · alpha / rank, or `factor` · alpha / sqrt(rank) if `by_root`.
  [[nodiscard]] float scale(float factor = 1.0F) const;
};

/// The path of an adapter, and a multiplier of its scale.
struct AdapterPath {
  std::string path;
  float scale = 1.0F;
};

/// Returns the matrices that an adapter may change: those of the layers, except routers, stacks (of experts, WkB and
/// WvB) and parts of fused matrices, to which peft and llama.cpp apply adapters; and not those of the MTP module.
[[nodiscard]] std::vector<TensorSpec> adaptable_matrices(const ModelConfig& config);

/// Returns the element of `matrices` that `part` updates. Throws Error that begins with `where` if there is none.
[[nodiscard]] const TensorSpec& matrix_of(const Adapter::Part& part, std::span<const TensorSpec> matrices,
                                          const std::string& where);

/// Returns the roles of the adapted matrices, in manifest order, as in AdapterInfo::targets.
[[nodiscard]] std::vector<Role> roles_of(const Adapter& adapter);

/// Throws Error that begins with `where` unless all parts have the rank and scale of `info`.
void require_parts_of(const Adapter& adapter, const AdapterInfo& info, const std::string& where);

/// Returns the sum of one or more adapters of the same model. If several adapt a matrix, concatenates their A and their
/// scale · B along the rank, as peft's add_weighted_adapter(combination_type="cat") does. Throws Error if the resulting
/// rank exceeds kMaxAdapterRank.
[[nodiscard]] Adapter sum_of(std::span<const Adapter> adapters);

/// Returns the model's tensors, with scale · B A added to adapted matrices, which become F32. An adapted matrix is
/// computed when its bytes are requested; they are valid until the bytes of the next adapted matrix are requested. The
/// model and the adapters must outlive the stream.
[[nodiscard]] TensorStream merged(const StoredModel& model, std::span<const Adapter> adapters);

}  // namespace folio::core
