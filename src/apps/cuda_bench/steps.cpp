// Times whole steps of a model with random weights: the latency from one token to the next, including sampling and the
// copy of the token to the host. The bytes of a step are the weights, keys and values that it must read.
#include <algorithm>
#include <chrono>
#include <deque>

#include "apps/cuda_bench/bench.h"
#include "apps/cuda_bench/models.h"
#include "core/error.h"
#include "core/random.h"
#include "core/seconds_since.h"
#include "infer/cuda/cuda.h"
#include "infer/forward/runner.h"

namespace folio::infer::gpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A model on the GPU, for which decode steps and prompts of random tokens can be timed.
class Loaded {
 public:
  Loaded(const Bench& bench, const core::StoredModel& model, bool fast, int64_t positions)
      : bench_(bench),
        model_(model),
        machine_(make_cuda({.device = bench.options.device, .cache_bytes = {}, .fast = fast, .on_progress = {}})),
        runner_(model, *machine_, {.max_positions = positions, .n_sequences = 1, .type = bench.options.cache_type()}) {}

  /// Returns the median microseconds of a decode step of `batch` sequences that start with `context` positions each.
  double decode(int64_t batch, int64_t context) {
    std::deque<ScopedSequence> sequences;
    for (int64_t b = 0; b < batch; ++b) {
      sequences.emplace_back(runner_.cache());
      read(sequences.back().id(), tokens(context), nullptr);
    }
    std::vector<double> times;
    for (int repetition = 0; repetition <= bench_.options.effort.repetitions; ++repetition) {
      std::vector<std::vector<int32_t>> texts(static_cast<size_t>(batch), tokens(context + 1));
      const auto start = Clock::now();
      for (int64_t i = 0; i < bench_.options.tokens; ++i) step(sequences, texts);
      times.push_back(1e6 * core::seconds_since(start) / static_cast<double>(bench_.options.tokens));
      for (const ScopedSequence& s : sequences) runner_.cache().truncate(s.id(), context);
    }
    times.erase(times.begin());  // the warm-up repetition, which captures the steps' graphs
    return median(times);
  }

  /// Returns the median microseconds from the start of an n-token prompt to its first output token.
  double prompt(int64_t n) {
    std::vector<double> times;
    const std::vector<int32_t> text = tokens(n);
    for (int repetition = 0; repetition <= bench_.options.effort.repetitions; ++repetition) {
      const ScopedSequence sequence(runner_.cache());
      const auto start = Clock::now();
      read(sequence.id(), text, &greedy_);
      times.push_back(1e6 * core::seconds_since(start));
    }
    times.erase(times.begin());
    return median(times);
  }

 private:
  [[nodiscard]] std::vector<int32_t> tokens(int64_t n) const {
    std::vector<int32_t> all;
    const auto vocab_size = static_cast<uint64_t>(model_.config.vocab_size);
    for (int64_t i = 0; i < n; ++i) {
      all.push_back(static_cast<int32_t>(core::random_below(11, static_cast<uint64_t>(i), vocab_size)));
    }
    return all;
  }

  // Runs the forward pass of a prompt, at most max_rows() tokens at a time. Samples a token if `sampler` isn't null.
  void read(SequenceId sequence, const std::vector<int32_t>& text, Sampler* sampler) {
    for (size_t begin = 0; begin < text.size(); begin += runner_.max_rows()) {
      const size_t end = std::min(text.size(), begin + runner_.max_rows());
      std::vector<Row> rows;
      for (size_t i = begin; i < end; ++i) {
        rows.push_back(
            {.token = text[i], .sequence = sequence, .position = static_cast<int64_t>(i), .wants_logits = false});
      }
      if (end == text.size()) {
        rows.back().sampler = sampler;
        rows.back().history = text;
      }
      static_cast<void>(runner_.forward(rows));
    }
  }

