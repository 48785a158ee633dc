#include "infer/cpu/cpu_stage.h"

#include <algorithm>

#include "core/memory_nodes.h"
#include "core/rope_scaling.h"

namespace folio::infer {
namespace {

// Maximum number of rows per call of the attention kernel. More would leave threads without work. See find_runs().
constexpr int64_t kRowsTogether = 8;
static_assert(kBlockPositions % kRowsTogether == 0);

// Maximum number of heads per call in latent attention, where all heads attend to the same latents.
constexpr size_t kHeadsTogether = 16;

}  // namespace

CpuStage::CpuStage(Cpu& cpu, const core::StoredModel& model, const Shard& shard, CacheType cache_type)
    : pool_(cpu.pool()),
      kernels_(cpu.kernels()),
      config_(model.config),
      shard_(shard),
      kv_heads_(share_of(static_cast<size_t>(config_.n_kv_heads), shard.rank, shard.n_ranks)),
      weights_(model, shard, cpu.pool(), {.fast = cpu.fast(), .copies = cpu.copies_weights()}),
      info_{.layers = shard.layers,
            .weights = weights_.by_role(),
            .widths = slot_widths(config_),
            .load_report = weights_.report()},
      cache_(cache_of<float>()) {
  if (cache_type == CacheType::F16) {
    const int64_t key_dim = config_.latent() ? config_.latent_dim() : config_.head_dim;
    if (cpu.fast() && kernels_.attention_bf16 != nullptr && key_dim % 2 == 0) {
      cache_.emplace<Cache<kernels::BF16Pair>>(cache_of<kernels::BF16Pair>());
    } else {
      cache_.emplace<Cache<kernels::F16>>(cache_of<kernels::F16>());
    }
  }
  if (cache_type == CacheType::Q8_0) cache_.emplace<Cache<kernels::Q8>>(cache_of<kernels::Q8>());
}

template <typename T>
CpuStage::Cache<T> CpuStage::cache_of() const {
  const int64_t n_layers = shard_.layers.last - shard_.layers.first;
  if (config_.latent()) return {{1, config_.latent_dim(), n_layers, kernels_, false}, {}};  // each rank has all latents
  return {{kv_heads_.last - kv_heads_.first, config_.head_dim, n_layers, kernels_}, {}};
}

CacheFit CpuStage::cache_fit() const {
  const size_t block_bytes =
      std::visit([](const auto& cache) { return cache.blocks.size() * sizeof(*cache.starts.front()); }, cache_);
  const size_t memory = core::machine_memory();
  const size_t left = memory - std::min(memory, static_cast<size_t>(weights_.report().weight_bytes));
  return {.block_bytes = block_bytes, .n_blocks = static_cast<int64_t>(left / std::max<size_t>(1, block_bytes))};
}

bool CpuStage::begin(const Step& step) {
  rows_.assign(step.rows.begin(), step.rows.end());
  tables_.assign(step.tables.begin(), step.tables.end());
  table_starts_.assign(step.table_starts.begin(), step.table_starts.end());
  const auto has_adapter = [](const StepRow& row) { return row.adapter != kNoAdapter; };
  needs_floats_ = step.observed || std::ranges::any_of(rows_, has_adapter);
  group_rows();
  for (size_t s = 0; s < kSlots; ++s) {
    const bool logits = static_cast<Slot>(s) == Slot::Logits;
    slots_[s].resize((logits ? step.n_logit_rows : n_rows_) * info_.widths[s]);
  }
  if (shard_.exchange != nullptr) {
    std::array<float*, kSlots> slots{};
    std::ranges::transform(slots_, slots.begin(), [](auto& slot) { return slot.data(); });
    shard_.exchange->begin(slots, info_.widths);
  }
  int64_t last = 0;
  for (const StepRow& row : rows_) last = std::max(last, row.position);
  rope_.extend(config_, static_cast<size_t>(last) + 1, core::rope_frequencies(config_), core::rope_magnitude(config_));
  if (config_.local_rope_theta > 0.0F) {
    local_rope_.extend(config_, static_cast<size_t>(last) + 1, core::local_rope_frequencies(config_), 1.0F);
  }
  std::visit(
      [&](auto& cache) {
        for (const BlockCopy& copy : step.copies) cache.blocks.copy(copy.from, copy.to);
        cache.starts.clear();
        for (const BlockId block : step.tables) cache.starts.push_back(cache.blocks.use(block));
      },
      cache_);
  write(Slot::Residual, step.residual);
  return false;
}

void CpuStage::issue(const Operation& operation) {
  std::visit([this](const auto& o) { run(o); }, operation);
}

// Splits the step's rows into runs, which the attention kernel processes together, and groups the rows by adapter.
void CpuStage::group_rows() {
  n_rows_ = rows_.size();
  runs_ = find_runs(config_.context_length);
  if (config_.sliding_window > 0) window_runs_ = find_runs(config_.sliding_window);
  adapters_.begin(rows_);
}

// Returns the first row of each run, then n_rows_. A run is up to kRowsTogether consecutive positions of a sequence
// that attend to the same KV blocks.
std::vector<size_t> CpuStage::find_runs(int64_t window) const {
  const auto first_block = [&](const StepRow& row) {
    return first_seen(row.position, window) / static_cast<int64_t>(kBlockPositions);
  };
  std::vector<size_t> runs;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const bool continues = i > 0 && rows_[i].table == rows_[i - 1].table &&
                           rows_[i].position == rows_[i - 1].position + 1 && rows_[i].position % kRowsTogether != 0 &&
                           first_block(rows_[i]) == first_block(rows_[i - 1]);
    if (!continues) runs.push_back(i);
  }
  runs.push_back(rows_.size());
  return runs;
}

