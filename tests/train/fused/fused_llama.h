// A Llama model whose modules are all fused, for tests.
#pragma once

#include <memory>
#include <utility>

#include "train/fused/parts.h"

namespace folio::test {

inline nn::Llama fused_llama(const core::ModelConfig& config, nn::PartOptions options = {}, bool recompute = false) {
  const train::fused::Fusion all{.blocks = true, .ends = true, .recompute = recompute};
  return nn::Llama(config, std::make_shared<train::fused::FusedParts>(std::move(options), all));
}

}  // namespace folio::test
