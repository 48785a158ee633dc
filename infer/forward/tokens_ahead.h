// The module that predicts the token after the next (DeepSeek-V3, arXiv:2412.19437, section 2.2; core::Role
// MtpEmbeddingNorm to MtpOutputNorm), as a model of one layer. Row p combines the token at position p + 1 with the
// model's hidden state at position p, after its final norm. Its logits are for the token at position p + 2.
#pragma once

#include "core/weights.h"
#include "infer/forward/machine.h"

namespace folio::infer {

/// Returns the module as a model with n_layers 0 and n_tokens_ahead 1; layer 0 refers to the module's layer. It has the
/// embedding and output of `model`, which must outlive it, and MtpOutputNorm as its final norm. MtpProjection is split
/// into a stack (2, dim, dim), whose matrices get successive ids on a machine: for the embedding, then for the hidden
/// state. Throws core::Error if `model` has no module.
[[nodiscard]] core::StoredModel module_of(const core::StoredModel& model);

/// Issues the operations that combine each row's hidden state, in Residual, with the embedding of its token: Residual =
/// projection · [norm(embedding); norm(hidden state)], the input of the module's block.
void join_hidden(Stage& stage);

/// Issues the final norm of all rows, from Residual to Hidden, then drops the rows that need no logits. Returns false
/// if no rows are left.
bool keep_hidden(Stage& stage, size_t n_logit_rows);

}  // namespace folio::infer
