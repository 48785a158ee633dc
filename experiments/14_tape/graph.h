// The graph of a loss, drawn from its tape: a box for each entry with its operation, value and gradient, and a line
// from each entry to those that use it, once for each use.
#pragma once

#include <string>

#include "experiments/14_tape/tape.h"

namespace folio::tape {

/// One SVG document, inputs at the top, the loss at the bottom. A number is shown as it is; of a tensor, its shape and
/// the root of the summed squares of its gradient. Entries that the last one does not depend on are left out.
[[nodiscard]] std::string graph_svg(const Tape& tape, const std::string& title, const std::string& subtitle);

}  // namespace folio::tape
