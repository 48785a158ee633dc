#include "core/isa.h"

namespace folio::core {

std::vector<Isa> supported_isas() { return {Isa::Reference}; }

bool prefetches_streams() { return false; }

}  // namespace folio::core
