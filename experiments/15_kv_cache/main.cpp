// Study: how much work does a KV cache save, and how should its memory be allocated? The results are explained in
// README.md.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <ctime>

#include "experiments/15_kv_cache/counting_kernels.h"
#include "experiments/15_kv_cache/generation.h"
#include "experiments/15_kv_cache/paging.h"
#include "experiments/common/readers_model.h"
#include "experiments/common/report.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

namespace folio::experiments {
namespace {

struct Counted {
  const char* name;
  uint64_t (*count)(const Work&);
  double without, with;        // expected slopes of ln count over ln length without and with a cache; 0: not checked
  const char* line = nullptr;  // name in the picture; null: not drawn
};

constexpr std::array kCounted{
    Counted{"multiply-adds in matrices", [](const Work& w) { return w.matrix_multiply_adds; }, 2, 1, "matrices"},
    Counted{"multiply-adds in attention", [](const Work& w) { return w.attention_multiply_adds; }, 3, 2, "attention"},
    Counted{"all multiply-adds", [](const Work& w) { return w.multiply_adds(); }, 2, 1},
    Counted{"bytes of matrices", [](const Work& w) { return w.matrix_bytes; }, 1, 1},
    Counted{"bytes of keys and values", [](const Work& w) { return w.cache_bytes; }, 0, 0},
    Counted{"bytes of activations", [](const Work& w) { return w.activation_bytes; }, 2, 1},
    Counted{"all bytes", [](const Work& w) { return w.bytes(); }, 0, 0}};

// Distributions of sequence lengths with a given mean, as quantile functions. running_sequences() limits exponential
// and Pareto lengths to the context.
constexpr std::array kLengths{
    Lengths{"exponential", [](double u, double mean) { return -mean * std::log(1.0 - u); }},
    Lengths{"all of one length", [](double, double mean) { return mean; }},
    Lengths{"uniform from 0", [](double u, double mean) { return 2.0 * mean * u; }},
    Lengths{"four of five short", [](double u, double mean) { return u < 0.8 ? mean / 4.0 : 4.0 * mean; }},
    Lengths{"Pareto, exponent 2", [](double u, double mean) { return 0.5 * mean / std::sqrt(1.0 - u); }}};

// Shows the memory that cache blocks waste for each length distribution: in positions per sequence, and in percent.
void show_lengths(Report& report, int64_t context) {
  Report::Rows rows;
  for (const Lengths& lengths : kLengths) {
    for (const double mean : {60.0, 499.0}) {
      const auto sequences = running_sequences(lengths, 1000, mean, context, report.seed());
      rows.push_back({fmt::format("{}, mean {:g}", lengths.name, mean)});
      int64_t used = 0;
      for (const Sequence& s : sequences) used += s.now;
      rows.back().push_back(static_cast<double>(used) / 1000.0);
      for (const int64_t block : {16, 32, 64, 256}) {
        int64_t held = 0;
        for (const Sequence& s : sequences) held += held_in_blocks(s.now, block);
        rows.back().push_back(static_cast<double>(held - used) / 1000.0);
        rows.back().push_back(100.0 * (1.0 - ratio(used, held)));
      }
    }
  }
  report.table("Positions that a sequence wastes on average, by the distribution of lengths",
               {"lengths", "positions in use", "blocks of 16", "%", "of 32", "% ", "of 64", "%  ", "of 256", "%   "},
               rows);
}

// Shows the work of generation with and without a cache. Returns the bytes of a position in the engine's cache.
uint64_t count_work(Report& report) {
  const core::StoredModel model = random_model({.vocab_size = 66}, report.seed());
  infer::Cpu cpu({.n_threads = 1, .kernels = &counting_kernels()});
  infer::Runner runner(model, cpu, {.type = infer::CacheType::F16});
  const size_t tokens = report.short_form() ? 128 : 256;
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double start = processor_seconds();
  const Generation without = generate(runner, tokens, false);
  const double seconds_without = processor_seconds() - start;
  const Generation with = generate(runner, tokens, true);
  const double seconds_with = processor_seconds() - start - seconds_without;
  report.value("processor seconds without a cache", seconds_without);
  report.value("processor seconds with a cache", seconds_with);
  report.value("the first over the second", seconds_without / seconds_with);

  int64_t different = 0;
  for (size_t i = 0; i < tokens; ++i) {
    different +=
        std::memcmp(without.logits[i].data(), with.logits[i].data(), with.logits[i].size() * sizeof(float)) != 0;
  }
  report.check_equal("tokens whose logits differ in a bit, with and without the cache", different, 0);
  // Count the weights of all matrices, including the tied embedding. Norms have only one dimension.
  int64_t in_matrices = 0;
  for (const core::TensorView& tensor : model.tensors) {
    in_matrices += tensor.shape.size() > 1 ? tensor.shape[0] * tensor.shape[1] : 0;
  }
  report.value("weights in matrices", in_matrices);
  report.check_equal("multiply-adds in matrices with the cache, counted", with.work.back().matrix_multiply_adds,
                     static_cast<int64_t>(tokens) * in_matrices);

  Report::Rows rows;
  std::vector<train::LineChart::Series> lines;
  for (const Counted& c : kCounted) {
    const double slopes[2] = {slope(without, c.count), slope(with, c.count)};
    const uint64_t counts[2] = {c.count(without.work.back()), c.count(with.work.back())};
    rows.push_back({c.name, counts[0], slopes[0], counts[1], slopes[1], ratio(counts[0], counts[1])});
    if (c.without > 0) {
      report.check_below(fmt::format("{} without a cache: the slope's distance from {}", c.name, c.without),
                         std::abs(slopes[0] - c.without), 0.15);
      report.check_below(fmt::format("{} with a cache: the slope's distance from {}", c.name, c.with),
                         std::abs(slopes[1] - c.with), 0.15);
    }
  }
  for (const auto& [g, name] : {std::pair{&without, "without"}, std::pair{&with, "with"}}) {
    for (const Counted& c : kCounted) {
      if (c.line == nullptr) continue;
      auto& line = lines.emplace_back(train::LineChart::Series{fmt::format("{}, {}", c.line, name), {}});
      for (size_t n = 1; n <= tokens; n *= 2) {
        line.points.push_back({static_cast<double>(n), static_cast<double>(c.count(g->work[n - 1])) / 1e6});
      }
    }
  }
  report.table(fmt::format("{} tokens, and the slope from 32 to {}", tokens, tokens),
               {"", "without", "slope", "with", "slope ", "without / with"}, rows);
  report.picture("work.svg", train::LineChart{.title = "Writing n tokens with and without a KV cache",
                                              .x_label = "tokens written, n",
                                              .y_label = "multiply-adds from the first token on, in millions",
                                              .series = lines,
                                              .log_x = true,
                                              .log_y = true});
  return runner.block_bytes() / infer::kBlockPositions;
}

// Compares cache types on the same tokens: bytes, and the distance of the logits from those with an F32 cache.
void compare_types(Report& report) {
  const core::StoredModel model = random_model({.vocab_size = 66}, report.seed());
  infer::Cpu cpu({.n_threads = 1});
  const size_t tokens = report.short_form() ? 64 : 256;
  struct Type {
    const char* name;
    infer::CacheType type;
    double most;  // upper bound of the relative distance from F32 logits; 0: not checked
  };
  std::vector<float> exact;
  uint64_t exact_bytes = 0;
  Report::Rows rows;
  for (const Type& t : {Type{"F32", infer::CacheType::F32, 0.0}, Type{"F16", infer::CacheType::F16, 0.001},
                        Type{"Q8_0", infer::CacheType::Q8_0, 0.02}}) {
    infer::Runner runner(model, cpu, {.type = t.type});
    const auto logits = logits_of_random_tokens(runner, tokens, report.seed());
    const uint64_t bytes = runner.block_bytes() / infer::kBlockPositions;
    if (exact.empty()) exact = logits, exact_bytes = bytes;
    const double distance = relative_distance(logits, exact);
    rows.push_back({t.name, bytes, ratio(exact_bytes, bytes), distance});
    if (t.most > 0) report.check_below(fmt::format("distance of the logits with {}", t.name), distance, t.most);
  }
  report.table(fmt::format("{} tokens with each type of cache", tokens),
               {"", "bytes of a position", "positions in the memory of one in F32", "distance of the logits"}, rows);
}

// Compares the cache size per position and layer of attention variants: elements by formula, and the engine's bytes.
void compare_attention(Report& report) {
  core::ModelConfig mha{.vocab_size = 66}, gqa = mha, mqa = mha, mla = mha;
  gqa.n_kv_heads = 2;
  mqa.n_kv_heads = 1;
  mla.family = core::Family::Youtu;
  mla.kv_lora_rank = 4 * mha.head_dim;
  mla.qk_nope_head_dim = mla.v_head_dim = mha.head_dim;
  mla.qk_rope_head_dim = mha.head_dim / 2;
  mla.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  Report::Rows rows;
  for (const auto& [name, config] : {std::pair{"MHA", mha}, {"GQA, 2 of 4 heads", gqa}, {"MQA", mqa}, {"MLA", mla}}) {
    const core::StoredModel model = random_model(config, report.seed());
    infer::Cpu cpu({.n_threads = 1});
    const int64_t elements = config.latent() ? config.latent_dim() : 2 * config.kv_dim();
    rows.push_back({name, elements});
    for (const auto type : {infer::CacheType::F32, infer::CacheType::F16, infer::CacheType::Q8_0}) {
      const infer::Runner runner(model, cpu, {.type = type});
      const auto layers = static_cast<uint64_t>(infer::kBlockPositions * config.n_layers);
      rows.back().push_back(static_cast<int64_t>(runner.block_bytes() / layers));
    }
    report.check_equal(fmt::format("{}: bytes of a position and layer in F16", name), rows.back()[3].get<int64_t>(),
                       2 * elements);
  }
  report.table("Bytes of a position and layer by attention", {"", "elements", "F32", "F16", "Q8_0"}, rows);
}

void count_paging(Report& report, uint64_t position_bytes) {
  constexpr int64_t kContext = 2048;
  constexpr double kMean = 499;
  const std::vector<Sequence> sequences = running_sequences(kLengths[0], 1000, kMean, kContext, report.seed());
  const auto held = [&](auto&& of_sequence) {
    int64_t positions = 0;
    for (const Sequence& s : sequences) positions += of_sequence(s);
    return positions;
  };
  const int64_t used = held([](const Sequence& s) { return s.now; });
  report.value("positions in use", used);
  Report::Rows rows;
  train::LineChart::Series line{"blocks", {}};
  const auto add = [&](const std::string& name, int64_t positions, int64_t entries) {
    const double wasted = 1.0 - ratio(used, positions);
    rows.push_back({name, static_cast<double>(positions) * static_cast<double>(position_bytes) / 1e6,
                    static_cast<double>(positions - used) * static_cast<double>(position_bytes) / 1e6, 100.0 * wasted,
                    100'000 * kContext / positions, static_cast<double>(entries) / 1000.0});
    return wasted;
  };
  const double whole = add("the whole context", 1000 * kContext, 0);
  add("the final length, if it were known", held([](const Sequence& s) { return s.final; }), 0);
  double of_engine = 0.0;
  for (int64_t block = 256; block >= 1; block /= 2) {
    const int64_t positions = held([&](const Sequence& s) { return held_in_blocks(s.now, block); });
    const double wasted = add(fmt::format("blocks of {}", block), positions, positions / block);
    line.points.insert(line.points.begin(), {static_cast<double>(block), 100.0 * wasted});
    if (block != infer::kBlockPositions) continue;
    of_engine = wasted;
    report.check_equal("blocks in use, by the engine's own bookkeeping", engine_blocks(sequences), positions / block);
  }
  report.check_above("share of the memory that whole contexts waste", whole, 0.8);
  report.check_below("share that the engine's blocks waste", of_engine, 0.1);
  report.table(
      fmt::format("1000 sequences, {} positions of {} bytes in use", used, position_bytes),
      {"reserved", "MB", "MB wasted", "wasted %", "sequences in the memory of 100 contexts", "blocks of a sequence"},
      rows);
  report.picture("paging.svg", train::LineChart{.title = "Memory of the KV cache that holds nothing",
                                                .x_label = "positions in a block",
                                                .y_label = "share of the reserved memory that is wasted, %",
                                                .series = {line},
                                                .references = {{"the whole context", 100.0 * whole}},
                                                .log_x = true});
  show_lengths(report, kContext);

  constexpr int64_t kPrompt = 500;
  const auto shared = engine_blocks_of_shared_prompt(kPrompt, 100);
  report.value("blocks of 100 sequences that continue a prompt of 500", shared.blocks);
  report.value("blocks of the same without sharing", 100 * infer::blocks_for(kPrompt + 1));
  report.value("blocks of the same that were copied", shared.copies);
  report.check_below("100 sequences that share a prompt: their blocks, as a share of those without sharing",
                     static_cast<double>(shared.blocks) / (100.0 * infer::blocks_for(kPrompt + 1)), 0.1);
}

void study(Report& report) {
  count_paging(report, count_work(report));
  compare_types(report);
  compare_attention(report);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run_study(argc, argv, "15_kv_cache", folio::experiments::study);
}
