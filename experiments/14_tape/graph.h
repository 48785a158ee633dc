// Draws the graph of a loss from its tape: a box for each entry with its operation, value and gradient, and lines to
// the entries that use it.
#pragma once

#include <string>

#include "experiments/14_tape/tape.h"

namespace folio::tape {

/// Returns an SVG document with the inputs at the top and the loss at the bottom. Scalars show value and gradient;
/// tensors show their shape and the norm of their gradient. Entries that the last one doesn't depend on are omitted.
[[nodiscard]] std::string graph_svg(const Tape& tape, const std::string& title, const std::string& subtitle);

}  // namespace folio::tape
