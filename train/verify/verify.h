// Compares LibTorch with the engine: their weights, and each named intermediate of a forward pass over the same tokens.
// Token ids are those of the LibTorch reference; a model file may have other ids for the same tokens (llama2.c).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens.h"
#include "infer/engine/engine.h"
#include "modules/llama.h"

namespace folio::train {

/// Returns for each token of `reference` the id of the token in `other` with the same bytes; end-of-text tokens match
/// each other. Throws core::Error that names a token without a match.
[[nodiscard]] std::vector<int32_t> matching_ids(const data::Tokenizer& reference, const data::Tokenizer& other);

struct WeightDifference {
  std::string name;         ///< GGUF name, such as "blk.1.ffn_up.weight"
  int64_t row, column;      ///< a vector is one row
  double reference, found;  ///< value of LibTorch's model, rounded to the file's type; value in the file
};

/// Returns the first difference between the file's weights and the reference's, rounded to the file's type. int8
/// matrices (llama2.c version 2) may differ by max |w| / 127, the quantization step of the coarsest group. Throws
/// core::Error if shapes differ.
[[nodiscard]] std::optional<WeightDifference> first_difference(const core::Weights& reference,
                                                               const core::StoredModel& file);

/// The largest difference between LibTorch's and the engine's values of one intermediate.
struct Divergence {
  std::string name;       ///< such as "layers.0.attention_residual": see infer::Observer
  double relative_error;  ///< max |engine - libtorch| / root mean square of LibTorch's values
  int64_t position;       ///< position of the token with the largest difference
  int64_t index;          ///< index within that token's vector
  double libtorch, engine;
};

/// The engine, and the mapping from the reference's token ids to the engine's.
struct EngineSide {
  infer::Engine& engine;
  std::vector<int32_t> ids{};  ///< the engine's id for each reference id; empty: the ids are the same
};

/// Compares all intermediates of a forward pass over `tokens`, one sequence. Returns the largest difference of each, in
/// the order of the forward pass.
[[nodiscard]] std::vector<Divergence> compare_forward(nn::Llama& reference, const EngineSide& side,
                                                      std::span<const int32_t> tokens);

/// Returns LibTorch's greedy completion, computed without a KV cache: `n` tokens, or fewer if the context is full. The
/// ids in `never` are excluded.
[[nodiscard]] std::vector<int32_t> greedy_by_libtorch(nn::Llama& model, std::span<const int32_t> prompt, int64_t n,
                                                      std::span<const int32_t> never);

/// Returns the engine's mean loss, in nats per token, over the first `max_windows` consecutive windows of the split, or
/// over all if there are fewer. Windows are evaluated independently.
[[nodiscard]] double split_loss_by_engine(const EngineSide& side, data::TokenView split, int64_t window,
                                          int64_t max_windows);

}  // namespace folio::train
