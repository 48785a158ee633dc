// Times the attention kernel. Launches cycle through copies of the KV cache, so that it is read from memory, not from
// the L2 cache.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <span>

#include "apps/cuda_bench/bench.h"
#include "apps/cuda_bench/models.h"
#include "core/float16.h"
#include "core/random.h"
#include "infer/cuda/attention_plan.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/layout.h"

namespace folio::infer::gpu::bench {
namespace {

constexpr size_t kMostCopies = 64;
constexpr size_t kMostLaunches = 512;  // maximum number of launches in a recorded graph
constexpr double kLongLaunch = 500.0;  // milliseconds; a longer launch is timed only once

// Returns the number of copies, 1 to kMostCopies, with which operands of `bytes` bytes fill effort.spread_bytes.
size_t copies_of(size_t bytes, const Effort& effort) {
  return std::clamp<size_t>(ceil_div(effort.spread_bytes, std::max<size_t>(bytes, 1)), 1, kMostCopies);
}

// Returns the median microseconds of a kernel launch. launch(copy) must launch the kernel once, on copy number `copy`
// (below n_copies) of the operands. A repetition is a CUDA graph of many launches, timed with events, so the host's
// overhead is not included.
double microseconds(Stream& stream, const Effort& effort, size_t n_copies,
                    const std::function<void(size_t copy)>& launch) {
  Event start;
  Event end;
  const auto timed = [&](const auto& run) {
    start.record(stream);
    run();
    end.record(stream);
    return end.since(start);
  };
  launch(0);  // not timed, because the first launch also loads the kernel
  stream.wait();
  const double once = timed([&] { launch(n_copies - 1); });
  if (once > kLongLaunch) return once * 1e3;
  const auto n = static_cast<size_t>(
      std::clamp(effort.milliseconds / std::max(once, 1e-3), 1.0, static_cast<double>(kMostLaunches)));
  Recording recording = stream.record([&] {
    for (size_t i = 0; i < n; ++i) launch(i % n_copies);
  });
  const auto run = [&] { stream.run(recording); };
  std::vector<double> times;
  timed(run);
  for (int i = 0; i < effort.repetitions; ++i) times.push_back(timed(run) * 1e3 / static_cast<double>(n));
  stream.wait();
  return median(times);
}

// Returns `bytes` bytes of device memory filled with repetitions of `piece`.
DeviceMemory repeated(Stream& stream, size_t bytes, std::span<const uint8_t> piece) {
  DeviceMemory memory(stream, bytes);
  auto* to = memory.as<uint8_t>();
  size_t filled = std::min(bytes, piece.size());
  stream.copy_in(to, piece.data(), filled);
  while (filled < bytes) {  // each pass doubles the filled part
    const size_t more = std::min(filled, bytes - filled);
    stream.copy_within(to + filled, to, more);
    filled += more;
  }
  stream.wait();
  return memory;
}

// Returns `bytes` bytes of device memory with random numbers in [-1, 1), F16 if `half`, else F32.
DeviceMemory random_numbers(Stream& stream, size_t bytes, bool half, uint64_t seed) {
  std::vector<uint8_t> piece;
  for (size_t i = 0; i < 4096; ++i) {
    const auto x = static_cast<float>(2.0 * core::random_uniform(seed, i) - 1.0);
    const uint32_t bits = half ? core::float_to_f16(x) : std::bit_cast<uint32_t>(x);
    const auto* from = reinterpret_cast<const uint8_t*>(&bits);
    piece.insert(piece.end(), from, from + (half ? 2 : 4));
  }
  return repeated(stream, bytes, piece);
}

DeviceMemory zeros(Stream& stream, size_t bytes) {
  DeviceMemory memory(stream, bytes);
  stream.fill(memory.as<void>(), 0, bytes);
  stream.wait();
  return memory;
}

template <typename T>
DeviceMemory on_device(Stream& stream, const std::vector<T>& values) {
  DeviceMemory memory(stream, values.size() * sizeof(T));
  stream.copy_in(memory.as<T>(), values.data(), memory.bytes());
  stream.wait();
  return memory;
}

// Operands of attention(): `n_sequences` sequences of `context` positions in a one-layer KV cache (F16 if `half`, else
// F32), and queries for the last `n_rows` positions of each sequence. Each copy of the operands has its own cache.
class AttentionOperands {
 public:
  AttentionOperands(Stream& stream, const core::ModelConfig& config, bool half, size_t n_sequences, size_t context,
                    size_t n_rows, const Effort& effort);
  [[nodiscard]] size_t n_copies() const { return n_copies_; }
  [[nodiscard]] const Attention& of(size_t copy);
  /// Returns the minimum number of bytes that a launch of the attention kernel reads and writes.
  [[nodiscard]] double bytes() const { return bytes_; }
  [[nodiscard]] double operations() const { return operations_; }