// Each rank has the embeddings of a part of the vocabulary, and sends those of the step's tokens to the other ranks.
void CpuStage::run(const Embed& o) {
  const size_t dim = width(Slot::Residual);
  const Matrix& rows = weights_.matrix(o.table);
  // Unsigned, so the index of a token before this rank's part wraps to a large value.
  const auto index = [&](size_t i) { return static_cast<size_t>(rows_[i].token) - rows.first; };
  for_rows(dim * 8, [&](size_t i) {
    if (index(i) >= rows.n_out) return;
    float* x = at(o.out) + i * dim;
    rows.row(index(i), {x, dim});
    if (config_.embedding_scale != 1.0F)
      std::transform(x, x + dim, x, [&](float v) { return v * config_.embedding_scale; });
  });
  if (shard_.exchange == nullptr) return;
  for (size_t i = 0; i < n_rows_; ++i) {
    if (index(i) >= rows.n_out) continue;
    shard_.exchange->queue({.slot = o.out, .first_row = i, .n_rows = 1, .first = 0, .last = dim});
  }
  shard_.exchange->all_gather();
}

// Sends this rank's columns of the slots to the other ranks and receives their columns.
void CpuStage::exchange(std::initializer_list<Slot> slots, bool in_eight_bits) {
  if (shard_.exchange == nullptr) return;
  for (const Slot slot : slots) {
    Share own = columns_of(slot);
    if (slot == Slot::Heads) {
      const size_t each = width(Slot::Heads) / static_cast<size_t>(config_.n_kv_heads);
      own = {kv_heads_.first * each, kv_heads_.last * each};
    }
    if (own.first == own.last) continue;
    shard_.exchange->queue({.slot = slot,
                            .in_eight_bits = in_eight_bits,
                            .first_row = 0,
                            .n_rows = n_rows_,
                            .first = own.first,
                            .last = own.last});
  }
  shard_.exchange->all_gather();
}

bool CpuStage::rounds_input(core::Role role) const {
  return shard_.exchange != nullptr && !needs_floats_ && weights_.matrix(weights()(role, layer_)).in_groups();
}

void CpuStage::run(const Norm& o) {
  norm_vectors(at(o.in), o.weight, config_.norm_eps, n_rows_, width(o.in), at(o.out));
}

void CpuStage::run(const NormHeads& o) {
  const size_t dim = weights_.matrix(o.weight).k;  // size of one head, or of all heads if they are normed as one vector
  if (o.slot == Slot::Latent) {
    return for_rows(dim, [&](size_t i) {
      float* x = at(Slot::Latent) + i * width(Slot::Latent);
      kernels_.rms_norm(x, weights_.vector(o.weight), core::kLatentNormEps, dim, x);
    });
  }
  const float eps = o.slot == Slot::QueryLatent ? core::kLatentNormEps : config_.norm_eps;
  norm_vectors(at(o.slot), o.weight, eps, n_rows_ * width(o.slot) / dim, dim, at(o.slot));
}

