#include "experiments/exercises/generate/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"

namespace folio::exercises {

using infer::BlockId;
using infer::kBlockPositions;
using infer::StepRow;

ExerciseStage::ExerciseStage(const Parts& parts, const core::StoredModel& model, infer::LayerRange layers)
    : parts_(parts),
      config_(model.config),
      info_{.layers = layers,
            .weights = infer::StageWeights(model, layers,
                                           [this](const core::TensorSpec&, const core::TensorView& tensor) {
                                             weights_.push_back(core::to_floats(tensor));
                                             return WeightId{static_cast<int32_t>(weights_.size() - 1)};
                                           }),
            .widths = infer::slot_widths(model.config),
            .load_report = {},
            .draws = true} {
  for (const auto& weight : weights_) info_.load_report.weight_bytes += weight.size() * sizeof(float);
}

infer::CacheFit ExerciseStage::cache_fit() const {
  const auto bytes = static_cast<size_t>((layers().last - layers().first) * 2 * kBlockPositions * config_.kv_dim()) * 4;
  const auto memory = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return {.block_bytes = bytes, .n_blocks = static_cast<int64_t>(memory / bytes)};
}

bool ExerciseStage::begin(const infer::Step& step) {
  const std::vector<int32_t>& last_drawn = drawn_[n_steps_ % 2];
  rows_.assign(step.rows.begin(), step.rows.end());
  // A negative token is drawn_token(i), -1 - i: the last step's i-th draw. A failed draw (negative) becomes token 0.
  for (StepRow& row : rows_) {
    if (row.token < 0) row.token = std::max(0, last_drawn[static_cast<size_t>(-1 - row.token)]);
  }
  tables_.assign(step.tables.begin(), step.tables.end());
  table_starts_.assign(step.table_starts.begin(), step.table_starts.end());
  draws_.assign(step.draws.begin(), step.draws.end());
  n_rows_ = rows_.size();
  ++n_steps_;
  for (size_t s = 0; s < infer::kSlots; ++s) slots_[s].resize(n_rows_ * info_.widths[s]);
  for (const BlockId block : step.tables) {
    cache_.resize(std::max(cache_.size(), static_cast<size_t>(block) + 1));
    cache_[static_cast<size_t>(block)].resize(cache_fit().block_bytes / 4);
  }
  for (const auto& copy : step.copies) cache_[static_cast<size_t>(copy.to)] = cache_[static_cast<size_t>(copy.from)];
  write(Slot::Residual, step.residual);
  return false;
}

void ExerciseStage::issue(const infer::Operation& operation) {
  std::visit([this](const auto& o) { run(o); }, operation);
}

void ExerciseStage::run(const infer::Embed& o) {
  const size_t dim = width(Slot::Residual);
  for (size_t i = 0; i < n_rows_; ++i) {
    std::copy_n(weight(o.table) + static_cast<size_t>(rows_[i].token) * dim, dim, at(Slot::Residual) + i * dim);
  }
}

void ExerciseStage::run(const infer::Norm& o) {
  parts_.rms_norm(at(Slot::Residual), weight(o.weight), config_.norm_eps, n_rows_, width(Slot::Residual),
                  at(Slot::Normed));
}

void ExerciseStage::run(const infer::Project& o) {
  for (const auto& p : o.projections()) {
    parts_.matmul(at(o.in), weight(p.weight), n_rows_, width(o.in), width(p.out), at(p.out));
  }
}

void ExerciseStage::run(const infer::ProjectToResidual& o) {
  const size_t dim = width(Slot::Residual);
  scratch_.resize(n_rows_ * dim);
  parts_.matmul(at(o.in), weight(o.weight), n_rows_, width(o.in), dim, scratch_.data());
  for (size_t i = 0; i < scratch_.size(); ++i) at(Slot::Residual)[i] += scratch_[i];
}

// Returns the cache block that contains `position` of the row's sequence.
BlockId ExerciseStage::block_of(const StepRow& row, int64_t position) const {
  const int64_t first = table_starts_[static_cast<size_t>(row.table)];
  return tables_[static_cast<size_t>(first + position / kBlockPositions)];
}

// Returns a pointer to a position's key, or its value if `value` is true, in a cache block: (n_kv_heads, head_dim).
float* ExerciseStage::cached(BlockId block, int64_t layer, bool value, int64_t position) {
  const int64_t part = 2 * (layer - layers().first) + (value ? 1 : 0);
  const int64_t row = part * kBlockPositions + position % kBlockPositions;
  return cache_[static_cast<size_t>(block)].data() + row * config_.kv_dim();
}

void ExerciseStage::run(const infer::RotateAndStore& o) {
  const auto head_dim = static_cast<size_t>(config_.head_dim);
  const size_t q_dim = width(Slot::Query);
  const size_t kv_dim = width(Slot::Key);
  for (size_t i = 0; i < n_rows_; ++i) {
    const int64_t position = rows_[i].position;
    float* key = at(Slot::Key) + i * kv_dim;
    const auto at_position = static_cast<size_t>(position);
    parts_.rope(at(Slot::Query) + i * q_dim, at_position, q_dim / head_dim, head_dim, config_.rope_theta);
    parts_.rope(key, at_position, kv_dim / head_dim, head_dim, config_.rope_theta);
    const BlockId block = block_of(rows_[i], position);
    std::copy_n(key, kv_dim, cached(block, o.layer, false, position));
    std::copy_n(at(Slot::Value) + i * kv_dim, kv_dim, cached(block, o.layer, true, position));
  }
}

// Computes attention for consecutive rows of a sequence together, on a contiguous copy of the sequence's keys and
// values.
void ExerciseStage::run(const infer::Attend& o) {
  const size_t kv_dim = width(Slot::Key);
  std::vector<float> keys;
  std::vector<float> values;
  for (size_t begin = 0, end = 0; begin < n_rows_; begin = end) {
    const auto is_next = [&](const StepRow& row) {
      return row.table == rows_[begin].table &&
             row.position == rows_[begin].position + static_cast<int64_t>(end - begin);
    };
    while (end < n_rows_ && is_next(rows_[end])) ++end;
    keys.clear();
    values.clear();
    for (int64_t position = 0; position <= rows_[end - 1].position; ++position) {
      const BlockId block = block_of(rows_[begin], position);
      const float* key = cached(block, o.layer, false, position);
      const float* value = cached(block, o.layer, true, position);
      keys.insert(keys.end(), key, key + kv_dim);
      values.insert(values.end(), value, value + kv_dim);
    }
    const AttentionShape shape{.n_queries = end - begin,
                               .n_positions = keys.size() / kv_dim,
                               .n_heads = static_cast<size_t>(config_.n_heads),
                               .n_kv_heads = static_cast<size_t>(config_.n_kv_heads),
                               .head_dim = static_cast<size_t>(config_.head_dim)};
    const size_t first = begin * width(Slot::Query);
    parts_.attention(at(Slot::Query) + first, keys.data(), values.data(), shape, at(Slot::Heads) + first);
  }
}

void ExerciseStage::run(const infer::Activate& /*o*/) {
  scratch_.resize(n_rows_ * width(Slot::Gate));
  parts_.swiglu(at(Slot::Gate), at(Slot::Up), scratch_.size(), scratch_.data());
  std::copy(scratch_.begin(), scratch_.end(), at(Slot::Gate));
}

void ExerciseStage::run(const infer::Gather& /*o*/) {
  n_rows_ = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].needs_logits) continue;
    for (const Slot slot : {Slot::Residual, Slot::Query}) {
      std::copy_n(at(slot) + i * width(slot), width(slot), at(slot) + n_rows_ * width(slot));
    }
    rows_[n_rows_++] = rows_[i];
  }
  rows_.resize(n_rows_);
}

