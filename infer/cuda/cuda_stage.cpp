// A stage on a GPU, in one file because each operation is short and all of them share the step's memory.
#include "infer/cuda/cuda_stage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/rope_scaling.h"

namespace folio::infer {
namespace {

using gpu::Kind;

constexpr size_t kRecordedRows = 64;             // maximum rows of a recorded step; larger steps hide launch overhead
constexpr size_t kMostRecordings = 64;           // maximum number of recordings; the next one discards all
constexpr size_t kReserve = size_t{256} << 20U;  // bytes that cache_fit() leaves to CUDA's kernels and recordings

}  // namespace

size_t CudaStage::packed_bytes(size_t n_rows, size_t k, Kind kind) {
  return gpu::PackedInputs{.n_rows = static_cast<uint32_t>(n_rows), .k = static_cast<uint32_t>(k), .kind = kind}
      .bytes();
}

CudaStage::CudaStage(const CudaOptions& options, const gpu::DeviceInfo& device, const core::StoredModel& model,
                     LayerRange layers, CacheType cache_type)
    : options_(options),
      device_(device),
      stream_(options.device),
      config_(model.config),
      widest_window_(0),
      weights_([&] {
        core::ThreadPool pool;
        return CudaWeights(model, layers, stream_, pool, gpu::device_info(options.device).free_bytes,
                           options.on_progress);
      }()),
      info_{.layers = layers,
            .weights = weights_.by_role(),
            .widths = slot_widths(config_),
            .load_report = weights_.report(),
            .max_rows = options.max_rows,
            .draws =
                layers.last == all_layers(config_).last && static_cast<size_t>(config_.vocab_size) <= gpu::kMostTokens},
      heads_{.n_heads = static_cast<uint32_t>(config_.n_heads),
             .n_kv_heads = static_cast<uint32_t>(config_.latent() ? 1 : config_.n_kv_heads),
             .head_dim = static_cast<uint32_t>(config_.latent() ? config_.latent_dim() : config_.head_dim)},
      activation_(static_cast<gpu::Activation>(core::info(config_.family).gate)),
      any_kind_(weights_.matrix(weights_.by_role()(core::Role::Wo, layers.first)).kind),
      cache_{.n_layers = static_cast<uint32_t>(layers.last - layers.first),
             .n_kv_heads = heads_.n_kv_heads,
             .head_dim = heads_.head_dim,
             .half = cache_type == CacheType::F16,
             .latent_rank = static_cast<uint32_t>(config_.kv_lora_rank)} {
  experts_.routing = kernels::routing_of(config_);
  for (int64_t l = layers.first; l < layers.last; ++l) {
    widest_window_ = std::max(widest_window_, positions_seen(config_, l));
  }
}

CudaStage::~CudaStage() {
  try {
    stream_.wait();
  } catch (const core::Error&) {  // the GPU has failed: nothing is in flight
  }
}

// Returns how many KV blocks fit in options_.cache_bytes or, without that option, in the free memory minus the
// workspace of the largest step.
CacheFit CudaStage::cache_fit() const {
  const size_t block_bytes = cache_.block_bytes();
  if (options_.cache_bytes) {
    return {.block_bytes = block_bytes, .n_blocks = static_cast<int64_t>(*options_.cache_bytes / block_bytes)};
  }
  const size_t logit_rows = std::min(options_.max_logit_rows, options_.max_rows);
  size_t workspace = kReserve + kMostPartials + bytes_for_experts(options_.max_rows);
  if (info_.draws) workspace += std::bit_ceil(gpu::draw_workspace_bytes(logit_rows));
  for (size_t s = 0; s < kSlots; ++s) {
    const size_t rows = static_cast<Slot>(s) == Slot::Logits ? logit_rows : options_.max_rows;
    workspace += 2 * rows * info_.widths[s] * sizeof(float);  // each slot as floats and in packed form
  }
  const int64_t n_tables = config_.local_rope_theta > 0.0F ? 2 : 1;  // of RoPE angles, which each position has too
  const auto angles = static_cast<size_t>(n_tables * kBlockPositions * config_.rotated()) * sizeof(float);
  const uint64_t free = gpu::device_info(options_.device).free_bytes;
  const uint64_t left = free - std::min<uint64_t>(free, workspace);
  return {.block_bytes = block_bytes, .n_blocks = static_cast<int64_t>(left / (block_bytes + angles))};
}

void CudaStage::reserve_cache(int64_t n_blocks) {
  cache_memory_ = gpu::DeviceMemory(stream_, static_cast<size_t>(n_blocks) * cache_.block_bytes());
  stream_.fill(cache_memory_.as<void>(), 0, cache_memory_.bytes());
  cache_.data = cache_memory_.as<uint8_t>();

  n_angles_ = static_cast<size_t>(std::min(config_.context_length, n_blocks * kBlockPositions));
  angles_ = angles_of(core::rope_frequencies(config_), core::rope_magnitude(config_));
  if (config_.local_rope_theta > 0.0F) local_angles_ = angles_of(core::local_rope_frequencies(config_), 1.0F);
}

gpu::DeviceMemory CudaStage::angles_of(const std::vector<double>& frequencies, float magnitude) {
  const size_t pairs = frequencies.size();
  std::vector<float> angles(2 * n_angles_ * pairs);
  for (size_t position = 0; position < n_angles_; ++position) {
    for (size_t pair = 0; pair < pairs; ++pair) {
      const double angle = static_cast<double>(position) * frequencies[pair];
      angles[position * pairs + pair] = static_cast<float>(magnitude * std::cos(angle));
      angles[(n_angles_ + position) * pairs + pair] = static_cast<float>(magnitude * std::sin(angle));
    }
  }
  gpu::DeviceMemory memory(stream_, angles.size() * sizeof(float));
  stream_.copy_in(memory.as<float>(), angles.data(), memory.bytes());
  stream_.wait();
  return memory;
}

float* CudaStage::at(Slot slot) const {
  if (slot == Slot::Residual && gathered_rows_) return gathered_.as<float>();
  if (slot == attended() && gathered_rows_) slot = queries();
  return slots_[static_cast<size_t>(slot)].as<float>();
}

void CudaStage::load_adapter(int32_t number, const core::Adapter& adapter) {
  forget_recordings();
  adapters_.load(stream_, number, adapter, weights_.by_role(), layers());
}

void CudaStage::unload_adapter(int32_t number) {
  forget_recordings();
  adapters_.unload(stream_, number);
}

void CudaStage::forget_recordings() {
  stream_.use();
  stream_.wait();  // a recorded step may be in flight
  recordings_.clear();
}

// Adds the rows' adapter updates to `out`, the product of slot `in` and `weight`. Reads the slot's unpacked floats.
void CudaStage::adapt(Slot in, WeightId weight, float* out) {
  if (!has_adapters_) return;
  const size_t of_rows = gathered_rows_ ? places_.logit_adapters : places_.adapters;
  adapters_.add(stream_, weight, at(in), n_rows_, width(in), step_.as<int32_t>() + of_rows / sizeof(int32_t), out,
                weights_.matrix(weight).n_out);
}

bool CudaStage::begin(const Step& step) {
  stream_.use();
  held_.clear();
  n_rows_ = step.rows.size();
  n_logit_rows_ = step.n_logit_rows;
  observed_ = step.observed;
  has_adapters_ = std::ranges::any_of(step.rows, [](const StepRow& row) { return row.adapter != kNoAdapter; });
  gathered_rows_ = false;
  attention_ = plan_attention(step.rows, heads_, cache_, widest_window_);
  draws_.clear();
  ids_.clear();
  for (const Draw& d : step.draws) {
    draws_.push_back(gpu::draw_input(d.row, d.sampler->options(), d.sampler->never(), d.history, d.position,
                                     width(Slot::Logits), ids_));
  }
  reserve_buffers(step);
  send(step);
  if (!step.residual.empty()) write(Slot::Residual, step.residual);

  shape_.reset();
  if (observed_ || !step.may_replay || n_rows_ > kRecordedRows) return false;
  shape_ = {
      n_rows_,       n_logit_rows_,    draws_.size(), attention_.items.size(), attention_.n_slots, attention_.max_parts,
      has_adapters_, step.keeps_hidden};
  const auto found = recordings_.find(*shape_);
  if (found == recordings_.end()) return false;
  stream_.run(found->second);
  return true;
}

// Grows a buffer. Recorded steps contain the old buffer's address, so all of them are discarded.
void CudaStage::grow(gpu::DeviceMemory& memory, size_t bytes) {
  if (memory.bytes() >= bytes) return;
  stream_.wait();
  recordings_.clear();
  memory = {};
  memory = gpu::DeviceMemory(stream_, std::bit_ceil(bytes));
  stream_.fill(memory.as<void>(), 0, memory.bytes());
}

void CudaStage::reserve_buffers(const Step& step) {
  size_t widest = 0;
  for (size_t s = 0; s < kSlots; ++s) {
    const auto slot = static_cast<Slot>(s);
    const size_t rows = slot == Slot::Logits ? step.n_logit_rows : n_rows_;
    if (slot != Slot::Logits && slot != Slot::ExpertGate && slot != Slot::ExpertUp) {
      widest = std::max(widest, info_.widths[s]);
    }
    grow(slots_[s], rows * info_.widths[s] * sizeof(float));
  }
  grow(gathered_, n_rows_ * width(Slot::Residual) * sizeof(float));
  gpu::HeadsProduct product;
  product.n_rows = static_cast<uint32_t>(n_rows_);
  const size_t rows_of_heads = config_.latent() ? heads_.n_heads * product.padded_rows() : 0;
  const auto widest_head = static_cast<size_t>(std::max(config_.qk_nope_head_dim, config_.kv_lora_rank));
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (!weights_.uses(static_cast<Kind>(kind))) continue;
    grow(packed_data_[kind], std::max(packed_bytes(n_rows_, widest, static_cast<Kind>(kind)),
                                      packed_bytes(rows_of_heads, widest_head, static_cast<Kind>(kind))));
  }
  grow(row_scales_, std::max(rows_of_heads, n_rows_ + gpu::kTileColumns) * sizeof(float));
  make_room_for_experts();
  if (attention_.max_parts > 0) {
    grow(partials_, gpu::partial_bytes(attention_of_step()));
    grow(counters_, attention_.items.size() * heads_.n_kv_heads * sizeof(uint32_t));
  }
  if (!draws_.empty()) grow(draw_workspace_, gpu::draw_workspace_bytes(draws_.size()));
  if (info_.draws) grow(tokens_, options_.max_rows * sizeof(int32_t));
}

