// Converts between RoPE's two conventions. Hugging Face rotates (i, i + head_dim/2) in every family. For Llama and
// Mistral, Folio, GGUF and llama2.c rotate adjacent pairs (2i, 2i+1): the rows of Wq and Wk are permuted within a head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::core {

/// `rows` is [n_heads * head_dim] rows of `row_bytes` with adjacent pairs; writes the same matrix in Hugging Face's
/// order. Row 2i + j of a head becomes row j * head_dim/2 + i. Throws Error if a span has another length.
void adjacent_to_split_halves(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads,
                              int64_t head_dim, int64_t row_bytes);

/// The inverse.
void split_halves_to_adjacent(std::span<const std::byte> rows, std::span<std::byte> out, int64_t n_heads,
                              int64_t head_dim, int64_t row_bytes);

}  // namespace folio::core
