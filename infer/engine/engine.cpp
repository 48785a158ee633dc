#include "infer/engine/engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/rope_scaling.h"

namespace folio::infer {
namespace {

using core::require;

// Multiplications that are worth a thread of their own: about a microsecond of one core.
constexpr size_t kWorthAThread = 8 * 1024;

// Rows of a sequence that read the cache together; divides a block of it. More would leave threads without work.
constexpr int64_t kRowsTogether = 8;
static_assert(kernels::kBlockPositions % kRowsTogether == 0);

// Rows that follow each other and end in the same block of the cache, at most kRowsTogether: where each run of them
// begins, and at last the number of rows.
std::vector<size_t> runs_of(std::span<const Row> rows) {
  std::vector<size_t> runs;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool goes_on = i > 0 && rows[i].sequence == rows[i - 1].sequence && rows[i].position % kRowsTogether != 0;
    if (!goes_on) runs.push_back(i);
  }
  runs.push_back(rows.size());
  return runs;
}

// Each sequence fills whole blocks of its own.
int64_t blocks_for(const core::ModelConfig& config, const EngineOptions& options) {
  const int64_t positions = options.max_positions == 0 ? config.context_length : options.max_positions;
  return (positions + KvCache::kBlock - 1) / KvCache::kBlock * options.n_sequences;
}

}  // namespace

Engine::Engine(const Model& model, const EngineOptions& options)
    : model_(model),
      config_(model.config()),
      kernels_(options.kernels != nullptr ? *options.kernels : kernels::kernels_for(core::select_isa())),
      pool_(options.n_threads),
      cache_(config_, blocks_for(config_, options)) {
  const auto head_dim = static_cast<size_t>(config_.head_dim());
  require(head_dim <= kernels::kMaxHeadDim, "heads of {} dimensions are wider than the {} that this engine runs",
          head_dim, kernels::kMaxHeadDim);
}

// Tables are made as far as positions are used, doubling: a file may promise a context that no memory holds.
void Engine::extend_rope(size_t n_positions) {
  const auto head_dim = static_cast<size_t>(config_.head_dim());
  const size_t have = rope_cos_.size() / head_dim;
  if (n_positions <= have) return;
  constexpr size_t kAtLeast = 256;
  const size_t want =
      std::min(std::max({n_positions, 2 * have, kAtLeast}), static_cast<size_t>(config_.context_length));
  rope_cos_.resize(want * head_dim);
  rope_sin_.resize(want * head_dim);
  const std::vector<double> frequencies = core::rope_frequencies(config_);
  for (size_t d = 0; d < head_dim; ++d) {
    const double frequency = frequencies[d / 2];
    const double sign = d % 2 == 0 ? -1.0 : 1.0;
    for (size_t position = have; position < want; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      rope_cos_[position * head_dim + d] = static_cast<float>(std::cos(angle));
      rope_sin_[position * head_dim + d] = static_cast<float>(sign * std::sin(angle));
    }
  }
}

void Engine::check(std::span<const Row> rows, std::span<const float> logits) const {
  size_t wanted = 0;
  std::map<SequenceId, int64_t> next;
  for (const Row& row : rows) {
    require(row.token >= 0 && row.token < config_.vocab_size, "token {} is outside the vocabulary of {}", row.token,
            config_.vocab_size);
    const auto [entry, first] = next.try_emplace(row.sequence, 0);
    if (first) entry->second = cache_.length(row.sequence);
    require(row.position == entry->second, "sequence {} continues at position {}, not {}", row.sequence, entry->second,
            row.position);
    require(row.position < config_.context_length, "position {} is past the context of {}", row.position,
            config_.context_length);
    ++entry->second;
    wanted += row.wants_logits ? 1 : 0;
  }
  require(logits.size() == wanted * static_cast<size_t>(config_.vocab_size),
          "{} rows want logits of {} tokens each, but there is room for {} numbers", wanted, config_.vocab_size,
          logits.size());
}

void Engine::forward(std::span<const Row> rows, std::span<float> logits, const Observer& observer) {
  check(rows, logits);
  reserve(rows);
  while (!rows.empty()) {
    const auto slice = rows.first(std::min(rows.size(), kMaxRows));
    const auto wanted =
        static_cast<size_t>(std::count_if(slice.begin(), slice.end(), [](const Row& r) { return r.wants_logits; }));
    const size_t n_logits = wanted * static_cast<size_t>(config_.vocab_size);
    forward_slice(slice, logits.first(n_logits), observer);
    rows = rows.subspan(slice.size());
    logits = logits.subspan(n_logits);
  }
}

