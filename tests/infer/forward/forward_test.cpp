// Tests infer/forward: results match a Llama's formulas. On each machine, they depend only on a row's own sequence, not
// on how a prompt is split, other rows of the batch, the number of threads or the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "infer/forward/runner.h"
#include "infer/reference/kernels.h"
#include "tests/infer/machines.h"
#include "tests/infer/reference/textbook.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::machine_kinds;
using test::MachineKind;
using test::random_tokens;
using test::rows_of;
using test::run;
using test::RunnerOn;
using test::same_bits;
using test::Shape;
using test::Textbook;

size_t vocab_of(const core::StoredModel& model) { return static_cast<size_t>(model.config.vocab_size); }

bool is_emulated(const MachineKind& kind) { return kind.name.find("cuda") != kind.name.npos; }

// A shape of a model and the machine that runs it. All shapes are tested on the CPU, a few on the other machines.
struct Case {
  Shape shape;
  MachineKind kind;
};

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const MachineKind& kind : machine_kinds()) {
    if (kind.model.latent()) continue;
    for (const Shape& shape : test::all_shapes()) {
      const bool one_of_few = shape.name == "gqa_head10_untied" || shape.name == "mqa_head2_tied" ||
                              shape.name == "mha_head6_untied" || shape.name == "Q8_0";
      const bool fits = kind.name != "two_shards" || shard_tiles(static_cast<size_t>(shape.config.dim)) >= 2;
      const bool with_experts = shape.name == (is_emulated(kind) ? "mixtral" : "qwen2_moe");
      const bool latent = shape.name == "deepseek_v3";
      if (kind.name == "cpu" || (one_of_few && fits) || with_experts || latent) cases.push_back({shape, kind});
    }
  }
  return cases;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.shape.name << " on " << c.kind.name; }

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.shape.name + "_on_" + info.param.kind.name;
}

class ForwardPass : public ::testing::TestWithParam<Case> {
 protected:
  ForwardPass() : model_(test::random_model_of(GetParam().shape)) {}
  [[nodiscard]] std::vector<int32_t> tokens(size_t n, uint64_t seed = 1) const {
    return random_tokens(n, seed, model_.config.vocab_size);
  }
  [[nodiscard]] const MachineKind& kind() const { return GetParam().kind; }
  // Returns the logits of all rows of one sequence, computed on a new machine.
  [[nodiscard]] std::vector<float> alone(std::span<const int32_t> text, const CpuOptions& cpu = {.n_threads = 1},
                                         const Observer& observer = {}) const {
    return test::logits_on(kind(), model_, text, cpu, observer);
  }
  core::StoredModel model_;
};

INSTANTIATE_TEST_SUITE_P(Cases, ForwardPass, ::testing::ValuesIn(cases()), case_name);

// The tolerance adds the rounding errors of all stages: u sqrt(K) for each sum of K floats with unit roundoff u (Higham
// 2002, 2.8), and the error of each value that is quantized to 8 bits or rounded for a narrower KV cache.
TEST_P(ForwardPass, MatchesTheTextbookModel) {
  const auto& c = model_.config;
  const auto text = tokens(static_cast<size_t>(std::min<int64_t>(c.context_length, c.dim > 1000 ? 34 : 70)));
  Textbook::Choices choices;
  const auto got = alone(text, {.n_threads = 1}, [&](const std::string& name, std::span<const float> values, size_t n) {
    if (!name.ends_with(".routes")) return false;
    const size_t layer = std::stoul(name.substr(std::string("layers.").size()));
    const size_t n_experts = values.size() / n;
    for (size_t row = 0; row < n; ++row) {
      for (const float route : values.subspan(row * n_experts, n_experts)) {
        choices[{layer, row}].push_back(route != 0.0F);
      }
      EXPECT_EQ(std::ranges::count(choices[{layer, row}], true), c.experts_per_token);
    }
    return false;
  });
  Textbook textbook(model_);
  textbook.set_choices(choices);
  const auto exact = textbook.logits(text);
  double square = 0.0;
  for (const auto& row : exact) {
    for (const double v : row) square += v * v;
  }
  const double size = std::sqrt(square / static_cast<double>(got.size()));
  const double widest = std::sqrt(static_cast<double>(std::max(c.dim, c.hidden_dim)));
  const int64_t of_experts = c.n_experts > 0 ? 1 : 0;
  const core::FamilyInfo& family = core::info(c.family);
  const int64_t of_norms = (family.qk_norm != core::QkNorm::None ? 1 : 0) + (family.post_norms ? 2 : 0);
  double tolerance =
      kind().roundoff * widest * static_cast<double>((8 + of_norms + 3 * of_experts) * c.n_layers + 2) * size;
  if (core::quant_info(GetParam().shape.type) != nullptr) {
    tolerance += std::sqrt(32.0 / 12.0) / 127.0 * static_cast<double>((4 + of_experts) * c.n_layers + 1) * size;
  }
  const double rounding_of_cache[] = {0.0, 0x1.0p-11, std::sqrt(32.0 / 12.0) / 127.0};  // for F32, F16, Q8_0
  tolerance += rounding_of_cache[static_cast<size_t>(kind().cache_type)] * (1.0 + 2.0 * textbook.largest_score()) *
               static_cast<double>(c.n_layers) * size;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], exact[i / vocab_of(model_)][i % vocab_of(model_)], tolerance) << "logit " << i;
  }
}

