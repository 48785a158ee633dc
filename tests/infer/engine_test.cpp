// Laws of infer/engine/engine.h: the formulas of a Llama, and bytes that depend on a row's own sequence alone: not on
// how a prompt is cut, on the rows beside it, on the number of threads or on the instruction set.
#include "infer/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/infer/support.h"
#include "tests/infer/textbook.h"

namespace folio::infer {
namespace {

using test::alone;
using test::random_tokens;
using test::rows_of;
using test::run;
using test::same_bits;
using test::Shape;
using test::Textbook;

size_t vocab_of(const Model& model) { return static_cast<size_t>(model.config().vocab_size); }

class EngineOfShape : public ::testing::TestWithParam<Shape> {
 protected:
  EngineOfShape() : model_(test::random_model_of(GetParam())) {}
  [[nodiscard]] std::vector<int32_t> tokens(size_t n, uint64_t seed = 1) const {
    return random_tokens(n, seed, model_.config().vocab_size);
  }
  Model model_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, EngineOfShape, ::testing::ValuesIn(test::all_shapes()), test::shape_name);

// A relative error of a stage is about u sqrt(K), for roundings point in all directions (Higham 2002, 2.8). A layer has
// eight stages (two norms, four products in a row, softmax, silu), the output two more; errors of stages add, relative
// to the size of the logits. Where matrices are in groups, their inputs have an error of their own: a step of m / 127,
// hence m / (127 sqrt(12)) on average, and m, the largest of 32 numbers, is at most sqrt(32) of their root mean square.
// Four matrices stand in a row in a layer, and then comes the output.
TEST_P(EngineOfShape, IsTheTextbooksLlama) {
  const auto& c = model_.config();
  const auto text = tokens(static_cast<size_t>(std::min<int64_t>(c.context_length, c.dim > 1000 ? 34 : 70)));
  const auto exact = Textbook(model_).logits(text);
  const auto got = alone(model_, text);
  double square = 0.0;
  for (const auto& row : exact) {
    for (const double v : row) square += v * v;
  }
  const double size = std::sqrt(square / static_cast<double>(got.size()));
  const double widest = std::sqrt(static_cast<double>(std::max(c.dim, c.hidden_dim)));
  double tolerance = 0x1.0p-24 * widest * static_cast<double>(8 * c.n_layers + 2) * size;
  if (model_.output.in_groups()) {
    tolerance += std::sqrt(32.0 / 12.0) / 127.0 * static_cast<double>(4 * c.n_layers + 1) * size;
  }
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], exact[i / vocab_of(model_)][i % vocab_of(model_)], tolerance) << "logit " << i;
  }
}

TEST_P(EngineOfShape, EachInstructionSetGivesTheReferencesBytes) {
  const auto text = tokens(GetParam().config.dim > 200 ? 7 : 67);
  const auto expected = alone(model_, text, 1, &kernels::reference_kernels());
  for (const core::Isa isa : core::supported_isas()) {
    EXPECT_TRUE(same_bits(alone(model_, text, 1, &kernels::kernels_for(isa)), expected)) << core::isa_name(isa);
  }
}

TEST_P(EngineOfShape, TokenByTokenEqualsOneCall) {
  const auto text = tokens(68);
  const auto expected = alone(model_, text);
  Engine engine(model_, {.n_threads = 1});
  const auto sequence = engine.cache().add_sequence();
  std::vector<float> got;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto logits = run(engine, rows_of(sequence, std::span(text).subspan(i, 1), static_cast<int64_t>(i)));
    got.insert(got.end(), logits.begin(), logits.end());
  }
  EXPECT_TRUE(same_bits(got, expected));
}

TEST_P(EngineOfShape, APromptCutAnywhereEqualsTheWhole) {
  const bool wide = GetParam().config.dim > 200;
  const auto text = tokens(wide ? 40 : 68);
  const auto expected = alone(model_, text);
  Engine engine(model_, {.n_threads = 1});
  for (size_t cut = 1; cut < text.size(); cut += wide ? 13 : 1) {
    const auto sequence = engine.cache().add_sequence();
    auto got = run(engine, rows_of(sequence, std::span(text).first(cut)));
    const auto rest = run(engine, rows_of(sequence, std::span(text).subspan(cut), static_cast<int64_t>(cut)));
    got.insert(got.end(), rest.begin(), rest.end());
    ASSERT_TRUE(same_bits(got, expected)) << "cut at " << cut;
    engine.cache().release(sequence);
  }
}

