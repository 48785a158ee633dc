// Reorders the rows of Wq and Wk for RoPE, between rotated halves (i, i + head_dim/2), as in the Hugging Face files of
// Llama and other families, and adjacent pairs (2i, 2i+1), as in Folio, GGUF and llama2.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/families.h"

namespace folio::core {

/// Copies rows of `row_bytes` bytes to `out` in the order `to`; `rows` has the other order. Row 2i + j of a head in the
/// order of adjacent pairs (j is 0 or 1) is row j * head_dim/2 + i in that of halves. Throws Error if the spans differ
/// in length or are not whole heads.
void reorder_rows(RopePairs to, std::span<const std::byte> rows, std::span<std::byte> out, int64_t head_dim,
                  int64_t row_bytes);

/// Returns rows of `width` floats in the order `to`: see reorder_rows().
[[nodiscard]] std::vector<float> reordered_rows(RopePairs to, const std::vector<float>& rows, int64_t head_dim,
                                                size_t width);

}  // namespace folio::core
