// Rounds through memory that processes of one host share.
#pragma once

#include <cstdint>

#include "core/shared_memory.h"
#include "infer/ranks/rounds.h"

namespace folio::infer {

/// Bytes that the rounds of so many members take.
[[nodiscard]] size_t shared_rounds_bytes(size_t n_members);
/// `index` is this member's. The memory is zero at first.
[[nodiscard]] std::unique_ptr<Rounds> make_shared_rounds(Peers& peers, core::SharedMemory memory,
                                                         std::vector<size_t> group, size_t index);

}  // namespace folio::infer