 private:
  Attention attention_;
  size_t copy_bytes_ = 0;
  size_t n_copies_ = 1;
  double bytes_ = 0.0;
  double operations_ = 0.0;
  DeviceMemory cache_;
  DeviceMemory positions_;
  DeviceMemory tables_;
  DeviceMemory blocks_;
  DeviceMemory items_;
  DeviceMemory query_;
  DeviceMemory out_;
  DeviceMemory partials_;
  DeviceMemory counters_;
};

AttentionOperands::AttentionOperands(Stream& stream, const core::ModelConfig& config, bool half, size_t n_sequences,
                                     size_t context, size_t n_rows, const Effort& effort) {
  Attention& a = attention_;
  a.heads = {.n_heads = static_cast<uint32_t>(config.n_heads),
             .n_kv_heads = static_cast<uint32_t>(config.n_kv_heads),
             .head_dim = static_cast<uint32_t>(config.head_dim)};
  a.cache = {.n_layers = 1, .n_kv_heads = a.heads.n_kv_heads, .head_dim = a.heads.head_dim, .half = half};
  const size_t blocks_each = ceil_div(context, CacheView::kPositions);
  copy_bytes_ = n_sequences * blocks_each * a.cache.block_bytes();
  n_copies_ = copies_of(copy_bytes_, effort);
  cache_ = random_numbers(stream, copy_bytes_ * n_copies_, half, 3);

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
  query_ = random_numbers(stream, positions.size() * width * sizeof(float), false, 4);
  out_ = zeros(stream, positions.size() * width * sizeof(float));
  a.rows = {.positions = positions_.as<int32_t>(),
            .tables = tables_.as<int32_t>(),
            .blocks = blocks_.as<int32_t>(),
            .n_rows = static_cast<uint32_t>(positions.size())};
  a.window = static_cast<int32_t>(context);
  a.scale = 1.0F / std::sqrt(static_cast<float>(a.heads.head_dim));
  a.query = query_.as<float>();
  a.out = out_.as<float>();
  a.shared_bytes = device_info(stream.device()).shared_bytes;
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

const Attention& AttentionOperands::of(size_t copy) {
  attention_.cache.data = cache_.as<uint8_t>() + copy * copy_bytes_;
  return attention_;
}

}  // namespace

void time_attention(const Bench& bench, const std::string& shape_name) {
  const Options& o = bench.options;
  const core::ModelConfig config = shape(shape_name, 8192);
  const auto time = [&](const char* kernel, int64_t n_sequences, int64_t context, int64_t n_rows) {
    AttentionOperands at(bench.stream, config, !o.f32_cache, static_cast<size_t>(n_sequences),
                         static_cast<size_t>(context), static_cast<size_t>(n_rows), o.effort);
    const double us =
        microseconds(bench.stream, o.effort, at.n_copies(), [&](size_t copy) { attention(bench.stream, at.of(copy)); });
    bench.results.add({{"part", "attention"},
                       {"shape", shape_name},
                       {"kernel", kernel},
                       {"cache", o.f32_cache ? "f32" : "f16"},
                       {"sequences", n_sequences},
                       {"context", context},
                       {"rows", n_rows},
                       {"us", us},
                       {"gb_per_s", at.bytes() / us / 1e3},
                       {"tflop_per_s", at.operations() / us / 1e6},
                       {"share_of_copy", at.bytes() / us * 1e6 / bench.bandwidth}});
  };
  time("attention: prompt", 1, o.attention, o.attention);
  for (const int64_t context : o.contexts) time("attention: decode", 1, context, 1);
  for (const int64_t batch : o.batches) time("attention: decode", batch, o.batch_context, 1);
}

}  // namespace folio::infer::gpu::bench