TEST_P(EngineOfShape, InARaggedBatchEqualsAlone) {
  const std::vector<size_t> lengths{1, 33, 7, 64, 32, 2, 50};
  Engine engine(model_, {.n_threads = 2, .max_positions = 1000});
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> expected;
  std::vector<SequenceId> sequences;
  for (size_t s = 0; s < lengths.size(); ++s) {
    texts.push_back(tokens(lengths[s], 10 + s));
    expected.push_back(alone(model_, texts[s]));
    sequences.push_back(engine.cache().add_sequence());
  }
  // Each call takes some of every sequence that has tokens left, its rows in turn: 1 row of the first, 2, 3, …
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
        rows.push_back({.token = texts[s][at], .sequence = sequences[s], .position = static_cast<int64_t>(at)});
        owner.push_back(s);
      }
    }
    if (rows.empty()) break;
    const auto got = run(engine, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t vocab = vocab_of(model_);
      ASSERT_TRUE(
          same_bits(std::span(got).subspan(i * vocab, vocab),
                    std::span(expected[owner[i]]).subspan(static_cast<size_t>(rows[i].position) * vocab, vocab)))
          << "sequence " << owner[i] << " position " << rows[i].position << " call " << call;
    }
    for (size_t s = 0; s < lengths.size(); ++s) done[s] += taken[s];
  }
  EXPECT_EQ(done, lengths);
}

TEST_P(EngineOfShape, AnyNumberOfThreadsGivesTheSameBytes) {
  const auto text = tokens(60);
  const auto expected = alone(model_, text, 1);
  for (const size_t threads : {2U, 3U}) {
    EXPECT_TRUE(same_bits(alone(model_, text, threads), expected)) << threads << " threads";
    Engine engine(model_, {.n_threads = threads});
    ASSERT_EQ(engine.n_threads(), threads);
    const auto sequence = engine.cache().add_sequence();
    for (size_t i = 0; i < 20; ++i) {  // decoding shares matrices, not rows
      const auto got = run(engine, rows_of(sequence, std::span(text).subspan(i, 1), static_cast<int64_t>(i)));
      ASSERT_TRUE(same_bits(got, std::span(expected).subspan(i * vocab_of(model_), vocab_of(model_))))
          << threads << " threads, position " << i;
    }
  }
}

TEST_P(EngineOfShape, ALaterTokenChangesNothingBefore) {
  auto text = tokens(66);
  const auto before = alone(model_, text);
  const int64_t vocab = model_.config().vocab_size;
  for (const size_t changed : {65U, 40U, 1U}) {
    auto other = text;
    other[changed] = static_cast<int32_t>((other[changed] + 1) % vocab);
    const auto after = alone(model_, other);
    const size_t same = changed * vocab_of(model_);
    EXPECT_TRUE(same_bits(std::span(after).first(same), std::span(before).first(same))) << changed;
    // Inputs in 8 bits may round a distant token's influence away, never that of the token itself.
    const size_t last = model_.output.in_groups() ? changed + 1 : text.size();
    for (size_t position = changed; position < last; ++position) {
      const size_t at = position * vocab_of(model_);
      EXPECT_FALSE(
          same_bits(std::span(after).subspan(at, vocab_of(model_)), std::span(before).subspan(at, vocab_of(model_))))
          << "position " << position << " does not see position " << changed;
    }
  }
}

