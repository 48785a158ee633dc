#include "core/version.h"

namespace folio::core {

std::string_view version() { return FOLIO_VERSION; }

}  // namespace folio::core
