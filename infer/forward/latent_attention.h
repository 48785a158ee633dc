// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1; equation numbers of appendix C). For each
// position, the KV cache has the latent c and the RoPE part r of the key, which all heads share; the keys and values of
// single heads are never computed. A head's score is q · W_k c = W_kᵀ q · c, so W_k is absorbed into the query: W_kᵀ q
// is multiplied by c, and the RoPE part of the query by r. W_v is absorbed, too: it multiplies the weighted sum of the
// latents.
#pragma once

#include "infer/forward/machine.h"

namespace folio::infer {

/// Issues the projections of slot `in` to Query (DeepSeek-V2, equations 37 to 40; through QueryLatent if the model has
/// WqA) and to Latent (equations 41 and 43). The caller must issue RotateAndStore next.
void project_latent(Stage& stage, Slot in, int64_t layer);

/// Issues the operations that compute Heads (DeepSeek-V2, equations 44 to 46): multiply Query by W_k, attend to the
/// latents, multiply by W_v.
void attend_latents(Stage& stage, int64_t layer);

}  // namespace folio::infer
