#include "core/isa.h"

namespace folio::core {

std::vector<Isa> supported_isas() { return {Isa::Reference}; }

}  // namespace folio::core
