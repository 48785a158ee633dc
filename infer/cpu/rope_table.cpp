#include "infer/cpu/rope_table.h"

#include <algorithm>
#include <cmath>

namespace folio::infer {

void RopeTable::extend(const core::ModelConfig& config, size_t n_positions, const std::vector<double>& frequencies,
                       float magnitude) {
  constexpr size_t kAtLeast = 256;
  dims_ = static_cast<size_t>(config.rotated());
  const size_t have = sin_.size() / dims_;
  if (n_positions <= have) return;
  const size_t want = std::min(std::max({n_positions, 2 * have, kAtLeast}), static_cast<size_t>(config.context_length));
  cos_.resize(want * dims_);
  sin_.resize(want * dims_);
  const bool halves = core::info(config.family).pairs == core::RopePairs::Halves;
  for (size_t d = 0; d < dims_; ++d) {
    const double frequency = frequencies[halves ? d % frequencies.size() : d / 2];
    const double sign = (halves ? d < frequencies.size() : d % 2 == 0) ? -1.0 : 1.0;
    for (size_t position = have; position < want; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      cos_[position * dims_ + d] = static_cast<float>(magnitude * std::cos(angle));
      sin_[position * dims_ + d] = static_cast<float>(sign * magnitude * std::sin(angle));
    }
  }
}

}  // namespace folio::infer