TEST_P(EngineOfShape, ObserverSeesEachIntermediateByName) {
  const auto& c = model_.config();
  Engine engine(model_, {.n_threads = 1});
  auto rows = rows_of(engine.cache().add_sequence(), tokens(5));
  rows[0].wants_logits = rows[3].wants_logits = false;
  std::vector<std::string> names;
  std::map<std::string, std::vector<float>> seen;
  const auto logits = run(engine, rows, [&](const std::string& name, std::span<const float> values, size_t n_rows) {
    EXPECT_EQ(n_rows, name == "norm" || name == "logits" ? 3U : 5U) << name;
    const int64_t width = name == "logits"                                     ? c.vocab_size
                          : name.ends_with(".key") || name.ends_with(".value") ? c.kv_dim()
                          : name.ends_with(".ffn_hidden")                      ? c.hidden_dim
                                                                               : c.dim;
    EXPECT_EQ(values.size(), n_rows * static_cast<size_t>(width)) << name;
    names.push_back(name);
    seen[name] = {values.begin(), values.end()};
  });
  std::vector<std::string> expected{"embedding"};
  for (int64_t l = 0; l < c.n_layers; ++l) {
    for (const char* what : {"attention_norm", "query", "key", "value", "heads", "attention_residual", "ffn_norm",
                             "ffn_hidden", "ffn_residual"}) {
      expected.push_back(fmt::format("layers.{}.{}", l, what));
    }
  }
  expected.insert(expected.end(), {"norm", "logits"});
  EXPECT_EQ(names, expected);
  EXPECT_TRUE(same_bits(seen["logits"], logits));
  const auto dim = static_cast<size_t>(c.dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> row(dim);
    model_.token_embedding.row(static_cast<size_t>(rows[i].token), row);
    EXPECT_TRUE(same_bits(std::span(seen["embedding"]).subspan(i * dim, dim), row));
  }
  // Whoever watches changes nothing.
  Engine unwatched(model_, {.n_threads = 1});
  static_cast<void>(unwatched.cache().add_sequence());
  EXPECT_TRUE(same_bits(run(unwatched, rows), logits));
}

class EngineTest : public ::testing::Test {
 protected:
  Model model_ = test::random_model(test::small_shapes()[1].config);
  size_t vocab_ = vocab_of(model_);
  [[nodiscard]] std::vector<int32_t> tokens(size_t n, uint64_t seed = 1) const {
    return random_tokens(n, seed, model_.config().vocab_size);
  }
};

TEST_F(EngineTest, WantedRowsGiveTheirLogitsInOrder) {
  const auto text = tokens(50);
  const auto all = alone(model_, text);
  for (const uint64_t pattern : {0ULL, 1ULL, 1ULL << 49, 0x155555555ULL, 0x2F0F00F0FF01AULL}) {
    Engine engine(model_, {.n_threads = 1});
    auto rows = rows_of(engine.cache().add_sequence(), text);
    std::vector<float> expected;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].wants_logits = (pattern >> i & 1U) != 0;
      if (!rows[i].wants_logits) continue;
      expected.insert(expected.end(), all.begin() + static_cast<std::ptrdiff_t>(i * vocab_),
                      all.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocab_));
    }
    EXPECT_TRUE(same_bits(run(engine, rows), expected)) << std::hex << pattern;
  }
}

TEST_F(EngineTest, NoRowsAreNoWork) {
  Engine engine(model_, {.n_threads = 1});
  EXPECT_TRUE(run(engine, {}).empty());
  EXPECT_EQ(engine.cache().blocks_in_use(), 0);
}

TEST_F(EngineTest, MoreRowsThanASliceAreSeenInSlices) {
  constexpr size_t kSequences = 7;
  constexpr size_t kEach = 90;  // 630 rows: slices of 256, 256 and 118, whose borders cut sequences
  Engine engine(model_, {.n_threads = 2, .max_positions = 3000});
  std::vector<Row> rows;
  std::vector<std::vector<float>> expected;
  for (size_t s = 0; s < kSequences; ++s) {
    const auto text = tokens(kEach, 20 + s);
    auto more = rows_of(engine.cache().add_sequence(), text);
    for (size_t i = 0; i < more.size(); i += 3) more[i].wants_logits = false;
    rows.insert(rows.end(), more.begin(), more.end());
    expected.push_back(alone(model_, text));
  }
  std::vector<size_t> slices;
  const auto got = run(engine, rows, [&](const std::string& name, std::span<const float>, size_t n_rows) {
    if (name == "embedding") slices.push_back(n_rows);
  });
  EXPECT_EQ(slices, (std::vector<size_t>{256, 256, 118}));
  size_t next = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].wants_logits) continue;
    const auto& own = expected[i / kEach];
    ASSERT_TRUE(same_bits(std::span(got).subspan(next, vocab_), std::span(own).subspan(i % kEach * vocab_, vocab_)))
        << "row " << i;
    next += vocab_;
  }
}

