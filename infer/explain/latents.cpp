#include <fmt/format.h>

#include "infer/explain/analysis.h"

namespace folio::infer::explain {

void expand_latents(const core::StoredModel& model, Trace& trace) {
  const core::ModelConfig& config = model.config;
  const auto rank = static_cast<size_t>(config.kv_lora_rank);
  const auto nope = static_cast<size_t>(config.qk_nope_head_dim);
  const auto value_dim = static_cast<size_t>(config.v_head_dim);
  for (int64_t l = 0; l < config.n_layers; ++l) {
    const std::vector<float> wk = floats_of(model, core::Role::WkB, l);  // (heads, rank, nope)
    const std::vector<float> wv = floats_of(model, core::Role::WvB, l);  // (heads, value_dim, rank)
    const std::vector<float>& latents = trace.at("latent", l);
    std::vector<float>& keys = trace.values[fmt::format("layers.{}.key", l)];
    std::vector<float>& values = trace.values[fmt::format("layers.{}.value", l)];
    for (size_t row = 0; row < trace.tokens.size(); ++row) {
      const auto latent = trace.row(latents, row);
      for (size_t head = 0; head < static_cast<size_t>(config.n_heads); ++head) {
        for (size_t i = 0; i < nope; ++i) {
          double sum = 0.0;
          for (size_t c = 0; c < rank; ++c) sum += double{latent[c]} * wk[(head * rank + c) * nope + i];
          keys.push_back(static_cast<float>(sum));
        }
        keys.insert(keys.end(), latent.begin() + static_cast<ptrdiff_t>(rank), latent.end());
        for (size_t i = 0; i < value_dim; ++i) {
          double sum = 0.0;
          for (size_t c = 0; c < rank; ++c) sum += double{latent[c]} * wv[(head * value_dim + i) * rank + c];
          values.push_back(static_cast<float>(sum));
        }
      }
    }
  }
}

}  // namespace folio::infer::explain