// Uploads all of a step's data in one copy. Arrays whose length varies between steps of the same Shape come last; the
// data before them has their offsets, in words from the beginning of the copy.
void CudaStage::send(const Step& step) {
  Places& p = places_;
  p.draws = 0;
  p.tokens = p.draws + draws_.size() * sizeof(gpu::DrawInput);
  p.positions = p.tokens + n_rows_ * sizeof(int32_t);
  p.tables = p.positions + n_rows_ * sizeof(int32_t);
  p.adapters = p.tables + n_rows_ * sizeof(int32_t);
  p.logit_rows = p.adapters + n_rows_ * sizeof(int32_t);
  p.logit_adapters = p.logit_rows + n_logit_rows_ * sizeof(int32_t);
  p.items = p.logit_adapters + n_logit_rows_ * sizeof(int32_t);
  const size_t ids = p.items + attention_.items.size() * sizeof(gpu::AttentionItem);
  const size_t blocks = ids + ids_.size() * sizeof(int32_t);
  const size_t copies = blocks + step.tables.size() * sizeof(int32_t);
  const size_t bytes = copies + step.copies.size() * sizeof(BlockCopy);

  sent_arrived_.wait();
  if (sent_.bytes() < bytes) sent_ = gpu::PinnedMemory(std::bit_ceil(bytes));
  grow(step_, bytes);
  auto* to = sent_.as<uint8_t>();
  const auto words = [&](size_t place) { return reinterpret_cast<int32_t*>(to + place); };
  for (gpu::DrawInput& d : draws_) d.first_id += static_cast<uint32_t>(ids / sizeof(int32_t));
  if (!draws_.empty()) std::memcpy(to + p.draws, draws_.data(), draws_.size() * sizeof(gpu::DrawInput));
  size_t n_kept = 0;
  for (size_t i = 0; i < n_rows_; ++i) {
    const StepRow& row = step.rows[i];
    words(p.tokens)[i] = row.token;
    words(p.positions)[i] = static_cast<int32_t>(row.position);
    words(p.tables)[i] =
        static_cast<int32_t>(blocks / sizeof(int32_t)) + step.table_starts[static_cast<size_t>(row.table)];
    words(p.adapters)[i] = adapters_.slot(row.adapter);
    if (!row.needs_logits) continue;
    words(p.logit_adapters)[n_kept] = words(p.adapters)[i];
    words(p.logit_rows)[n_kept++] = static_cast<int32_t>(i);
  }
  std::memcpy(to + p.items, attention_.items.data(), attention_.items.size() * sizeof(gpu::AttentionItem));
  std::copy(ids_.begin(), ids_.end(), words(ids));
  std::copy(step.tables.begin(), step.tables.end(), words(blocks));
  if (!step.copies.empty()) std::memcpy(to + copies, step.copies.data(), step.copies.size() * sizeof(BlockCopy));
  stream_.copy_in(step_.as<void>(), to, bytes);
  sent_arrived_.record(stream_);
  if (!step.copies.empty()) {
    gpu::copy_blocks(stream_, cache_, reinterpret_cast<const int32_t*>(step_.as<uint8_t>() + copies),
                     step.copies.size());
  }
}

