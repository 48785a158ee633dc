// CpuStage's products with a matrix per head (latent attention). The rows of a head are gathered and multiplied
// together.
#include <algorithm>

#include "infer/cpu/cpu_stage.h"

namespace folio::infer {

void CpuStage::run(const ProjectHeads& o) {
  const auto n_heads = static_cast<size_t>(config_.n_heads);
  const std::span<const Matrix> weights =
      weights_.stack(o.weight, n_heads).subspan(kv_heads_.first, kv_heads_.last - kv_heads_.first);
  const size_t in_dim = width(o.in) / n_heads;
  const size_t out_dim = width(o.out) / n_heads;
  const size_t n = weights.size() * n_rows_;  // (head, row) pairs of this rank
  if (n > 0) {
    const size_t k = weights[0].k;
    const size_t n_out = weights[0].n_out;
    of_heads_.resize(std::max(of_heads_.size(), n * k));
    float* inputs = of_heads_.data();
    const kernels::QuantizedInputs quantized =
        weights[0].in_groups() ? quantized_.resize(n, k) : kernels::QuantizedInputs{};
    const size_t batches = (n_rows_ + kQuantizedTogether - 1) / kQuantizedTogether;
    pool_.parallel_for(weights.size() * batches, 1, n * k / kWorthAThread, [&](size_t begin, size_t end) {
      for (size_t batch = begin; batch < end; ++batch) {
        const size_t head = kv_heads_.first + batch / batches;
        const size_t first = batch % batches * kQuantizedTogether;
        const size_t to = batch / batches * n_rows_ + first;
        const size_t n_together = std::min(kQuantizedTogether, n_rows_ - first);
        for (size_t i = 0; i < n_together; ++i) {
          const float* in = at(o.in) + (first + i) * width(o.in) + head * in_dim;
          float* out = at(o.out) + (first + i) * width(o.out) + head * out_dim;
          std::copy_n(in, k, inputs + (to + i) * k);
          std::copy_n(in + k, out_dim - n_out, out + n_out);  // the elements with RoPE of Absorbed, none of Heads
        }
        if (quantized.values != nullptr) kernels_.quantize(inputs + to * k, n_together, k, from(quantized, to, k));
      }
    });
    const kernels::BF16* fast = nullptr;
    if (weights[0].in_panels()) {
      fast = rounded_.round(pool_, kernels_, n, k, [&](size_t i) { return inputs + i * k; });
    }
    const size_t lanes = in_lanes(n_out);
    const size_t work = n * lanes * k / kWorthAThread;
    pool_.parallel_for(weights.size() * lanes, kernels::kLanes, work, [&](size_t begin, size_t end) {
      for (size_t h = begin / lanes; h * lanes < end; ++h) {
        const size_t first = h * n_rows_;
        const Inputs in{.floats = inputs + first * k,
                        .packed = nullptr,
                        .fast = fast == nullptr ? nullptr : fast + first * kernels::panel_columns(k),
                        .quantized = quantized.values == nullptr ? quantized : from(quantized, first, k),
                        .n_rows = n_rows_};
        weights[h].multiply(kernels_, in, std::max(begin, h * lanes) - h * lanes, std::min(n_out, end - h * lanes),
                            at(o.out) + (kv_heads_.first + h) * out_dim, width(o.out), false);
      }
    });
  }
  if (o.out == Slot::Heads) exchange({Slot::Heads}, rounds_input(core::Role::Wo));
}

}  // namespace folio::infer
