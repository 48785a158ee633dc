#include "core/formats/said.h"

#include <cmath>

#include "core/error.h"

namespace folio::core {

void require_said(const ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  const auto require_only = [&](const char* name, float value, bool sayable, float only) {
    require(sayable || value == only, "{} is {}, but files of the family {} can only store {}", name, value,
            family.name, only);
  };
  const bool gemma = family.scales == Scales::Gemma, granite = family.scales == Scales::Granite;
  require_only("embedding_scale", c.embedding_scale, granite, gemma ? std::sqrt(static_cast<float>(c.dim)) : 1.0F);
  const bool yarn = c.latent() && c.rope_scaling.active() && c.rope_scaling.type == RopeScalingType::Yarn;
  require_only("attention_scale", c.attention_scale, gemma || granite || yarn, 0.0F);
  require_only("residual_scale", c.residual_scale, granite, 1.0F);
  require_only("logit_scale", c.logit_scale, granite, 1.0F);
  require_only("attention_cap", c.attention_cap, gemma, 0.0F);
  require_only("logit_cap", c.logit_cap, gemma, 0.0F);
  require_only("local_rope_theta", c.local_rope_theta, family.local_theta > 0.0F, 0.0F);
  require_only("rope_dims", static_cast<float>(c.rope_dims), family.rotary_factor != 1.0F, 0.0F);
}

}  // namespace folio::core
