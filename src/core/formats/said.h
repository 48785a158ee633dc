// What files of a family can say of a configuration.
#pragma once

#include "core/model_config.h"

namespace folio::core {

/// Throws Error that names a number which is not the family's, and which no file of it says: it would be read as
/// another.
void require_said(const ModelConfig& config);

}  // namespace folio::core