TEST_P(ForwardPass, EachInstructionSetGivesTheReferencesBytes) {
  const auto text = tokens(GetParam().shape.config.dim > 200 ? 7 : 67);
  const auto expected = alone(text, {.n_threads = 1, .kernels = &kernels::reference_kernels()});
  for (const core::Isa isa : kernels::isas_with_kernels()) {
    EXPECT_TRUE(same_bits(alone(text, {.n_threads = 1, .kernels = &kernels::kernels_for(isa)}), expected))
        << core::isa_name(isa);
  }
}

TEST_P(ForwardPass, APromptCutAnywhereEqualsTheWhole) {
  const bool wide = GetParam().shape.config.dim > 200;
  const auto text = tokens(wide ? 40 : 68);
  const auto expected = alone(text);
  RunnerOn engine(kind(), model_);
  std::vector<size_t> cuts;
  for (size_t cut = 1; cut < text.size(); cut += wide ? 13 : 1) cuts.push_back(cut);
  // On an emulated GPU, split the prompt only near boundaries of KV blocks (32 positions) and kernel tiles (8 and 16).
  if (is_emulated(kind()) && std::getenv("FOLIO_LONG") == nullptr) {
    cuts = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 67};
    std::erase_if(cuts, [&](size_t cut) { return cut >= text.size(); });
  }
  for (const size_t cut : cuts) {
    const auto sequence = engine.cache().add_sequence();
    auto got = run(engine, rows_of(sequence, std::span(text).first(cut)));
    const auto rest = run(engine, rows_of(sequence, std::span(text).subspan(cut), static_cast<int64_t>(cut)));
    got.insert(got.end(), rest.begin(), rest.end());
    ASSERT_TRUE(same_bits(got, expected)) << "cut at " << cut;
    engine.cache().release(sequence);
  }
}