void CpuStage::norm_vectors(const float* x, WeightId weight, float eps, size_t n_vectors, size_t dim, float* out) {
  const float* w = weights_.vector(weight);
  pool_.parallel_for(n_vectors, 1, n_vectors * dim / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) kernels_.rms_norm(x + i * dim, w, eps, dim, out + i * dim);
  });
}

// Ranks don't exchange Gate and Up, because Activate reads only this rank's columns.
void CpuStage::run(const Project& o) {
  multiply(o.in, o.projections(), false);
  const Slot first = o.projections().front().out;
  if (first == Slot::QueryLatent) exchange({Slot::QueryLatent});
  if (first == Slot::Query) exchange({Slot::Query, Slot::Key, Slot::Value, Slot::Latent});
  if (first == Slot::Logits || first == Slot::Residual) exchange({first});
}

void CpuStage::run(const ProjectToResidual& o) {
  const bool at_once = !o.post_norm.exists() && config_.residual_scale == 1.0F;
  const Slot out = at_once ? Slot::Residual : Slot::Branch;
  const std::array projections{Projection{o.weight, o.bias, out}};
  multiply(o.in, projections, at_once);
  exchange({out});
  if (at_once) return;
  const size_t dim = width(Slot::Residual);
  if (o.post_norm.exists()) {
    norm_vectors(at(Slot::Branch), o.post_norm, config_.norm_eps, n_rows_, dim, at(Slot::Branch));
  }
  const float* branch = at(Slot::Branch);
  float* residual = at(Slot::Residual);
  const float scale = config_.residual_scale;
  pool_.parallel_for(n_rows_ * dim, kernels::kLanes, n_rows_ * dim / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) residual[i] += scale * branch[i];
  });
}

void CpuStage::run(const FinishLogits& /*o*/) {
  const float scale = config_.logit_scale;
  const float cap = config_.logit_cap;
  if (scale == 1.0F && cap == 0.0F) return;
  float* logits = at(Slot::Logits);
  const size_t n = n_rows_ * width(Slot::Logits);
  pool_.parallel_for(n, kernels::kLanes, n * 8 / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && scale != 1.0F; ++i) logits[i] *= scale;
    if (cap > 0.0F) kernels_.soft_cap(logits + begin, end - begin, cap);
  });
}

// Computes all projections of an input. Their outputs are divided among the threads as if the matrices were
// concatenated, each padded to a multiple of kLanes rows.
void CpuStage::multiply(Slot input, std::span<const Projection> projections, bool accumulate) {
  const size_t k = width(input);
  const float* x = at(input);
  size_t n_out = 0;
  ProductInputs::Formats formats;
  for (const Projection& p : projections) {
    const Matrix& weight = weights_.matrix(p.weight);
    n_out += in_lanes(weight.n_out);
    formats.add(weight);
  }
  const bool packs = formats.floats && kernels_.pack != nullptr && n_rows_ >= kernels::kManyInputs;
  if (packs) packed_.begin(x, n_rows_, k);
  const Segment all{0, n_rows_};
  inputs_.take(std::span(&all, 1), k, formats, x);
  adapters_.project(pool_, kernels_, projections, x, k);
  // For one input, matmul_halves reads each range of rows as two streams, so the minimum range is twice as long.
  const size_t grain = formats.panels                   ? kernels_.fast_rows
                       : formats.floats && n_rows_ == 1 ? 2 * kernels::kLanes
                                                        : kernels::kLanes;
  pool_.parallel_for(n_out, grain, n_rows_ * n_out * k / kWorthAThread, [&](size_t begin, size_t end) {
    InputsView in = inputs_.of(all);
    if (packs) in.packed = packed_.of_thread();
    size_t first = 0;
    for (const Projection& p : projections) {
      const Matrix& weight = weights_.matrix(p.weight);
      const size_t from = std::max(begin, first);
      const size_t to = std::min(end, first + weight.n_out);
      if (from < to) {
        const float* bias = p.bias.exists() ? weights_.vector(p.bias) + weight.first : nullptr;
        float* out = at(p.out) + weight.first;
        const size_t stride = width(p.out);
        for (size_t row = 0; bias != nullptr && row < n_rows_; ++row) {
          float* y = out + row * stride;
          for (size_t i = from - first; i < to - first; ++i) y[i] = accumulate ? y[i] + bias[i] : bias[i];
        }
        weight.multiply(kernels_, in, from - first, to - first, out, stride, accumulate || bias != nullptr);
        adapters_.add(kernels_, p.weight, from - first, to - first, out, stride);
      }
      first += in_lanes(weight.n_out);
    }
  });
}

