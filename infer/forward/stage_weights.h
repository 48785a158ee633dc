// The weights that a range of a model's layers needs, and their ids on the machine.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/manifest.h"
#include "core/weights.h"

namespace folio::infer {

/// Identifies a weight on a machine. Ids are assigned in the order of loading.
struct WeightId {
  int32_t index = -1;  ///< -1: no such weight in this stage

  [[nodiscard]] bool exists() const { return index >= 0; }
};

/// Layers [first, last) of a model. A range with the model's first layer also includes the embedding. A range with the
/// last layer also includes the final norm and the output projection.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;
};

/// Returns all layers of a model except its MTP module's layer; for an MTP module (module_of()), its only layer.
[[nodiscard]] LayerRange all_layers(const core::ModelConfig& config);

/// Returns true if the layers need the tensor. The last layer needs the embedding, too, if it is tied to the output.
[[nodiscard]] bool needed_by(LayerRange range, const core::TensorSpec& spec, const core::ModelConfig& config);

/// Returns the matrices of a stack (n, rows, columns), such as one per expert. Returns other tensors unchanged.
[[nodiscard]] std::vector<core::TensorView> matrices_of(const core::TensorView& tensor);

/// The ids of a stage's weights, by role and layer.
class StageWeights {
 public:
  using Load = std::function<WeightId(const core::TensorSpec& spec, const core::TensorView& tensor)>;

  /// Calls load() for each tensor that `range` needs, in the order of core::tensor_manifest().
  StageWeights(const core::StoredModel& model, LayerRange range, const Load& load);

  /// Returns the id of a weight. `layer` is counted from the model's first layer; -1: a weight outside the layers, such
  /// as the embedding. If this stage has no such weight, exists() is false for the id.
  [[nodiscard]] WeightId operator()(core::Role role, int64_t layer = -1) const;
  [[nodiscard]] bool has(core::Role role, int64_t layer = -1) const { return (*this)(role, layer).exists(); }

 private:
  static constexpr size_t kRoles = static_cast<size_t>(core::Role::Output) + 1;
  using ByRole = std::array<WeightId, kRoles>;

  int64_t first_layer_;
  ByRole model_;
  std::vector<ByRole> layers_;
};

}  // namespace folio::infer