TEST_F(EngineTest, WithoutWantedRowsTheObserverSeesNoLogits) {
  Engine engine(model_, {.n_threads = 1});
  bool saw = false;
  run(engine, rows_of(engine.cache().add_sequence(), tokens(3), 0, false),
      [&](const std::string& name, std::span<const float>, size_t) { saw |= name == "logits" || name == "norm"; });
  EXPECT_FALSE(saw);
}

TEST_F(EngineTest, WhatIsNotValidIsAnErrorThatChangesNothing) {
  Engine engine(model_, {.n_threads = 1});
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
  std::vector<float> small(vocab_ - 1);
  EXPECT_ERROR(engine.forward(std::vector<Row>{{0, a, 10}}, small), "room");
  EXPECT_EQ(engine.cache().length(a), 10);
  const auto more = tokens(1, 9);
  auto whole = text;
  whole.push_back(more[0]);
  EXPECT_TRUE(same_bits(run(engine, rows_of(a, more, 10)), std::span<const float>(alone(model_, whole)).last(vocab_)));
}

TEST_F(EngineTest, TheContextIsTheEnd) {
  const auto context = static_cast<size_t>(model_.config().context_length);
  Engine engine(model_, {.n_threads = 1, .max_positions = 1000});
  const auto a = engine.cache().add_sequence();
  EXPECT_ERROR(run(engine, rows_of(a, tokens(context + 1))), "past the context");
  EXPECT_EQ(engine.cache().length(a), 0);
  run(engine, rows_of(a, tokens(context)));
  EXPECT_ERROR(run(engine, rows_of(a, tokens(1), static_cast<int64_t>(context))), "past the context");
}

TEST_F(EngineTest, AFullCacheRollsTheWholeBatchBack) {
  Engine engine(model_, {.n_threads = 1, .max_positions = 3 * 32});
  KvCache& cache = engine.cache();
  const auto text = tokens(60);
  const auto a = cache.add_sequence();
  const auto b = cache.add_sequence();
  run(engine, rows_of(a, std::span(text).first(30)));
  run(engine, rows_of(b, std::span(text).first(30)));
  auto rows = rows_of(a, std::span(text).subspan(30, 10), 30);
  const auto more = rows_of(b, std::span(text).subspan(30, 10), 30);
  rows.insert(rows.end(), more.begin(), more.end());  // four blocks, where there are three
  EXPECT_ERROR(run(engine, rows), "full");
  EXPECT_EQ(cache.length(a), 30);
  EXPECT_EQ(cache.length(b), 30);
  EXPECT_EQ(cache.blocks_in_use(), 2);
  const auto expected = alone(model_, std::span(text).first(40));
  EXPECT_TRUE(
      same_bits(run(engine, rows_of(a, std::span(text).subspan(30, 10), 30)), std::span(expected).last(10 * vocab_)));
}

TEST_F(EngineTest, HeadsWiderThanTheKernelsTakeAreAnError) {
  core::ModelConfig config{
      .vocab_size = 4, .dim = 514, .n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .hidden_dim = 2, .context_length = 8};
  const Model model = test::random_model(config);
  EXPECT_ERROR(Engine(model, {.n_threads = 1}), "514");
}

TEST_F(EngineTest, TheEnvironmentPicksTheKernels) {
  for (const core::Isa isa : core::supported_isas()) {
    const core::test::ScopedEnv env("FOLIO_ISA", std::string(core::isa_name(isa)).c_str());
    EXPECT_EQ(Engine(model_, {.n_threads = 1}).kernels().isa, isa);
  }
  const core::test::ScopedEnv env("FOLIO_ISA", "mmx");
  EXPECT_ERROR(Engine(model_, {.n_threads = 1}), "FOLIO_ISA");
}

}  // namespace
}  // namespace folio::infer
