// Checks that the files of a model's family can represent its configuration.
#pragma once

#include "core/model_config.h"

namespace folio::core {

/// Throws Error if a value would be lost: one that the files of the family cannot store and that differs from the
/// family's default. The error names the value.
void require_said(const ModelConfig& config);

}  // namespace folio::core
