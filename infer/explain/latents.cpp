#include <fmt/format.h>

#include <algorithm>

#include "infer/explain/analysis.h"

namespace folio::infer::explain {

void expand_latents(const Tensors& tensors, int64_t layer, Trace& trace, bool with_values) {
  const core::ModelConfig& config = tensors.config();
  const size_t n = trace.tokens.size();
  const auto n_heads = static_cast<size_t>(config.n_heads);
  const auto rank = static_cast<size_t>(config.kv_lora_rank);
  const auto nope = static_cast<size_t>(config.qk_nope_head_dim);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const std::vector<float>& latents = trace.at("latent", layer);  // (T, rank + qk_rope_head_dim)
  std::vector<float> c;                                           // (T, rank)
  for (size_t row = 0; row < n; ++row) {
    const auto latent = trace.row(latents, row).first(rank);
    c.insert(c.end(), latent.begin(), latent.end());
  }
  const std::vector<float> wk = tensors.floats(core::Role::WkB, layer);  // (heads, rank, nope)
  std::vector<float> keys(n * n_heads * head_dim);
  for (size_t head = 0; head < n_heads; ++head) {
    const auto of_head = std::span(wk).subspan(head * rank * nope, rank * nope);
    const std::vector<float> key = product(c, transposed(of_head, rank), rank);
    for (size_t row = 0; row < n; ++row) {
      const auto to = keys.begin() + static_cast<ptrdiff_t>((row * n_heads + head) * head_dim);
      std::ranges::copy(trace.row(key, row), to);
      std::ranges::copy(trace.row(latents, row).subspan(rank), to + static_cast<ptrdiff_t>(nope));
    }
  }
  trace.values[fmt::format("layers.{}.key", layer)] = std::move(keys);
  if (!with_values) return;
  const std::vector<float> wv = tensors.floats(core::Role::WvB, layer);        // (heads, value_dim, rank)
  trace.values[fmt::format("layers.{}.value", layer)] = product(c, wv, rank);  // (T, heads * value_dim)
}

}  // namespace folio::infer::explain
