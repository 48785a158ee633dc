// Times the kernels one by one. Launches cycle through copies of the weights and the KV cache, so that these are read
// from memory, not from the L2 cache. Activations stay in L2, as in a step, where the previous kernel wrote them.
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "apps/cuda_bench/bench.h"
#include "apps/cuda_bench/models.h"
#include "apps/cuda_bench/operands.h"
#include "core/random.h"
#include "infer/cuda/sample.h"

namespace folio::infer::gpu::bench {
namespace {

constexpr size_t kMostNarrow = 64;  // maximum number of rows of the kernels in product.cu

class KernelTable {
 public:
  KernelTable(const Bench& bench, const std::string& shape_name)
      : bench_(bench), shape_name_(shape_name), config_(shape(shape_name, 8192)) {}

  void run() {
    for (const int64_t rows : bench_.options.rows) {
      n_ = static_cast<size_t>(rows);
      time_rows();
      for (const core::DType type :
           {core::DType::F32, core::DType::F16, core::DType::BF16, core::DType::Q8_0, core::DType::Q4_0}) {
        time_products(type);
      }
      if (n_ <= kMostNarrow) time_sampler();
    }
  }

 private:
  [[nodiscard]] Stream& stream() const { return bench_.stream; }

  void add(const std::string& kernel, const std::string& type, const char* form, double bytes, double operations,
           size_t n_copies, const std::function<void(size_t)>& launch) {
    const double us = microseconds(stream(), bench_.options.effort, n_copies, launch);
    bench_.results.add({{"part", "kernels"},
                        {"shape", shape_name_},
                        {"kernel", kernel},
                        {"type", type},
                        {"rows", n_},
                        {"form", form},
                        {"us", us},
                        {"gb_per_s", bytes / us / 1e3},
                        {"tflop_per_s", operations / us / 1e6},
                        {"share_of_copy", bytes / us * 1e6 / bench_.bandwidth}});
  }

  void time_rows() {
    const auto dim = static_cast<size_t>(config_.dim);
    const auto hidden = static_cast<size_t>(config_.hidden_dim);
    const auto number = static_cast<double>(n_ * sizeof(float));
    const DeviceMemory x = random_floats(stream(), n_ * dim, 1);
    const DeviceMemory out = zeros(stream(), n_ * dim * sizeof(float));
    const DeviceMemory weight = random_floats(stream(), dim, 2);
    add("norm", "f32", "fast", number * static_cast<double>(2 * dim), 4.0 * static_cast<double>(n_ * dim), 1,
        [&](size_t) { rms_norm(stream(), x.as<float>(), weight.as<float>(), 1e-5F, n_, dim, out.as<float>()); });
    const DeviceMemory gate = random_floats(stream(), n_ * hidden, 3);
    const DeviceMemory up = random_floats(stream(), n_ * hidden, 4);
    add("swiglu", "f32", "fast", number * static_cast<double>(3 * hidden), 20.0 * static_cast<double>(n_ * hidden), 1,
        [&](size_t) { activate(stream(), Activation::Silu, gate.as<float>(), up.as<float>(), n_ * hidden); });
    for (const Kind kind : {Kind::F16, Kind::Groups}) {
      const char* packed_as = kind == Kind::F16 ? "f16" : "8 bits";
      const Inputs in(stream(), n_, dim, kind);
      const Inputs of_hidden(stream(), n_, hidden, kind);
      const double packed_number = static_cast<double>(n_ * number_bytes(kind));
      add("pack", packed_as, "fast", (number + packed_number) * static_cast<double>(dim), 0.0, 1,
          [&](size_t) { pack_inputs(stream(), x.as<float>(), in.packed); });
      add("add, norm, pack", packed_as, "fused", (4 * number + packed_number) * static_cast<double>(dim),
          6.0 * static_cast<double>(n_ * dim), 1, [&](size_t) {
            add_norm_pack(stream(), x.as<float>(), {.numbers = rows_to_add(dim).as<float>()}, weight.as<float>(), 1e-5F,
                          out.as<float>(), in.packed);
          });
      add("swiglu, pack", packed_as, "fused", (3 * number + packed_number) * static_cast<double>(hidden),
          20.0 * static_cast<double>(n_ * hidden), 1, [&](size_t) {
            activate_pack(stream(), Activation::Silu, gate.as<float>(), up.as<float>(), of_hidden.packed);
          });
    }
    time_rope();
    rows_.reset();
  }