TEST_P(ForwardPass, RaggedBatchMatchesSingleSequences) {
  const std::vector<size_t> lengths{1, 33, 7, 64, 32, 2, 50};
  RunnerOn engine(kind(), model_, {.n_threads = 2}, {.max_positions = 1000});
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> expected;
  std::vector<SequenceId> sequences;
  for (size_t s = 0; s < lengths.size(); ++s) {
    texts.push_back(tokens(lengths[s], 10 + s));
    expected.push_back(alone(texts[s]));
    sequences.push_back(engine.cache().add_sequence());
  }
  // Each call has rows of all unfinished sequences, interleaved: 1 row of the first, 2 of the second, and so on. Every
  // third row has no logits.
  std::vector<size_t> done(lengths.size(), 0);
  for (int call = 0; call < 100; ++call) {
    std::vector<Row> rows;
    std::vector<size_t> owner;
    const size_t most = call == 0 ? 40 : 1 + static_cast<size_t>(call) % 5;
    std::vector<size_t> taken(lengths.size(), 0);
    for (size_t turn = 0; turn < most; ++turn) {
      for (size_t s = 0; s < lengths.size(); ++s) {
        if (turn > most * (s + 1) / lengths.size() || done[s] + taken[s] == lengths[s]) continue;
        const size_t at = done[s] + taken[s]++;
        rows.push_back({.token = texts[s][at],
                        .sequence = sequences[s],
                        .position = static_cast<int64_t>(at),
                        .wants_logits = rows.size() % 3 != 0});
        owner.push_back(s);
      }
    }
    if (rows.empty()) break;
    const auto got = run(engine, rows);
    const size_t vocab = vocab_of(model_);
    size_t n_logits = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].wants_logits) continue;
      ASSERT_TRUE(
          same_bits(std::span(got).subspan(n_logits++ * vocab, vocab),
                    std::span(expected[owner[i]]).subspan(static_cast<size_t>(rows[i].position) * vocab, vocab)))
          << "sequence " << owner[i] << " position " << rows[i].position << " call " << call;
    }
    for (size_t s = 0; s < lengths.size(); ++s) done[s] += taken[s];
  }
  EXPECT_EQ(done, lengths);
}

TEST_P(ForwardPass, AnyNumberOfThreadsGivesTheSameBytes) {
  const auto text = tokens(60);
  const auto expected = alone(text);
  for (const size_t threads : {2U, 3U}) {
    EXPECT_TRUE(same_bits(alone(text, {.n_threads = threads}), expected)) << threads << " threads";
    RunnerOn engine(kind(), model_, {.n_threads = threads});
    const auto sequence = engine.cache().add_sequence();
    for (size_t i = 0; i < 20; ++i) {  // in decoding, matrices are divided among threads
      const auto got = run(engine, rows_of(sequence, std::span(text).subspan(i, 1), static_cast<int64_t>(i)));
      ASSERT_TRUE(same_bits(got, std::span(expected).subspan(i * vocab_of(model_), vocab_of(model_))))
          << threads << " threads, position " << i;
    }
  }
}

TEST_P(ForwardPass, ObserverSeesEachIntermediateByName) {
  const auto& c = model_.config;
  RunnerOn engine(kind(), model_);
  auto rows = rows_of(engine.cache().add_sequence(), tokens(5));
  rows[0].wants_logits = rows[3].wants_logits = false;
  std::vector<std::string> names;
  std::map<std::string, std::vector<float>> seen;
  bool only_logits = false;  // true after the last layer's attention, where only rows with logits remain
  const auto logits = run(engine, rows, [&](const std::string& name, std::span<const float> values, size_t n_rows) {
    only_logits = only_logits || name == fmt::format("layers.{}.heads", c.n_layers - 1);
    EXPECT_EQ(n_rows, only_logits ? 3U : 5U) << name;
    const bool of_experts = name.starts_with("layers.") && c.has_experts(std::stol(name.substr(7)));
    const int64_t width = name == "logits"                                    ? c.vocab_size
                          : name.ends_with("key") || name.ends_with(".value") ? c.kv_dim()
                          : name.ends_with(".routes")                         ? c.n_experts
                          : name.ends_with(".ffn_hidden")                     ? of_experts ? c.shared_dim : c.hidden_dim
                          : name.ends_with("query")                           ? c.query_dim()
                          : name.ends_with("latent")                          ? c.latent_dim()
                          : name.ends_with(".heads")                          ? c.heads_dim()
                                                                              : c.dim;
    EXPECT_EQ(values.size(), n_rows * static_cast<size_t>(width)) << name;
    names.push_back(name);
    seen[name] = {values.begin(), values.end()};
    return false;
  });
  std::vector<std::string> expected{"embedding"};
  for (int64_t l = 0; l < c.n_layers; ++l) {
    for (const std::string what :
         {"attention_norm", "projected_query", "projected_key", "projected_latent", "query", "key", "latent", "value",
          "heads", "attention_residual", "ffn_norm", "routes", "ffn_hidden", "ffn_residual"}) {
      const bool experts = c.has_experts(l);
      if (c.latent() ? what.ends_with("key") || what == "value" : what.ends_with("latent")) continue;
      if (what == "routes" ? experts : what != "ffn_hidden" || !experts || c.shared_dim > 0) {
        expected.push_back(fmt::format("layers.{}.{}", l, what));
      }
    }
  }
  expected.insert(expected.end(), {"norm", "logits"});
  EXPECT_EQ(names, expected);
  EXPECT_TRUE(same_bits(seen["logits"], logits));
  const auto dim = static_cast<size_t>(c.dim);
  const std::vector<float> embedding = core::to_floats(model_.tensors[0]);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> row(dim);
    std::copy_n(&embedding[static_cast<size_t>(rows[i].token) * dim], dim, row.begin());
    for (float& v : row) v *= c.embedding_scale;
    EXPECT_TRUE(same_bits(std::span(seen["embedding"]).subspan(i * dim, dim), row));
  }
  // An observer doesn't change results.
  RunnerOn unwatched(kind(), model_);
  static_cast<void>(unwatched.cache().add_sequence());
  EXPECT_TRUE(same_bits(run(unwatched, rows), logits));
}