void CpuStage::run(const RotateAndStore& o) {
  const bool latent = config_.latent();
  const auto head_dim = static_cast<size_t>(config_.head_dim);
  const size_t dim = width(Slot::Query);
  const Slot keys = latent ? Slot::Latent : Slot::Key;
  const size_t kv_dim = width(keys);
  const size_t key_dim = latent ? kv_dim : head_dim;
  const core::RopePairs pairs = core::info(config_.family).pairs;
  const auto of_stage = static_cast<size_t>(o.layer - layers().first);
  const size_t first = latent ? 0 : kv_heads_.first * head_dim;
  const RopeTable& table = config_.local_rope_theta > 0.0F && config_.has_window(o.layer) ? local_rope_ : rope_;
  const auto rotated = static_cast<size_t>(config_.rotated());
  const auto rotate = [&](float* x, size_t size, size_t of_head, size_t position) {
    const float* cos = table.cos(position);
    const float* sin = table.sin(position);
    if (rotated == of_head) return kernels_.rope(x, cos, sin, size / of_head, of_head, pairs);
    const size_t begin = latent ? of_head - rotated : 0;
    for (size_t at = begin; at < size; at += of_head) kernels_.rope(x + at, cos, sin, 1, rotated, pairs);
  };
  for_rows(8 * dim, [&](size_t i) {
    const StepRow& row = rows_[i];
    const auto position = static_cast<size_t>(row.position);
    float* key = at(keys) + i * kv_dim;
    const float* value = latent ? key : at(Slot::Value) + i * kv_dim;
    rotate(at(Slot::Query) + i * dim, dim, head_dim, position);
    rotate(key, kv_dim, key_dim, position);
    const auto block =
        static_cast<size_t>(table_starts_[static_cast<size_t>(row.table)]) + position / kernels::kBlockPositions;
    std::visit(
        [&](auto& cache) {
          cache.blocks.store(tables_[block], of_stage, position % kernels::kBlockPositions, key + first, value + first);
        },
        cache_);
  });
}

void CpuStage::run(const Attend& o) {
  layer_ = o.layer;
  const bool windowed = config_.has_window(o.layer);
  std::visit(
      [&](const auto& cache) {
        attend(cache, static_cast<size_t>(o.layer - layers().first), positions_seen(config_, o.layer),
               windowed ? window_runs_ : runs_, vector_or_null(o.sinks));
      },
      cache_);
  if (!config_.latent()) exchange({Slot::Heads}, rounds_input(core::Role::Wo));
}

