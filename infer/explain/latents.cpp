#include <fmt/format.h>

#include <algorithm>

#include "infer/explain/analysis.h"

namespace folio::infer::explain {

void expand_latents(const core::StoredModel& model, Trace& trace, bool with_values) {
  const core::ModelConfig& config = model.config;
  const size_t n = trace.tokens.size();
  const auto n_heads = static_cast<size_t>(config.n_heads);
  const auto rank = static_cast<size_t>(config.kv_lora_rank);
  const auto nope = static_cast<size_t>(config.qk_nope_head_dim);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto value_dim = static_cast<size_t>(config.v_head_dim);
  for (int64_t l = 0; l < config.n_layers; ++l) {
    const std::vector<float> wk = floats_of(model, core::Role::WkB, l);  // (heads, rank, nope)
    const std::vector<float> wv = with_values ? floats_of(model, core::Role::WvB, l) : std::vector<float>{};
    const std::vector<float>& latents = trace.at("latent", l);  // (T, rank + qk_rope_head_dim)
    std::vector<float> c;                                       // (T, rank)
    for (size_t row = 0; row < n; ++row) {
      const auto latent = trace.row(latents, row);
      c.insert(c.end(), latent.begin(), latent.begin() + static_cast<ptrdiff_t>(rank));
    }
    std::vector<float> keys(n * n_heads * head_dim);
    std::vector<float> values(with_values ? n * n_heads * value_dim : 0);
    for (size_t head = 0; head < n_heads; ++head) {
      const auto of_head = [&](std::span<const float> w, size_t width) {
        return w.subspan(head * rank * width, rank * width);
      };
      const std::vector<float> key = product(c, transposed(of_head(wk, nope), rank), rank);
      for (size_t row = 0; row < n; ++row) {
        const auto to = keys.begin() + static_cast<ptrdiff_t>((row * n_heads + head) * head_dim);
        std::ranges::copy(trace.row(key, row), to);
        std::ranges::copy(trace.row(latents, row).subspan(rank), to + static_cast<ptrdiff_t>(nope));
      }
      if (!with_values) continue;
      const std::vector<float> value = product(c, of_head(wv, value_dim), rank);  // of (heads, value_dim, rank)
      for (size_t row = 0; row < n; ++row) {
        std::ranges::copy(trace.row(value, row),
                          values.begin() + static_cast<ptrdiff_t>((row * n_heads + head) * value_dim));
      }
    }
    trace.values[fmt::format("layers.{}.key", l)] = std::move(keys);
    if (with_values) trace.values[fmt::format("layers.{}.value", l)] = std::move(values);
  }
}

}  // namespace folio::infer::explain