void Engine::reserve(std::span<const Row> rows) {
  std::map<SequenceId, int64_t> lengths;
  for (const Row& row : rows) lengths.try_emplace(row.sequence, cache_.length(row.sequence));
  try {
    for (const Row& row : rows) {
      cache_.reserve(row.sequence, row.position, 1);
      extend_rope(static_cast<size_t>(row.position) + 1);
    }
  } catch (...) {
    for (const auto& [sequence, length] : lengths) cache_.truncate(sequence, length);
    throw;
  }
}

// The whole model on one screen: what a Llama does to a batch of tokens.
void Engine::forward_slice(std::span<const Row> rows, std::span<float> logits, const Observer& observer) {
  const size_t n = rows.size();
  const std::vector<size_t> runs = runs_of(rows);
  const auto dim = static_cast<size_t>(config_.dim);
  const auto kv_dim = static_cast<size_t>(config_.kv_dim());
  const auto hidden_dim = static_cast<size_t>(config_.hidden_dim);
  for (auto* buffer : {&x_, &normed_, &q_, &heads_}) buffer->resize(n * dim);
  for (auto* buffer : {&k_, &v_}) buffer->resize(n * kv_dim);
  for (auto* buffer : {&gate_, &up_}) buffer->resize(n * hidden_dim);
  const auto observe = [&](const char* what, std::span<const float> values, size_t n_rows, int64_t layer = -1) {
    if (observer) observer(layer < 0 ? what : fmt::format("layers.{}.{}", layer, what), values, n_rows);
  };

  embed(rows);
  observe("embedding", x_, n);
  for (size_t l = 0; l < model_.layers.size(); ++l) {
    const LayerWeights& w = model_.layers[l];
    const auto layer = static_cast<int64_t>(l);

    normalize(x_.data(), w.attention_norm, n, normed_.data());
    observe("attention_norm", normed_, n, layer);
    project(normed_.data(), n, dim,
            std::array{Projection{w.wq, q_.data()}, Projection{w.wk, k_.data()}, Projection{w.wv, v_.data()}});
    rotate_and_store(rows, l);
    observe("query", q_, n, layer);
    observe("key", k_, n, layer);
    observe("value", v_, n, layer);
    attend(rows, runs, l);
    observe("heads", heads_, n, layer);
    project(heads_.data(), n, dim, std::array{Projection{w.wo, x_.data()}}, /*accumulate=*/true);
    observe("attention_residual", x_, n, layer);

    normalize(x_.data(), w.ffn_norm, n, normed_.data());
    observe("ffn_norm", normed_, n, layer);
    project(normed_.data(), n, dim, std::array{Projection{w.w1, gate_.data()}, Projection{w.w3, up_.data()}});
    activate(n);
    observe("ffn_hidden", gate_, n, layer);
    project(gate_.data(), n, hidden_dim, std::array{Projection{w.w2, x_.data()}}, /*accumulate=*/true);
    observe("ffn_residual", x_, n, layer);
  }

  const size_t wanted = gather_wanted(rows);
  if (wanted == 0) return;
  normalize(x_.data(), model_.output_norm, wanted, normed_.data());
  observe("norm", std::span(normed_).first(wanted * dim), wanted);
  project(normed_.data(), wanted, dim, std::array{Projection{model_.output, logits.data()}});
  observe("logits", logits, wanted);
}

void Engine::embed(std::span<const Row> rows) {
  const auto dim = static_cast<size_t>(config_.dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    model_.token_embedding.row(static_cast<size_t>(rows[i].token), std::span(x_).subspan(i * dim, dim));
  }
}

void Engine::normalize(const float* x, const float* weight, size_t n_rows, float* out) {
  const auto dim = static_cast<size_t>(config_.dim);
  pool_.parallel_for(n_rows, 1, n_rows * dim / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) kernels_.rms_norm(x + i * dim, weight, config_.norm_eps, dim, out + i * dim);
  });
}

// Shares the outputs of all projections of one input among the threads, as if their matrices stood in one.
void Engine::project(const float* x, size_t n_rows, size_t k, std::span<const Projection> projections,
                     bool accumulate) {
  size_t n_out = 0;
  bool groups = false;
  for (const Projection& p : projections) {
    n_out += p.weight.n_out;
    groups = groups || p.weight.in_groups();
  }
  const Inputs in{
      .floats = x, .quantized = groups ? quantize(x, n_rows, k) : kernels::QuantizedRows{}, .n_rows = n_rows};
  pool_.parallel_for(n_out, kernels::kLanes, n_rows * n_out * k / kWorthAThread, [&](size_t begin, size_t end) {
    size_t first = 0;
    for (const Projection& p : projections) {
      const size_t from = std::max(begin, first);
      const size_t to = std::min(end, first + p.weight.n_out);
      if (from < to) p.weight.multiply(kernels_, in, from - first, to - first, p.out, p.weight.n_out, accumulate);
      first += p.weight.n_out;
    }
  });
}