  // Returns zeros of shape (n_, dim) in device memory. Adding zeros keeps values finite in repeated launches.
  const DeviceMemory& rows_to_add(size_t dim) {
    if (!rows_) rows_ = zeros(stream(), n_ * dim * sizeof(float));
    return *rows_;
  }

  void time_rope() {
    const Heads heads{.n_heads = static_cast<uint32_t>(config_.n_heads),
                      .n_kv_heads = static_cast<uint32_t>(config_.n_kv_heads),
                      .head_dim = static_cast<uint32_t>(config_.head_dim)};
    CacheView cache{.n_layers = 1, .n_kv_heads = heads.n_kv_heads, .head_dim = heads.head_dim, .half = true};
    const size_t n_blocks = ceil_div(n_, CacheView::kPositions);
    const DeviceMemory memory = zeros(stream(), n_blocks * cache.block_bytes());
    cache.data = memory.as<uint8_t>();
    std::vector<int32_t> positions;
    std::vector<int32_t> blocks;
    for (size_t i = 0; i < n_; ++i) positions.push_back(static_cast<int32_t>(i));
    for (size_t i = 0; i < n_blocks; ++i) blocks.push_back(static_cast<int32_t>(i));
    const DeviceMemory device_positions = on_device(stream(), positions);
    const DeviceMemory device_blocks = on_device(stream(), blocks);
    const DeviceMemory tables = zeros(stream(), n_ * sizeof(int32_t));
    const RowsView rows{.tokens = nullptr,
                        .positions = device_positions.as<int32_t>(),
                        .tables = tables.as<int32_t>(),
                        .blocks = device_blocks.as<int32_t>(),
                        .n_rows = static_cast<uint32_t>(n_)};
    const size_t q = size_t{heads.n_heads} * heads.head_dim;
    const size_t kv = size_t{heads.n_kv_heads} * heads.head_dim;
    const DeviceMemory query = random_floats(stream(), n_ * q, 1);
    const DeviceMemory key = random_floats(stream(), n_ * kv, 2);
    const DeviceMemory value = random_floats(stream(), n_ * kv, 3);
    const DeviceMemory angles = random_floats(stream(), n_ * heads.head_dim, 4);
    const auto bytes = static_cast<double>(n_ * (8 * q + 8 * kv + 4 * kv + 2 * 2 * kv));
    add("rope, store", "f16", "fast", bytes, 3.0 * static_cast<double>(n_ * (q + kv)), 1, [&](size_t) {
      rotate_and_store(stream(), rows, heads,
                       {.cosines = angles.as<float>(),
                        .sines = angles.as<float>() + n_ * heads.head_dim / 2,
                        .rotated = heads.head_dim,
                        .halves = true},
                       query.as<float>(), key.as<float>(), value.as<float>(), cache, 0);
    });
  }

  void time_products(core::DType type) {
    const auto dim = static_cast<size_t>(config_.dim);
    const auto q = static_cast<size_t>(config_.query_dim());
    const auto kv = static_cast<size_t>(config_.kv_dim());
    const auto hidden = static_cast<size_t>(config_.hidden_dim);
    time_product("q, k, v", type, {q, kv, kv}, dim);
    time_product("heads to residual", type, {dim}, q);
    time_product("gate, up", type, {hidden, hidden}, dim);
    time_product("hidden to residual", type, {dim}, hidden);
    if (n_ <= kMostNarrow) time_product("output", type, {static_cast<size_t>(config_.vocab_size)}, dim);
  }