  void step(const std::deque<ScopedSequence>& sequences, std::vector<std::vector<int32_t>>& texts) {
    std::vector<Row> rows;
    for (size_t b = 0; b < sequences.size(); ++b) {
      rows.push_back({.token = texts[b].back(),
                      .sequence = sequences[b].id(),
                      .position = static_cast<int64_t>(texts[b].size()) - 1,
                      .wants_logits = false,
                      .sampler = &greedy_,
                      .history = texts[b]});
    }
    const auto drawn = runner_.forward(rows).tokens;
    for (size_t b = 0; b < sequences.size(); ++b) {
      texts[b].push_back(token_of(drawn[b], static_cast<int64_t>(texts[b].size())));
    }
  }

  const Bench& bench_;
  const core::StoredModel& model_;
  std::unique_ptr<Machine> machine_;
  Runner runner_;
  Sampler greedy_{{.temperature = 0.0F}, {}};
};

// Returns the KV cache positions that the largest measurement needs, with each sequence rounded up to whole blocks.
int64_t positions_of(const Options& o) {
  const auto whole = [](int64_t n) { return blocks_for(n) * kBlockPositions; };
  int64_t most = whole(o.prompt);
  for (const int64_t context : o.contexts) most = std::max(most, whole(context + o.tokens));
  for (const int64_t batch : o.batches) most = std::max(most, batch * whole(o.batch_context + o.tokens));
  return most;
}

core::StoredModel model_of(const Bench& bench, const std::string& shape_name, const std::string& type) {
  core::ThreadPool pool;
  return random_model(shape(shape_name, positions_of(bench.options)), type_of(type), pool);
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

void time_decoding(const Bench& bench, const std::string& shape_name) {
  const Options& o = bench.options;
  for (const std::string& type : o.types) {
    const core::StoredModel model = model_of(bench, shape_name, type);
    const auto weights = static_cast<double>(bytes_of_token(model));
    const auto position = static_cast<double>(bytes_of_position(model.config, !o.f32_cache));
    for (const bool fast : {false, true}) {
      Loaded loaded(bench, model, fast, positions_of(o));
      const auto add = [&](int64_t batch, int64_t context) {
        const double us = loaded.decode(batch, context);
        // Mean number of positions of a sequence while it decodes.
        const double positions = static_cast<double>(context) + static_cast<double>(o.tokens + 1) / 2;
        const double bytes = weights + static_cast<double>(batch) * positions * position;
        bench.results.add({{"part", "decode"},
                           {"shape", shape_name},
                           {"type", type},
                           {"fast", fast},
                           {"batch", batch},
                           {"context", context},
                           {"us", us},
                           {"tokens_per_s", static_cast<double>(batch) * 1e6 / us},
                           {"gb", bytes / 1e9},
                           {"bound_us", bytes / bench.bandwidth * 1e6},
                           {"share_of_copy", bytes / us * 1e6 / bench.bandwidth}});
      };
      for (const int64_t context : o.contexts) add(1, context);
      for (const int64_t batch : o.batches) add(batch, o.batch_context);
    }
  }
}

void time_prompt(const Bench& bench, const std::string& shape_name) {
  const Options& o = bench.options;
  for (const std::string& type : o.types) {
    const core::StoredModel model = model_of(bench, shape_name, type);
    const double operations =
        static_cast<double>(o.prompt) * operations_of_row(model.config) + operations_of_logits(model.config);
    for (const bool fast : {false, true}) {
      const double us = Loaded(bench, model, fast, positions_of(o)).prompt(o.prompt);
      bench.results.add({{"part", "prompt"},
                         {"shape", shape_name},
                         {"type", type},
                         {"fast", fast},
                         {"rows", o.prompt},
                         {"us", us},
                         {"tokens_per_s", static_cast<double>(o.prompt) * 1e6 / us},
                         {"tflop_per_s", operations / us / 1e6}});
    }
  }
}

}  // namespace folio::infer::gpu::bench
