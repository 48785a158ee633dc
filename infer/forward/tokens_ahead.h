// The module that predicts the token after the next (DeepSeek-V3, arXiv:2412.19437, section 2.2; core::Role
// MtpEmbeddingNorm to MtpOutputNorm), as a model of one layer. Row p has the token after the model's position p and the
// model's hidden state of p, after its final norm; its logits are for the token after the row's.
#pragma once

#include "core/weights.h"
#include "infer/forward/machine.h"

namespace folio::infer {

/// Returns the module as a model without layers (n_layers is 0, n_tokens_ahead 1), whose layer 0 is the module's. It
/// has the embedding and output of `model`, which must outlive it, and MtpOutputNorm as final norm. MtpProjection is a
/// stack of two matrices, (2, dim, dim), with successive ids on a machine: for the embedding and for the hidden state.
/// Throws core::Error if `model` has no module.
[[nodiscard]] core::StoredModel module_of(const core::StoredModel& model);

/// Issues the operations for Residual, the input of the module's block, from the rows' tokens and their hidden states
/// in Residual: Residual = projection · [norm(embedding); norm(hidden state)], as the sum of both halves.
void join_hidden(Stage& stage);

/// Issues the operation for Hidden, the hidden states of all rows after the final norm; then drops the rows that need
/// no logits. Returns false if no row needs any.
bool keep_hidden(Stage& stage, size_t n_logit_rows);

}  // namespace folio::infer
