// Checks that a family's files can represent a configuration.
#pragma once

#include "core/model_config.h"

namespace folio::core {

/// Throws Error that names a value which the family's files cannot store and which differs from the family's default:
/// it would be lost.
void require_said(const ModelConfig& config);

}  // namespace folio::core
