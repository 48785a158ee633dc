// LibTorch against the engine: the weights that both have, the same tokens through both, compared at each named
// intermediate. Tokens are those of the reference; a file may have other ids for them (llama2.c has).
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

/// For each token of `reference`, the token of `other` that stands for the same bytes; the ends of text match.
/// Throws core::Error that names a token that has none.
[[nodiscard]] std::vector<int32_t> matching_ids(const data::Tokenizer& reference, const data::Tokenizer& other);

struct WeightDifference {
  std::string name;         ///< "blk.1.ffn_up.weight"
  int64_t row, column;      ///< a vector is one row
  double reference, found;  ///< `reference` as the file's type rounds it
};

/// The first number in which the file's weights differ from the reference's, as the file's type rounds them. For int8
/// groups (llama2.c version 2) a step of the coarsest group is allowed. Throws core::Error if the shapes differ.
[[nodiscard]] std::optional<WeightDifference> first_difference(const core::Weights& reference,
                                                               const core::StoredModel& file);

/// How far apart two tensors are at one place of the model.
struct Divergence {
  std::string name;         ///< "layers.0.attention_residual": see infer::Observer
  double relative_error;    ///< max |engine - libtorch| / root mean square of LibTorch's
  int64_t position;         ///< of the token where they are furthest apart
  int64_t index;            ///< within that token's vector
  double libtorch, engine;  ///< both values there
};

/// The engine, spoken to in the reference's tokens.
struct EngineSide {
  infer::Engine& engine;
  std::vector<int32_t> ids{};  ///< the engine's, by the reference's token; empty: the same
};

/// The intermediates of one sequence of tokens, in the order of the forward pass.
[[nodiscard]] std::vector<Divergence> compare_forward(nn::Llama& reference, const EngineSide& side,
                                                      std::span<const int32_t> tokens);

/// The greedy continuation by LibTorch, computed anew for each token: at most `n` tokens, never one of `never`.
[[nodiscard]] std::vector<int32_t> greedy_by_libtorch(nn::Llama& model, std::span<const int32_t> prompt, int64_t n,
                                                      std::span<const int32_t> never);

/// The mean loss over the split's consecutive windows, as split_loss(), by the engine.
[[nodiscard]] double split_loss_by_engine(const EngineSide& side, data::TokenView split, int64_t window,
                                          int64_t max_windows);

}  // namespace folio::train
