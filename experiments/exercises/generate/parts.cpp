#include "experiments/exercises/generate/parts.h"

#include <array>

#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

// Returns `own`, which `call` calls, if it is written, otherwise `reference`. Adds `name` to parts.own or
// parts.missing.
template <typename Function>
Function pick(Parts& parts, std::string_view name, Function own, Function reference, const auto& call) {
  const bool written = is_written(call);
  (written ? parts.own : parts.missing).push_back(name);
  return written ? own : reference;
}

}  // namespace

Parts find_parts() {
  Parts p;
  std::array<float, 2> x{1.0F, 2.0F};
  const std::array<float, 2> y{3.0F, 4.0F};
  std::array<float, 2> out{};
  const AttentionShape shape{.n_queries = 1, .n_positions = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 2};
  const SamplerOptions options{.temperature = 1.0F, .top_k = 0, .top_p = 1.0F, .min_p = 0.0F};
  p.rms_norm = pick(p, "rms_norm", &exercises::rms_norm, &reference::rms_norm,
                    [&] { exercises::rms_norm(x.data(), y.data(), 1e-5F, 1, 2, out.data()); });
  p.rope = pick(p, "rope", &exercises::rope, &reference::rope, [&] { exercises::rope(x.data(), 1, 1, 2, 1e4F); });
  p.swiglu = pick(p, "swiglu", &exercises::swiglu, &reference::swiglu,
                  [&] { exercises::swiglu(x.data(), y.data(), 2, out.data()); });
  p.matmul = pick(p, "matmul", &exercises::matmul, &reference::matmul,
                  [&] { exercises::matmul(x.data(), y.data(), 1, 2, 1, out.data()); });
  p.attention = pick(p, "attention", &exercises::attention, &reference::attention,
                     [&] { exercises::attention(x.data(), y.data(), y.data(), shape, out.data()); });
  p.sample = pick(p, "sampler", &exercises::sample, static_cast<decltype(&exercises::sample)>(nullptr),
                  [&] { (void)exercises::sample(y, options, 0.5); });
  return p;
}

}  // namespace folio::exercises
