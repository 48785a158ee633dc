#include "infer/cpu/rope_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/rope_scaling.h"

namespace folio::infer {

void RopeTable::extend(const core::ModelConfig& config, size_t n_positions) {
  constexpr size_t kAtLeast = 256;
  head_dim_ = static_cast<size_t>(config.head_dim);
  const size_t have = sin_.size() / head_dim_;
  if (n_positions <= have) return;
  const size_t want = std::min(std::max({n_positions, 2 * have, kAtLeast}), static_cast<size_t>(config.context_length));
  cos_.resize(want * head_dim_);
  sin_.resize(want * head_dim_);
  const std::vector<double> frequencies = core::rope_frequencies(config);
  const bool halves = core::info(config.family).pairs == core::RopePairs::Halves;
  for (size_t d = 0; d < head_dim_; ++d) {
    const double frequency = frequencies[halves ? d % frequencies.size() : d / 2];
    const double sign = (halves ? d < frequencies.size() : d % 2 == 0) ? -1.0 : 1.0;
    for (size_t position = have; position < want; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      cos_[position * head_dim_ + d] = static_cast<float>(std::cos(angle));
      sin_[position * head_dim_ + d] = static_cast<float>(sign * std::sin(angle));
    }
  }
}

}  // namespace folio::infer
