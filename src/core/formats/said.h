// Checks that the files of a model's family can represent its configuration.
#pragma once

#include "core/model_config.h"

namespace folio::core {

/// Throws Error that names a value if the family's files cannot store it and it differs from the family's default.
void require_said(const ModelConfig& config);

}  // namespace folio::core