  // Times one launch with one or more matrices.
  void time_product(const std::string& name, core::DType type, const std::vector<size_t>& n_out, size_t k) {
    size_t all_out = 0;
    for (const size_t n : n_out) all_out += n;
    const size_t one =
        static_cast<size_t>(core::info(type).block_bytes) * all_out * k / core::info(type).block_elements;
    const size_t n_copies = copies_of(one, bench_.options.effort);
    std::vector<Matrices> matrices;
    std::vector<DeviceMemory> outs;
    for (const size_t n : n_out) {
      matrices.emplace_back(stream(), type, n, k, n_copies);
      outs.push_back(zeros(stream(), n_ * n * sizeof(float)));
    }
    const Inputs in(stream(), n_, k, matrices[0][0].kind);
    double bytes = static_cast<double>(n_ * (k + all_out) * sizeof(float));
    for (const Matrices& m : matrices) bytes += static_cast<double>(m.bytes());
    const double operations = 2.0 * static_cast<double>(n_ * all_out * k);
    const auto launch = [&](size_t copy, bool fast_sums) {
      Matmul products[kMaxProducts];
      for (size_t i = 0; i < matrices.size(); ++i) {
        products[i] = {.weight = matrices[i][copy], .bias = nullptr, .out = outs[i].as<float>()};
      }
      multiply(stream(), in.packed, products, matrices.size(), fast_sums);
    };
    const std::string kernel = "product: " + name;
    const std::string type_name(core::info(type).name);
    add(kernel, type_name, "fast", bytes, operations, n_copies, [&](size_t copy) { launch(copy, false); });
    if (n_ > kMostNarrow) {
      add(kernel, type_name, "fast, --fast", bytes, operations, n_copies, [&](size_t copy) { launch(copy, true); });
    }
  }

  // Times one draw per row: greedy, with the default top-p, and with a small top-k.
  void time_sampler() {
    const auto vocab_size = static_cast<size_t>(config_.vocab_size);
    std::vector<float> row(vocab_size);  // like real logits: a few are much larger than the rest
    for (size_t i = 0; i < vocab_size; ++i) {
      row[i] = static_cast<float>(-3.0 * std::log(1.0 - core::random_uniform(5, i)));
    }
    const DeviceMemory logits = repeated(stream(), n_ * vocab_size * sizeof(float),
                                         {reinterpret_cast<const uint8_t*>(row.data()), vocab_size * sizeof(float)});
    const DeviceMemory ids = zeros(stream(), sizeof(int32_t));
    const DeviceMemory workspace = zeros(stream(), draw_workspace_bytes(n_));
    const DeviceMemory tokens = zeros(stream(), n_ * sizeof(int32_t));
    const auto time = [&](const char* name, const SamplerOptions& options) {
      std::vector<DrawInput> draws;
      std::vector<int32_t> none;
      for (size_t i = 0; i < n_; ++i) {
        draws.push_back(draw_input(i, options, {}, {}, static_cast<int64_t>(i), vocab_size, none));
      }
      const DeviceMemory inputs = on_device(stream(), draws);
      add(name, "f32", "fast", static_cast<double>(n_ * vocab_size * sizeof(float)),
          static_cast<double>(n_ * vocab_size), 1, [&](size_t) {
            draw_tokens(stream(), logits.as<float>(), vocab_size, inputs.as<DrawInput>(), ids.as<int32_t>(), n_,
                        workspace.as<void>(), tokens.as<int32_t>());
          });
    };
    time("sample: greedy", {.temperature = 0.0F});
    time("sample: top-p 0.95", {});
    time("sample: top-k 5", {.top_k = 5});
  }

  const Bench& bench_;
  std::string shape_name_;
  core::ModelConfig config_;
  size_t n_ = 1;  ///< number of rows per launch
  std::optional<DeviceMemory> rows_;
};

size_t shared_bytes_of(const Stream& stream) { return device_info(stream.device()).shared_bytes; }

}  // namespace

void time_kernels(const Bench& bench, const std::string& shape) {
  KernelTable(bench, shape).run();
  time_experts(bench, shape);
}

void time_attention(const Bench& bench, const std::string& shape_name) {
  const Options& o = bench.options;
  const core::ModelConfig config = shape(shape_name, 8192);
  const auto time = [&](const char* kernel, int64_t n_sequences, int64_t context, int64_t n_rows) {
    Attending at(bench.stream, config, !o.f32_cache, static_cast<size_t>(n_sequences), static_cast<size_t>(context),
                 static_cast<size_t>(n_rows), shared_bytes_of(bench.stream), o.effort);
    const double us =
        microseconds(bench.stream, o.effort, at.n_copies(), [&](size_t copy) { attention(bench.stream, at.of(copy)); });
    bench.results.add({{"part", "attention"},
                       {"shape", shape_name},
                       {"kernel", kernel},
                       {"cache", o.f32_cache ? "f32" : "f16"},
                       {"sequences", n_sequences},
                       {"context", context},
                       {"rows", n_rows},
                       {"form", "fast"},
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
