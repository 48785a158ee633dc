// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1; the numbers are its equations). The KV cache
// has the latent c of a position and the part r of its key with RoPE, which all heads share; heads' keys and values are
// never computed. A head's score is q · W_k c = W_kᵀ q · c, so W_k is absorbed into the query: W_kᵀ q is multiplied by
// c, and the query's part with RoPE by r. The values W_v c are absorbed, too: W_v multiplies the sum of the latents.
#pragma once

#include "infer/forward/machine.h"

namespace folio::infer {

/// Issues the operations for Query, from the slot `in` or from a latent of its own (37 to 40), and for Latent (41, 43).
/// RotateAndStore follows.
void project_latent(Stage& stage, Slot in, int64_t layer);

/// Issues the operations for Heads (44 to 46): absorbs W_k into Query, attends to latents, multiplies them by W_v.
void attend_latents(Stage& stage, int64_t layer);

}  // namespace folio::infer