void CudaStage::end() {
  if (!shape_) return flush();
  gpu::Recording made = stream_.record([this] { flush(); });
  if (recordings_.size() >= kMostRecordings) forget_recordings();
  stream_.run(recordings_.emplace(*shape_, std::move(made)).first->second);
}

gpu::PackedInputs CudaStage::inputs(Slot slot, Kind kind) const {
  return {.data = packed_data_[static_cast<size_t>(kind)].as<uint8_t>(),
          .row_scales = row_scales_.as<float>(),
          .n_rows = static_cast<uint32_t>(n_rows_),
          .k = static_cast<uint32_t>(width(slot)),
          .kind = kind};
}

// Packs the slot's rows as inputs of a product. Also computes the norm or activation fused with it.
gpu::PackedInputs CudaStage::pack(Slot slot, Kind kind, const FusedOperation& fused) {
  const gpu::PackedInputs to = inputs(slot, kind);
  if (fused.norm != nullptr) {
    norm_and_pack(*fused.norm, fused.adds_branch, to);
  } else if (fused.activate != nullptr) {
    gpu::activate_pack(stream_, activation_, at(slot), at(fused.activate->up), to);
  } else {
    gpu::pack_inputs(stream_, at(slot), to);
  }
  return to;
}

void CudaStage::norm_and_pack(const Norm& norm, bool adds_branch, const gpu::PackedInputs& to) {
  gpu::add_norm_pack(stream_, at(norm.in), adds_branch ? branch() : gpu::Delta{}, weights_.vector(norm.weight),
                     config_.norm_eps, at(norm.out), to);
}