// An observer that swaps two rows of the residual stream after the last layer swaps their logits.
TEST_P(ForwardPass, TheStepContinuesWithWhatAnObserverChanges) {
  const auto& c = model_.config;
  const auto text = tokens(5);
  const auto plain = alone(text);
  const auto dim = static_cast<size_t>(c.dim);
  const std::string last = fmt::format("layers.{}.ffn_residual", c.n_layers - 1);
  std::vector<float> residual;  // (rows, dim), after the swap
  const auto swapped = alone(text, {.n_threads = 1}, [&](const std::string& name, std::span<float> values, size_t) {
    if (name != last) return false;
    std::swap_ranges(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(dim),
                     values.end() - std::ssize(values) / 5);
    residual.assign(values.begin(), values.end());
    return true;
  });
  const auto vocab = static_cast<size_t>(c.vocab_size);
  EXPECT_TRUE(same_bits(std::span(swapped).first(vocab), std::span(plain).last(vocab)));
  EXPECT_TRUE(same_bits(std::span(swapped).last(vocab), std::span(plain).first(vocab)));
  EXPECT_TRUE(same_bits(std::span(swapped).subspan(vocab, 3 * vocab), std::span(plain).subspan(vocab, 3 * vocab)));
  // Changed values are ignored if the observer returns false.
  EXPECT_TRUE(same_bits(alone(text, {.n_threads = 1},
                              [&](const std::string&, std::span<float> values, size_t) {
                                std::ranges::fill(values, 0.0F);
                                return false;
                              }),
                        plain));
  // Keys are cached after rotation (RoPE), so only changes to keys before their rotation have an effect.
  const auto without = [&](const std::string& part) {
    return alone(text, {.n_threads = 1}, [&](const std::string& name, std::span<float> values, size_t) {
      if (!name.ends_with(part)) return false;
      std::ranges::fill(values, 0.0F);
      return true;
    });
  };
  const std::string keys = c.latent() ? "latent" : "key";
  EXPECT_TRUE(same_bits(without("." + keys), plain));
  EXPECT_FALSE(same_bits(without(".projected_" + keys), plain));
  RunnerOn runner(kind(), model_);
  EXPECT_TRUE(same_bits(runner.logits_of(residual), swapped));
  if (c.logit_scale == 1.0F && c.logit_cap == 0.0F) return;
  EXPECT_FALSE(same_bits(runner.logits_of(residual, false), swapped));
}

class RunnerTest : public ::testing::TestWithParam<MachineKind> {
 protected:
  core::StoredModel model_ = test::random_model(GetParam().model);
  size_t vocab_ = vocab_of(model_);
  [[nodiscard]] std::vector<int32_t> tokens(size_t n, uint64_t seed = 1) const {
    return random_tokens(n, seed, model_.config.vocab_size);
  }
  [[nodiscard]] const MachineKind& kind() const { return GetParam(); }
  [[nodiscard]] std::vector<float> alone(std::span<const int32_t> text) const {
    return test::logits_on(kind(), model_, text);
  }
};

INSTANTIATE_TEST_SUITE_P(Machines, RunnerTest, ::testing::ValuesIn(machine_kinds()), test::kind_name);

