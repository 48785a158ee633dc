// Reorders the rows of Wq and Wk for RoPE, between rotated halves (i, i + head_dim/2), as in the Hugging Face files of
// Llama and other families, and adjacent pairs (2i, 2i+1), as in Folio, GGUF and llama2.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::core {

/// Copies rows from the order of adjacent pairs to Hugging Face's, that of rotated halves: row 2i + j of a head (j is 0
/// or 1) becomes row j * head_dim/2 + i. `rows` and `out` have n_heads * head_dim rows of `row_bytes` bytes. Throws
/// Error if a span has another length.
void adjacent_to_split_halves(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads,
                              int64_t head_dim, int64_t row_bytes);

/// Copies rows from Hugging Face's order to the order of adjacent pairs: the inverse of adjacent_to_split_halves().
void split_halves_to_adjacent(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads,
                              int64_t head_dim, int64_t row_bytes);

}  // namespace folio::core