// Defers an operation until flush(), which fuses and launches the deferred operations. An observed step flushes after
// each operation, but a Gather and the operations after it wait for the next Attend.
void CudaStage::issue(const Operation& operation) {
  held_.push_back(operation);
  const bool gathers = std::holds_alternative<Gather>(held_.front()) && !std::holds_alternative<Attend>(operation);
  if (observed_ && !gathers) flush();
}

void CudaStage::flush() {
  for (const FusedOperation& fused : fuse(held_)) std::visit([&](const auto& o) { run(o, fused); }, *fused.operation);
  held_.clear();
}

void CudaStage::run(const Embed& o, const FusedOperation& /*fused*/) {
  gpu::embed(stream_, weights_.matrix(o.table), step_.as<int32_t>() + places_.tokens / sizeof(int32_t),
             tokens_.as<int32_t>(), config_.embedding_scale, n_rows_, at(o.out));
}

void CudaStage::run(const Norm& o, const FusedOperation& fused) {
  norm_and_pack(o, fused.adds_branch, inputs(Slot::Normed, any_kind_));
}

void CudaStage::run(const NormHeads& o, const FusedOperation& /*fused*/) {
  const size_t dim = weights_.length(o.weight);  // size of one head, or of all heads if they are normed as one vector
  const bool latent = o.slot == Slot::Latent;
  const float eps = latent || o.slot == Slot::QueryLatent ? core::kLatentNormEps : config_.norm_eps;
  gpu::rms_norm(stream_, at(o.slot), weights_.vector(o.weight), eps, latent ? n_rows_ : n_rows_ * width(o.slot) / dim,
                dim, at(o.slot), latent ? width(o.slot) : 0);
}

