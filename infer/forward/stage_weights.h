// Which weights a range of a model's layers needs, and the number that its machine gives each.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/manifest.h"
#include "core/weights.h"

namespace folio::infer {

/// A weight on a machine, in the order of loading.
struct WeightId {
  int32_t index = -1;  ///< -1: the stage has none

  [[nodiscard]] bool exists() const { return index >= 0; }
};

/// Layers [first, last) of a model. The first layer's stage has the embedding, the last one's the output.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;
};

/// Whether layers [range.first, range.last) of a model need a tensor. A tied output needs the embedding, too.
[[nodiscard]] bool needed_by(LayerRange range, const core::TensorSpec& spec, const core::ModelConfig& config);

/// The matrices of a stack, each by itself, or the tensor where it is none.
[[nodiscard]] std::vector<core::TensorView> matrices_of(const core::TensorView& tensor);

/// A stage's weights by role.
class StageWeights {
 public:
  using Load = std::function<WeightId(const core::TensorSpec& spec, const core::TensorView& tensor)>;

  /// Calls load() for each tensor that the layers need, in the manifest's order.
  StageWeights(const core::StoredModel& model, LayerRange range, const Load& load);

  /// Of a layer of the range (counted from the model's first one), or with -1 of the model.
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