template <typename T>
void CpuStage::attend(const Cache<T>& cache, size_t layer, int64_t window, std::span<const size_t> runs,
                      const float* sinks) {
  const bool latent = config_.latent();
  const float* queries = at(latent ? Slot::Absorbed : Slot::Query);
  float* out = at(latent ? Slot::Attended : Slot::Heads);
  const size_t dim = width(latent ? Slot::Absorbed : Slot::Query);
  const size_t head_dim = dim / static_cast<size_t>(config_.n_heads);
  const size_t per_kv_head = dim / head_dim / static_cast<size_t>(config_.n_kv_heads);
  const Share heads{kv_heads_.first * per_kv_head, kv_heads_.last * per_kv_head};  // query heads of this rank
  const size_t n_heads = heads.last - heads.first;
  // Query heads per work item: all that share a key/value head; in latent attention, up to kHeadsTogether heads.
  const size_t of_thread = (n_heads + pool_.size() - 1) / pool_.size();
  const size_t group = latent ? std::clamp<size_t>(of_thread, 1, kHeadsTogether) : per_kv_head;
  size_t work = 0;
  for (const StepRow& row : rows_) {
    work += static_cast<size_t>(row.position + 1 - first_seen(row.position, window)) * 2 * dim;
  }
  const size_t n_runs = runs.size() - 1;
  // Items are ordered by head, so that a head's keys and values stay in the processor's cache.
  const auto attend_run = [&](size_t item) {
    const size_t kv_head = latent ? 0 : item / n_runs;
    const size_t head = heads.first + item / n_runs * group;
    const size_t begin = runs[item % n_runs];
    const StepRow& row = rows_[begin];
    const size_t first = begin * dim + head * head_dim;
    const kernels::AttentionInput<T> in{.query = queries + first,
                                        .blocks = cache.starts.data() + table_starts_[static_cast<size_t>(row.table)],
                                        .key_offset = cache.blocks.key_offset(layer, kv_head),
                                        .value_offset = cache.blocks.value_offset(layer, kv_head),
                                        .n_positions = static_cast<size_t>(row.position + 1),
                                        .window = static_cast<size_t>(window),
                                        .n_rows = runs[item % n_runs + 1] - begin,
                                        .row_stride = dim,
                                        .n_queries = std::min(group, heads.last - head),
                                        .head_dim = head_dim,
                                        .latent_rank = static_cast<size_t>(config_.kv_lora_rank),
                                        .scale = config_.score_scale(),
                                        .cap = config_.attention_cap,
                                        .sinks = sinks == nullptr ? nullptr : sinks + head};
    if constexpr (std::is_same_v<T, kernels::BF16Pair>) {
      kernels_.attention_bf16(in, out + first);
    } else {
      kernels_.attention(in, out + first);
    }
  };
  pool_.parallel_for((n_heads + group - 1) / group * n_runs, 1, work / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t item = begin; item < end; ++item) attend_run(item);
  });
}

void CpuStage::run(const Activate& o) {
  const bool of_experts = o.gate == Slot::ExpertGate;  // if true, slots have a row per (token, expert) pair
  const size_t n_rows = of_experts ? experts_.assignments().size() : n_rows_;
  const size_t stride = of_experts ? static_cast<size_t>(config_.expert_dim) : width(o.gate);
  const Share own = rows_of_rank(stride, shard_.rank, shard_.n_ranks);
  const size_t n = own.last - own.first;
  const core::Gate kind = core::info(config_.family).gate;
  const auto gated = kind == core::Gate::Silu   ? kernels_.swiglu
                     : kind == core::Gate::Gelu ? kernels_.geglu
                                                : kernels_.clamped_swiglu;
  const auto activate = [&](size_t at_first, size_t count) {
    float* gate = at(o.gate) + at_first;
    const float* up = at(o.up) + at_first;
    pool_.parallel_for(count, kernels::kLanes, count * 16 / kWorthAThread,
                       [&](size_t begin, size_t end) { gated(gate + begin, up + begin, end - begin, gate + begin); });
  };
  if (n == stride) {
    activate(0, n_rows * n);
  } else {
    for (size_t row = 0; row < n_rows; ++row) activate(row * stride + own.first, n);
  }
  if (of_experts) return exchange_assignments(o.gate, rounds_input(core::Role::ExpertW2));
  exchange({o.gate}, o.gate == Slot::Gate && rounds_input(core::Role::W2));
}

void CpuStage::run(const Gather& /*o*/) {
  size_t n_kept = 0;
  for (size_t i = 0; i < n_rows_; ++i) {
    if (!rows_[i].needs_logits) continue;
    for (const Slot slot : {Slot::Residual, Slot::Query}) {
      if (i != n_kept) std::copy_n(at(slot) + i * width(slot), width(slot), at(slot) + n_kept * width(slot));
    }
    rows_[n_kept++] = rows_[i];
  }
  if (n_kept == n_rows_) return;
  rows_.resize(n_kept);
  group_rows();
}

std::span<float> CpuStage::wait(Ticket /*ticket*/) { return slots_[static_cast<size_t>(Slot::Logits)]; }

void CpuStage::read(Slot slot, std::span<float> values) { std::copy_n(at(slot), values.size(), values.begin()); }

void CpuStage::write(Slot slot, std::span<const float> values) { std::copy(values.begin(), values.end(), at(slot)); }

}  // namespace folio::infer