void CudaStage::run(const Project& o, const FusedOperation& fused) {
  const std::span<const Projection> projections = o.projections();
  std::array<bool, kKinds> is_packed{};
  FusedOperation before = fused;                 // its norm or activation is computed by the first packing
  for (size_t i = 0; i < projections.size();) {  // matrices of one format share a launch
    std::vector<gpu::Matmul> products;
    const gpu::PackedMatrix& first = weights_.matrix(projections[i].weight);
    for (; i < projections.size() && products.size() < gpu::kMaxProducts; ++i) {
      const Projection& p = projections[i];
      if (!gpu::same_format(first, weights_.matrix(p.weight))) break;
      products.push_back({.weight = weights_.matrix(p.weight), .bias = vector_or_null(p.bias), .out = at(p.out)});
    }
    const bool there = std::exchange(is_packed[static_cast<size_t>(first.kind)], true);
    const gpu::PackedInputs x = there ? inputs(o.in, first.kind) : pack(o.in, first.kind, std::exchange(before, {}));
    gpu::multiply(stream_, x, products.data(), products.size(), options_.fast);
  }
  for (const Projection& p : projections) adapt(o.in, p.weight, at(p.out));
}

void CudaStage::run(const ProjectToResidual& o, const FusedOperation& fused) {
  const gpu::PackedMatrix& matrix = weights_.matrix(o.weight);
  const gpu::Matmul product{.weight = matrix, .bias = vector_or_null(o.bias), .out = at(Slot::Branch)};
  gpu::multiply(stream_, pack(o.in, matrix.kind, fused), &product, 1, options_.fast);
  adapt(o.in, o.weight, at(Slot::Branch));
  if (o.post_norm.exists()) {
    gpu::rms_norm(stream_, at(Slot::Branch), weights_.vector(o.post_norm), config_.norm_eps, n_rows_,
                  width(Slot::Branch), at(Slot::Branch));
  }
  if (!fused.leaves_branch) gpu::add(stream_, at(Slot::Residual), branch(), n_rows_ * width(Slot::Residual));
}

void CudaStage::run(const ProjectHeads& o, const FusedOperation& /*fused*/) {
  const gpu::HeadsProduct product{.weight = weights_.matrix(o.weight),
                                  .in = at(o.in),
                                  .out = at(o.out),
                                  .in_dim = static_cast<uint32_t>(width(o.in) / heads_.n_heads),
                                  .out_dim = static_cast<uint32_t>(width(o.out) / heads_.n_heads),
                                  .n_heads = heads_.n_heads,
                                  .n_rows = static_cast<uint32_t>(n_rows_)};
  gpu::PackedInputs x = inputs(o.in, product.weight.kind);
  x.n_rows = static_cast<uint32_t>(product.n_heads * product.padded_rows());
  x.k = product.weight.k;
  gpu::multiply_heads(stream_, product, x);
}

void CudaStage::run(const RotateAndStore& o, const FusedOperation& /*fused*/) {
  gpu::Heads heads = heads_;
  heads.head_dim = static_cast<uint32_t>(config_.head_dim);
  const bool local = config_.local_rope_theta > 0.0F && config_.has_window(o.layer);
  const auto* angles = (local ? local_angles_ : angles_).as<float>();
  const auto rotated = static_cast<uint32_t>(config_.rotated());
  gpu::rotate_and_store(stream_, attention_of_step().rows, heads,
                        {.cosines = angles,
                         .sines = angles + n_angles_ * rotated / 2,
                         .rotated = rotated,
                         .halves = core::info(config_.family).pairs == core::RopePairs::Halves},
                        at(Slot::Query), at(config_.latent() ? Slot::Latent : Slot::Key), at(Slot::Value), cache_,
                        static_cast<size_t>(o.layer - layers().first));
}

gpu::Attention CudaStage::attention_of_step() const {
  const auto* words = step_.as<int32_t>();
  const auto place = [&](size_t bytes) { return words + bytes / sizeof(int32_t); };
  return {.rows = {.positions = place(places_.positions),
                   .tables = place(places_.tables),
                   .blocks = words,
                   .n_rows = static_cast<uint32_t>(n_rows_)},
          .heads = heads_,
          .cache = cache_,
          .items = reinterpret_cast<const gpu::AttentionItem*>(place(places_.items)),
          .n_items = static_cast<uint32_t>(attention_.items.size()),
          .n_slots = attention_.n_slots,
          .max_parts = attention_.max_parts,
          .scale = config_.score_scale(),
          .cap = config_.attention_cap,
          .query = at(queries()),
          .out = at(attended()),
          .partials = attention_.max_parts > 0 ? partials_.as<float>() : nullptr,
          .counters = counters_.as<uint32_t>(),
          .shared_bytes = device_.shared_bytes};
}

