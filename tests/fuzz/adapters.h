// Shared by fuzz_adapter.cpp and fuzz_gguf_adapter.cpp: the adapted model, and checks of an adapter that was read.
#pragma once

#include <cmath>
#include <cstring>

#include "core/adapter.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {

inline core::ModelConfig adapted_config() {
  return {
      .vocab_size = 5, .dim = 4, .n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 3, .context_length = 8};
}

inline void look_at(const core::Adapter& adapter) {
  check(!adapter.parts.empty(), "an adapter adds something");
  for (const core::Adapter::Part& part : adapter.parts) {
    check(part.rank >= 1 && part.rank <= static_cast<size_t>(core::kMaxAdapterRank), "ranks are limited");
    check(!part.a.empty() && part.a.size() % part.rank == 0 && part.b.size() % part.rank == 0, "ranks fit");
    check(part.layer >= 0 && part.layer < adapted_config().n_layers, "parts are of layers");
    check(std::isfinite(part.scale), "scales are numbers");
  }
}

/// Returns true if two adapters are equal. Compares values bit by bit, since a file may contain NaNs.
inline bool same_parts(const core::Adapter& one, const core::Adapter& two) {
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  if (one.parts.size() != two.parts.size()) return false;
  for (size_t i = 0; i < one.parts.size(); ++i) {
    const core::Adapter::Part& a = one.parts[i];
    const core::Adapter::Part& b = two.parts[i];
    if (a.role != b.role || a.layer != b.layer || a.rank != b.rank || a.scale != b.scale) return false;
    if (!same(a.a, b.a) || !same(a.b, b.b)) return false;
  }
  return true;
}

}  // namespace folio::fuzz