kernels::QuantizedRows Engine::quantize(const float* x, size_t n_rows, size_t k) {
  const size_t groups = k / kernels::kGroupColumns;
  quantized_.resize(n_rows * k);
  for (auto* buffer : {&scales_, &scaled_sums_}) buffer->resize(n_rows * groups);
  sums_.resize(n_rows * groups * 2);
  pool_.parallel_for(n_rows, 1, n_rows * k / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      kernels_.quantize(x + i * k, k,
                        {.values = &quantized_[i * k],
                         .scales = &scales_[i * groups],
                         .scaled_sums = &scaled_sums_[i * groups],
                         .sums = &sums_[i * groups * 2]});
    }
  });
  return {
      .values = quantized_.data(), .scales = scales_.data(), .scaled_sums = scaled_sums_.data(), .sums = sums_.data()};
}

void Engine::rotate_and_store(std::span<const Row> rows, size_t layer) {
  const auto head_dim = static_cast<size_t>(config_.head_dim());
  const auto dim = static_cast<size_t>(config_.dim);
  const auto kv_dim = static_cast<size_t>(config_.kv_dim());
  pool_.parallel_for(rows.size(), 1, rows.size() * 8 * dim / kWorthAThread, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(rows[i].position) * head_dim;
      float* k = k_.data() + i * kv_dim;
      kernels_.rope(q_.data() + i * dim, &rope_cos_[at], &rope_sin_[at], static_cast<size_t>(config_.n_heads),
                    head_dim);
      kernels_.rope(k, &rope_cos_[at], &rope_sin_[at], static_cast<size_t>(config_.n_kv_heads), head_dim);
      cache_.store(rows[i].sequence, static_cast<int64_t>(layer), rows[i].position, k, v_.data() + i * kv_dim);
    }
  });
}

void Engine::attend(std::span<const Row> rows, std::span<const size_t> runs, size_t layer) {
  const auto head_dim = static_cast<size_t>(config_.head_dim());
  const auto dim = static_cast<size_t>(config_.dim);
  const auto n_kv_heads = static_cast<size_t>(config_.n_kv_heads);
  const size_t group = static_cast<size_t>(config_.n_heads) / n_kv_heads;
  size_t work = 0;
  for (const Row& row : rows) work += static_cast<size_t>(row.position + 1) * 2 * dim;
  const size_t n_runs = runs.size() - 1;
  // Head by head, so that one head's keys and values stay near, and in stripes, since later rows see more positions.
  const size_t items = n_kv_heads * n_runs;
  const size_t stripes = std::clamp<size_t>(work / kWorthAThread, 1, std::min(items, pool_.size()));
  const auto attend_run = [&](size_t item) {
    const size_t head = item / n_runs;
    const size_t begin = runs[item % n_runs];
    const Row& row = rows[begin];
    const size_t at = begin * dim + head * group * head_dim;
    kernels_.attention({.query = q_.data() + at,
                        .blocks = cache_.blocks(row.sequence),
                        .key_offset = cache_.key_offset(static_cast<int64_t>(layer), static_cast<int64_t>(head)),
                        .value_offset = cache_.value_offset(static_cast<int64_t>(layer), static_cast<int64_t>(head)),
                        .n_positions = static_cast<size_t>(row.position + 1),
                        .n_rows = runs[item % n_runs + 1] - begin,
                        .row_stride = dim,
                        .n_queries = group,
                        .head_dim = head_dim,
                        .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))},
                       heads_.data() + at);
  };
  pool_.parallel_for(stripes, 1, [&](size_t begin, size_t end) {
    for (size_t stripe = begin; stripe < end; ++stripe) {
      for (size_t item = stripe; item < items; item += stripes) attend_run(item);
    }
  });
}

void Engine::activate(size_t n_rows) {
  const size_t count = n_rows * static_cast<size_t>(config_.hidden_dim);
  pool_.parallel_for(count, kernels::kLanes, count * 16 / kWorthAThread, [&](size_t begin, size_t end) {
    kernels_.swiglu(gate_.data() + begin, up_.data() + begin, end - begin, gate_.data() + begin);
  });
}

// Moves the rows that want logits to the front of the residual stream; says how many.
size_t Engine::gather_wanted(std::span<const Row> rows) {
  const auto dim = static_cast<size_t>(config_.dim);
  size_t wanted = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].wants_logits) continue;
    if (i != wanted) std::copy_n(x_.data() + i * dim, dim, x_.data() + wanted * dim);
    ++wanted;
  }
  return wanted;
}

}  // namespace folio::infer