void CudaStage::run(const Attend& o, const FusedOperation& fused) {
  gpu::Attention in = attention_of_step();
  in.layer = static_cast<size_t>(o.layer - layers().first);
  in.window = static_cast<int32_t>(positions_seen(config_, o.layer));
  in.sinks = vector_or_null(o.sinks);
  gpu::attention(stream_, in);
  if (fused.gathers) gather_rows();
}

// Called only if no Attend follows.
void CudaStage::run(const Gather& /*o*/, const FusedOperation& /*fused*/) { gather_rows(); }

void CudaStage::gather_rows() {
  if (n_logit_rows_ == n_rows_) return;
  const int32_t* rows = step_.as<int32_t>() + places_.logit_rows / sizeof(int32_t);
  gpu::gather(stream_, at(Slot::Residual), rows, n_logit_rows_, width(Slot::Residual), gathered_.as<float>());
  gpu::gather(stream_, at(attended()), rows, n_logit_rows_, width(attended()), at(queries()));
  gathered_rows_ = true;
  n_rows_ = n_logit_rows_;
}

void CudaStage::run(const Activate& o, const FusedOperation& /*fused*/) {
  gpu::activate(stream_, activation_, at(o.gate), at(o.up), n_rows_ * width(o.gate));
}

void CudaStage::run(const FinishLogits& /*o*/, const FusedOperation& /*fused*/) {
  if (config_.logit_scale == 1.0F && config_.logit_cap == 0.0F) return;
  gpu::finish_logits(stream_, at(Slot::Logits), n_rows_ * width(Slot::Logits), config_.logit_scale, config_.logit_cap);
}

void CudaStage::run(const DrawTokens& /*o*/, const FusedOperation& /*fused*/) {
  gpu::draw_tokens(stream_, at(Slot::Logits), width(Slot::Logits),
                   reinterpret_cast<const gpu::DrawInput*>(step_.as<uint8_t>() + places_.draws), step_.as<int32_t>(),
                   draws_.size(), draw_workspace_.as<void>(), tokens_.as<int32_t>());
}

Ticket CudaStage::fetch_logits() {
  const size_t bytes = n_logit_rows_ * width(Slot::Logits) * sizeof(float);
  if (logits_.bytes() < bytes) logits_ = gpu::PinnedMemory(std::bit_ceil(bytes));
  stream_.copy_out(logits_.as<void>(), at(Slot::Logits), bytes);
  return {};
}

std::span<float> CudaStage::wait(Ticket /*ticket*/) {
  stream_.wait();
  return {logits_.as<float>(), n_logit_rows_ * width(Slot::Logits)};
}

Ticket CudaStage::fetch_tokens() {
  const size_t bytes = draws_.size() * sizeof(int32_t);
  Drawn& drawn = drawn_[++n_fetched_ % drawn_.size()];
  drawn.n = draws_.size();
  if (drawn.tokens.bytes() < bytes) {
    drawn.arrived.wait();
    drawn.tokens = gpu::PinnedMemory(std::bit_ceil(bytes));
  }
  stream_.copy_out(drawn.tokens.as<void>(), tokens_.as<void>(), bytes);
  drawn.arrived.record(stream_);
  return Ticket{n_fetched_};
}

std::span<const int32_t> CudaStage::wait_tokens(Ticket ticket) {
  const auto number = static_cast<uint64_t>(ticket);
  core::require(n_fetched_ - number < drawn_.size(),
                "the tokens of this step were already overwritten by a later step");
  Drawn& drawn = drawn_[number % drawn_.size()];
  drawn.arrived.wait();
  return {drawn.tokens.as<int32_t>(), drawn.n};
}

void CudaStage::read(Slot slot, std::span<float> values) {
  stream_.copy_out(values.data(), at(slot), values.size_bytes());
  stream_.wait();
}

void CudaStage::write(Slot slot, std::span<const float> values) {
  stream_.copy_in(at(slot), values.data(), values.size_bytes());
  stream_.wait();
}

}  // namespace folio::infer