TEST_P(RunnerTest, LogitsAreObservedOnlyIfRequested) {
  RunnerOn engine(kind(), model_);
  EXPECT_TRUE(run(engine, {}).empty());
  bool saw = false;
  run(engine, rows_of(engine.cache().add_sequence(), tokens(3), 0, false),
      [&](const std::string& name, std::span<const float>, size_t) {
        saw |= name == "logits" || name == "norm";
        return false;
      });
  EXPECT_FALSE(saw);
}

TEST_P(RunnerTest, InvalidRowsAreErrorsThatChangeNothing) {
  RunnerOn engine(kind(), model_);
  const auto text = tokens(10);
  const auto a = engine.cache().add_sequence();
  run(engine, rows_of(a, text));
  const auto vocab = static_cast<int32_t>(vocab_);
  const struct {
    std::vector<Row> rows;
    const char* says;
  } cases[] = {{{{-1, a, 10}}, "outside the vocabulary"},
               {{{vocab, a, 10}}, "outside the vocabulary"},
               {{{0, a + 1, 0}}, "no sequence"},
               {{{0, -1, 0}}, "no sequence"},
               {{{0, a, 9}}, "continues at position 10"},
               {{{0, a, 11}}, "continues at position 10"},
               {{{0, a, -1}}, "continues at position 10"},
               {{{0, a, 10}, {0, a, 10}}, "continues at position 11"},
               {{{0, a, 10}, {0, a, 11}, {vocab, a, 12}}, "outside the vocabulary"}};
  for (const auto& c : cases) {
    EXPECT_ERROR(run(engine, c.rows), c.says);
    EXPECT_EQ(engine.cache().length(a), 10);
    EXPECT_EQ(engine.cache().blocks_in_use(), 1);
  }
  EXPECT_ERROR(static_cast<void>(engine.forward(rows_of(a, tokens(kMaxRows + 1), 10))), "257 rows");
  EXPECT_EQ(engine.cache().length(a), 10);
  const auto more = tokens(1, 9);
  auto whole = text;
  whole.push_back(more[0]);
  const auto expected = alone(whole);
  EXPECT_TRUE(same_bits(run(engine, rows_of(a, more, 10)), std::span(expected).last(vocab_)));
}

TEST_P(RunnerTest, RejectsPositionsBeyondTheContext) {
  const auto context = static_cast<size_t>(model_.config.context_length);
  RunnerOn engine(kind(), model_, {.n_threads = 1}, {.max_positions = 1000});
  const auto a = engine.cache().add_sequence();
  EXPECT_ERROR(run(engine, rows_of(a, tokens(context + 1))), "past the context");
  EXPECT_EQ(engine.cache().length(a), 0);
  run(engine, rows_of(a, tokens(context)));
  EXPECT_ERROR(run(engine, rows_of(a, tokens(1), static_cast<int64_t>(context))), "past the context");
}

// An observer's exception in a step changes neither the lengths nor the KV blocks of sequences, and later steps compute
// the same results as without it.
TEST_P(RunnerTest, ExceptionsInAStepChangeNothing) {
  RunnerOn engine(kind(), model_, {.n_threads = 1}, {.max_positions = 1000});
  BlockManager& cache = engine.cache();
  const auto text = tokens(60);
  const auto expected = alone(text);
  const auto a = cache.add_sequence();
  run(engine, rows_of(a, std::span(text).first(40)));
  const auto b = cache.fork(a);  // shares a's last block, which the step must copy
  auto rows = rows_of(a, std::span(text).subspan(40), 40);
  const auto more = rows_of(b, std::span(text).subspan(40, 10), 40);
  rows.insert(rows.end(), more.begin(), more.end());
  for (const char* place : {"embedding", "layers.0.query", "layers.1.heads", "logits"}) {
    const auto fail = [&](const std::string& name, std::span<const float>, size_t) {
      if (name == place) throw std::runtime_error("enough");
      return false;
    };
    EXPECT_THROW(static_cast<void>(engine.forward(rows, fail)), std::runtime_error);
    EXPECT_EQ(cache.length(a), 40);
    EXPECT_EQ(cache.length(b), 40);
    EXPECT_EQ(cache.blocks_in_use(), 2);
  }
  const auto got = run(engine, rows);
  EXPECT_TRUE(same_bits(std::span(got).first(20 * vocab_), std::span(expected).last(20 * vocab_)));
  EXPECT_TRUE(same_bits(std::span(got).subspan(20 * vocab_), std::span(expected).subspan(40 * vocab_, 10 * vocab_)));
}