void ExerciseStage::run(const infer::DrawTokens& /*o*/) {
  std::vector<int32_t>& drawn = drawn_[n_steps_ % 2];
  drawn.clear();
  for (const infer::Draw& d : draws_) {
    const float* logits = at(Slot::Logits) + d.row * width(Slot::Logits);
    scratch_.assign(logits, logits + width(Slot::Logits));
    if (parts_.sample == nullptr) {
      drawn.push_back(d.sampler->draw(scratch_, d.history, d.position));
      continue;
    }
    core::require(std::all_of(scratch_.begin(), scratch_.end(), [](float l) { return std::isfinite(l); }),
                  "the logits at position {} are not finite; check your functions with make exercise", d.position);
    for (const int32_t id : d.sampler->never()) {
      scratch_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
    const infer::SamplerOptions& o = d.sampler->options();
    const int32_t token = parts_.sample(
        scratch_,
        {.temperature = o.temperature, .top_k = static_cast<size_t>(o.top_k), .top_p = o.top_p, .min_p = o.min_p},
        core::random_uniform(o.seed, static_cast<uint64_t>(d.position)));
    core::require(token >= 0 && token < config_.vocab_size, "your sampler drew {}, but there are only {} tokens", token,
                  config_.vocab_size);
    drawn.push_back(token);
  }
}

void ExerciseStage::read(Slot slot, std::span<float> values) { std::copy_n(at(slot), values.size(), values.begin()); }

void ExerciseStage::write(Slot slot, std::span<const float> values) {
  std::copy(values.begin(), values.end(), at(slot));
}

std::unique_ptr<infer::Stage> ExerciseMachine::load(const core::StoredModel& model, const infer::Shard& shard,
                                                    infer::CacheType /*cache_type*/) {
  const core::ModelConfig& c = model.config;
  const core::FamilyInfo& family = core::info(c.family);
  const bool plain_parts = family.pairs == core::RopePairs::Adjacent && !family.qkv_bias && !family.output_bias &&
                           !family.sinks && family.qk_norm == core::QkNorm::None && family.pre_norms &&
                           !family.post_norms && family.gate == core::Gate::Silu;
  const bool plain_numbers = c.n_experts == 0 && c.sliding_window == 0 && !c.rope_scaling.active() &&
                             c.rotated() == c.head_dim && c.local_rope_theta == 0.0F && c.attention_cap == 0.0F &&
                             c.logit_cap == 0.0F && c.embedding_scale == 1.0F && c.residual_scale == 1.0F &&
                             c.logit_scale == 1.0F && c.attention_scale == 0.0F;
  core::require(plain_parts && plain_numbers,
                "{}: the exercises run plain Llamas, without a sliding window, scaled rotations or other families' "
                "parts; take the model of make demo",
                model.path);
  infer::require_whole(shard, "the exercises' machine");
  return std::make_unique<ExerciseStage>(parts_, model, shard.layers);
}

}  // namespace folio::exercises
