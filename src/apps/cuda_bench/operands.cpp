#include "apps/cuda_bench/operands.h"

#include <bit>
#include <cmath>

#include "apps/cuda_bench/models.h"
#include "core/float16.h"
#include "core/random.h"
#include "infer/cuda/attention_plan.h"
#include "infer/cuda/pack.h"

namespace folio::infer::gpu::bench {
// One random tile of rows is repeated to save time, since kernel times do not depend on the values.
Matrices::Matrices(Stream& stream, core::DType type, size_t n_out, size_t k, size_t n_copies) {
  core::ThreadPool pool(1);
  const auto bytes = random_numbers(type, kTileRows * k, std::sqrt(3.0 / static_cast<double>(k)), 1, pool);
  core::TensorView tensor{.name = "random",
                          .type = type,
                          .shape = {static_cast<int64_t>(kTileRows), static_cast<int64_t>(k)},
                          .bytes = bytes};
  layout_ = packed_layout(tensor);
  std::vector<uint8_t> tile(layout_.tile_bytes());
  pack_tiles(tensor, layout_, 0, tile, pool);
  layout_.n_out = static_cast<uint32_t>(n_out);
  memory_ = repeated(stream, layout_.bytes() * n_copies, tile);
}

PackedMatrix Matrices::operator[](size_t copy) const {
  PackedMatrix matrix = layout_;
  matrix.data = memory_.as<uint8_t>() + copy * layout_.bytes();
  return matrix;
}

Inputs::Inputs(Stream& stream, size_t n_rows, size_t k, Kind kind) : floats(random_floats(stream, n_rows * k, 2)) {
  packed = {.n_rows = static_cast<uint32_t>(n_rows), .k = static_cast<uint32_t>(k), .kind = kind};
  data = zeros(stream, packed.bytes());
  scales = zeros(stream, (n_rows + kTileColumns) * sizeof(float));
  packed.data = data.as<uint8_t>();
  packed.row_scales = scales.as<float>();
  pack_inputs(stream, floats.as<float>(), packed);
  stream.wait();
}

Attending::Attending(Stream& stream, const core::ModelConfig& config, bool half, size_t n_sequences, size_t context,
                     size_t n_rows, size_t shared_bytes, const Effort& effort) {
  Attention& a = attention_;
  a.heads = {.n_heads = static_cast<uint32_t>(config.n_heads),
             .n_kv_heads = static_cast<uint32_t>(config.n_kv_heads),
             .head_dim = static_cast<uint32_t>(config.head_dim)};
  a.cache = {.n_layers = 1, .n_kv_heads = a.heads.n_kv_heads, .head_dim = a.heads.head_dim, .half = half};
  const size_t blocks_each = ceil_div(context, CacheView::kPositions);
  copy_bytes_ = n_sequences * blocks_each * a.cache.block_bytes();
  n_copies_ = copies_of(copy_bytes_, effort);
  std::vector<uint8_t> numbers;  // the bytes of random values in [-1, 1)
  for (size_t i = 0; i < 4096; ++i) {
    const auto x = static_cast<float>(2.0 * core::random_uniform(3, i) - 1.0);
    const uint32_t bits = half ? core::float_to_f16(x) : std::bit_cast<uint32_t>(x);
    const auto* from = reinterpret_cast<const uint8_t*>(&bits);
    numbers.insert(numbers.end(), from, from + a.cache.number_bytes());
  }
  cache_ = repeated(stream, copy_bytes_ * n_copies_, numbers);

  std::vector<StepRow> rows;
  std::vector<int32_t> positions;
  std::vector<int32_t> tables;
  std::vector<int32_t> blocks;
  double seen = 0.0;
  for (size_t s = 0; s < n_sequences; ++s) {
    for (size_t r = context - n_rows; r < context; ++r) {
      rows.push_back(
          {.token = 0, .table = static_cast<int32_t>(s), .position = static_cast<int64_t>(r), .needs_logits = false});
      positions.push_back(static_cast<int32_t>(r));
      tables.push_back(static_cast<int32_t>(blocks.size()));
      seen += static_cast<double>(r + 1);
    }
    for (size_t b = 0; b < blocks_each; ++b) blocks.push_back(static_cast<int32_t>(blocks.size()));
  }
  positions_ = on_device(stream, positions);
  tables_ = on_device(stream, tables);
  blocks_ = on_device(stream, blocks);
  const size_t width = size_t{a.heads.n_heads} * a.heads.head_dim;
  query_ = random_floats(stream, positions.size() * width, 4);
  out_ = zeros(stream, positions.size() * width * sizeof(float));
  a.rows = {.tokens = nullptr,
            .positions = positions_.as<int32_t>(),
            .tables = tables_.as<int32_t>(),
            .blocks = blocks_.as<int32_t>(),
            .n_rows = static_cast<uint32_t>(positions.size())};
  a.window = static_cast<int32_t>(context);
  a.scale = 1.0F / std::sqrt(static_cast<float>(a.heads.head_dim));
  a.query = query_.as<float>();
  a.out = out_.as<float>();
  a.shared_bytes = shared_bytes;
  const AttentionPlan plan = plan_attention(rows, a.heads, a.cache, static_cast<int64_t>(context));
  items_ = on_device(stream, plan.items);
  a.items = items_.as<AttentionItem>();
  a.n_items = static_cast<uint32_t>(plan.items.size());
  a.n_slots = plan.n_slots;
  a.max_parts = plan.max_parts;
  counters_ = zeros(stream, plan.items.size() * a.heads.n_kv_heads * sizeof(uint32_t));
  a.counters = counters_.as<uint32_t>();
  if (a.max_parts > 0) {
    partials_ = DeviceMemory(stream, partial_bytes(a));
    a.partials = partials_.as<float>();
  }
  const size_t kv = size_t{a.heads.n_kv_heads} * a.heads.head_dim * a.cache.number_bytes();
  bytes_ = static_cast<double>(n_sequences * context * 2 * kv + 2 * positions.size() * width * sizeof(float));
  operations_ = 4.0 * static_cast<double>(width) * seen;
}

const Attention& Attending::of(size_t copy) {
  attention_.cache.data = cache_.as<uint8_t>() + copy * copy_bytes_;
  return attention_;
}

}  // namespace folio::infer::gpu::bench