TEST(Runner, ReplaysStepsOfTheSameShape) {
  const auto model = test::random_model(test::small_shapes()[1].config);
  test::RecordingMachine machine(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}));
  Runner runner(model, machine);
  const auto text = random_tokens(40, 1, model.config.vocab_size);
  const auto a = runner.cache().add_sequence();
  run(runner, rows_of(a, std::span(text).first(10), 0, false));
  run(runner, rows_of(a, std::span(text).subspan(10, 1), 10));
  const int issued = machine.last_stage->n_issued;
  EXPECT_GT(issued, 0);
  for (size_t i = 11; i < 40; ++i) run(runner, rows_of(a, std::span(text).subspan(i, 1), static_cast<int64_t>(i)));
  EXPECT_EQ(machine.last_stage->n_issued, issued) << "a recorded step is not issued again";
  EXPECT_EQ(machine.last_stage->n_replayed, 29);
  int seen = 0;
  run(runner, rows_of(a, std::span(text).first(1), 40),
      [&](const std::string&, std::span<const float>, size_t) { return ++seen == 0; });
  EXPECT_GT(seen, 0);
  EXPECT_GT(machine.last_stage->n_issued, issued) << "an observed step is not replayed";
}

TEST(Runner, LogitsStayOnTheDeviceUnlessRequested) {
  const auto model = test::random_model(test::small_shapes()[1].config);
  const auto vocab_size = static_cast<size_t>(model.config.vocab_size);
  test::RecordingMachine machine(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}));
  Runner runner(model, machine);
  const auto text = random_tokens(8, 1, model.config.vocab_size);
  const auto logits = test::alone(model, text);
  Sampler greedy({.temperature = 0.0F}, {});
  auto rows = rows_of(runner.cache().add_sequence(), text, 0, false);
  const auto likeliest = [&](size_t row) {
    std::vector<float> scratch(logits.begin() + static_cast<std::ptrdiff_t>(row * vocab_size),
                               logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab_size));
    return greedy.sample(scratch, {}, 0);
  };
  rows[3].sampler = rows[7].sampler = &greedy;
  StepOutput output = runner.forward(rows);
  EXPECT_EQ(std::vector<int32_t>(output.tokens.begin(), output.tokens.end()),
            (std::vector<int32_t>{likeliest(3), likeliest(7)}));
  EXPECT_TRUE(output.logits.empty());
  EXPECT_EQ(machine.last_stage->n_fetched, 0);

  rows = rows_of(runner.cache().add_sequence(), text, 0, false);
  rows[2].sampler = rows[4].sampler = rows[5].sampler = &greedy;
  rows[4].wants_logits = rows[6].wants_logits = true;
  output = runner.forward(rows);
  EXPECT_EQ(std::vector<int32_t>(output.tokens.begin(), output.tokens.end()),
            (std::vector<int32_t>{likeliest(2), likeliest(4), likeliest(5)}));
  EXPECT_TRUE(same_bits(output.logits.first(vocab_size), std::span(logits).subspan(4 * vocab_size, vocab_size)));
  EXPECT_TRUE(same_bits(output.logits.subspan(vocab_size), std::span(logits).subspan(6 * vocab_size, vocab_size)));
}

// A layer caches one latent and the key's rotated part for each position: 32 elements, for any number of heads.
TEST(Runner, CachesOneLatentForAllHeads) {
  const core::StoredModel model = test::random_model(test::latent_shapes()[0].config);
  Cpu cpu({.n_threads = 1});
  const auto bytes = [&](CacheType type) { return Runner(model, cpu, {.type = type}).block_bytes(); };
  const uint64_t positions = kBlockPositions * static_cast<uint64_t>(model.config.n_layers);
  EXPECT_EQ(bytes(CacheType::F32), positions * 32 * 4);
  EXPECT_EQ(bytes(CacheType::F16), positions * 32 * 2);
  EXPECT_EQ(bytes(CacheType::Q8_0), positions * (32 + 2));  // a scale for each 32 elements
}

