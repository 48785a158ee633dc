// CpuStage's matrix products with one weight matrix per head (latent attention). The inputs of a head are gathered from
// all rows and multiplied together.
#include <algorithm>

#include "infer/cpu/cpu_stage.h"

namespace folio::infer {

void CpuStage::run(const ProjectHeads& o) {
  const auto n_heads = static_cast<size_t>(config_.n_heads);
  const std::span<const Matrix> weights =
      weights_.stack(o.weight, n_heads).subspan(kv_heads_.first, kv_heads_.last - kv_heads_.first);
  const size_t in_dim = width(o.in) / n_heads;
  const size_t out_dim = width(o.out) / n_heads;
  if (!weights.empty()) {
    const size_t k = weights[0].k;
    const size_t n_out = weights[0].n_out;
    std::vector<Segment> heads;
    for (size_t h = 0; h < weights.size(); ++h) heads.push_back({h * n_rows_, n_rows_});
    ProductInputs::Formats formats;
    formats.add(weights[0]);
    inputs_.gather(heads, k, formats, [&](size_t first, size_t n, float* to) {
      const size_t head = kv_heads_.first + first / n_rows_;
      for (size_t row = first % n_rows_; n > 0; ++row, --n, to += k) {
        const float* in = at(o.in) + row * width(o.in) + head * in_dim;
        std::copy_n(in, k, to);
        // Copies the elements with RoPE to Slot::Absorbed. For Slot::Heads, out_dim == n_out, so none are copied.
        std::copy_n(in + k, out_dim - n_out, at(o.out) + row * width(o.out) + head * out_dim + n_out);
      }
    });
    const size_t lanes = in_lanes(n_out);
    const size_t work = weights.size() * n_rows_ * lanes * k / kWorthAThread;
    pool_.parallel_for(weights.size() * lanes, kernels::kLanes, work, [&](size_t begin, size_t end) {
      for (size_t h = begin / lanes; h * lanes < end; ++h) {
        weights[h].multiply(kernels_, inputs_.of(heads[h]), std::max(begin, h * lanes) - h * lanes,
                            std::min(n_out, end - h * lanes), at(o.out) + (kv_heads_.first + h) * out_dim, width(o.out),
                            false);
      }
    });
  }
  if (o.out == Slot::Heads) exchange({Slot::Heads}, rounds_input(core::Role::Wo));
}

}  // namespace folio::infer