TEST(Runner, RejectsInvalidLayerPlacement) {
  const auto model = test::random_model(test::small_shapes()[1].config);  // a model of two layers
  Cpu cpu({.n_threads = 1});
  const auto place = [&](const std::vector<LayerRange>& ranges) {
    std::vector<Placement> placements;
    for (const LayerRange range : ranges) placements.push_back({cpu, range});
    const Runner runner(model, placements, {});
  };
  EXPECT_NO_THROW(place({{0, 1}, {1, 2}}));
  EXPECT_ERROR(place({{0, 1}}), "1 layers were placed, but the model has 2");
  EXPECT_ERROR(place({{0, 1}, {0, 2}}), "layers 0 to 2 are out of order: layer 1 is next");
  EXPECT_ERROR(place({{0, 0}, {0, 2}}), "empty range of layers: 0 to 0");
  EXPECT_ERROR(place({}), "0 layers");
}

TEST(Runner, SmallerCacheTypesSaveMemoryAndRound) {
  const auto model = test::random_model(test::small_shapes()[1].config);
  Cpu cpu({.n_threads = 1});
  const Runner whole(model, cpu);
  const Runner half(model, cpu, {.type = CacheType::F16});
  const Runner quarter(model, cpu, {.type = CacheType::Q8_0});
  EXPECT_EQ(whole.block_bytes(), 2 * half.block_bytes());
  const auto head_dim = static_cast<size_t>(model.config.head_dim);
  const size_t of_head = head_dim + 2 * kernels::q8_groups(head_dim);  // bytes of a position's key or value in Q8_0
  EXPECT_EQ(whole.block_bytes() * of_head, 4 * head_dim * quarter.block_bytes());
  const auto text = random_tokens(50, 1, model.config.vocab_size);
  const auto exact = test::alone(model, text);
  const auto f16 = test::alone(model, text, 1, nullptr, CacheType::F16);
  const auto q8_0 = test::alone(model, text, 1, nullptr, CacheType::Q8_0);
  EXPECT_FALSE(same_bits(exact, f16));
  EXPECT_FALSE(same_bits(exact, q8_0));
  EXPECT_FALSE(same_bits(f16, q8_0));
}

TEST(CacheType, DefaultsToF16UnlessWeightsAreF32) {
  const auto default_of = [](core::DType type) {
    return default_cache_type(
        test::random_model_of({.name = "of a type", .config = test::small_shapes()[1].config, .type = type}));
  };
  EXPECT_EQ(default_of(core::DType::F32), CacheType::F32);
  for (const core::DType type : {core::DType::F16, core::DType::BF16}) EXPECT_EQ(default_of(type), CacheType::F16);
}

TEST(Runner, RejectsHeadsTooWideForTheKernels) {
  Cpu cpu({.n_threads = 1});
  const auto wide = test::random_model(test::config_of(core::Family::Llama, 4, 1026, 1, 1, 1, 2, 8));
  EXPECT_ERROR(Runner(wide, cpu), "head_dim is 1026, but the CPU kernels support at most 1024");
  core::ModelConfig config = test::latent_shapes()[0].config;
  config.kv_lora_rank = 1020;
  const auto latent = test::random_model(config);
  EXPECT_ERROR(Runner(latent, cpu),
               "kv_lora_rank + qk_rope_head_dim is 1026, but the CPU kernels support at most 1024");
}

TEST(Cpu, EnvironmentSelectsTheKernels) {
  for (const core::Isa isa : kernels::isas_with_kernels()) {
    const core::test::ScopedEnv env("FOLIO_ISA", std::string(core::isa_name(isa)).c_str());
    EXPECT_EQ(Cpu({.n_threads = 1}).kernels().isa, isa);
  }
  const core::test::ScopedEnv env("FOLIO_ISA", "mmx");
  EXPECT_ERROR(Cpu({.n_threads = 1}), "FOLIO_ISA");
}

}  // namespace
}  // namespace folio::infer
