// Tests infer/engine/mtp_drafter.h and forward/tokens_ahead.h: an MTP module's logits and drafts equal those of a plain
// one-layer model with the module's inputs as embeddings, correct drafts are accepted, and drafts don't change outputs.
#include "infer/engine/mtp_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "infer/engine/engine.h"
#include "infer/forward/tokens_ahead.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/engine/varied_requests.h"

namespace folio::infer {
namespace {

using core::Role;
using test::EngineOn;
using test::MachineKind;
using test::RunnerOn;
using test::values_of;

// A drafter on one machine, the first that kind.make() returns.
class MtpDrafterOn : private test::Rig, public MtpDrafter {
 public:
  MtpDrafterOn(const MachineKind& kind, const core::StoredModel& model, const CacheOptions& options = {})
      : Rig(kind, model.config, {.n_threads = 1}), MtpDrafter(model, machine(0), kind.with_type(options)) {}
};

// x / sqrt(mean(x²) + eps) * weight, in doubles.
std::vector<double> norm_of(std::span<const float> x, const std::vector<float>& weight, double eps) {
  double sum = 0.0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(x[i] / std::sqrt(sum / static_cast<double>(x.size()) + eps) * weight[i]);
  }
  return y;
}

class MtpDrafterTest : public test::DraftTexts {
 protected:
  void SetUp() override {
    if (GetParam().name == "three_in_flight")
      GTEST_SKIP() << "rejected: see RejectsModelsWithoutModuleAndSeveralStepsInFlight";
  }
  static core::ModelConfig config() {
    core::ModelConfig c = GetParam().model;  // a vocabulary of 37, 100 positions
    c.n_tokens_ahead = 1;
    return c;
  }

  // Returns the outputs of the final norm, which an observer copies, and the logits, for all rows of a sequence.
  static std::pair<std::vector<float>, std::vector<float>> observed(const core::StoredModel& model,
                                                                    std::span<const int32_t> tokens) {
    RunnerOn runner(GetParam(), model);
    std::vector<float> hidden;
    auto logits = test::run(runner, test::rows_of(runner.cache().add_sequence(), tokens),
                            [&](const std::string& name, std::span<float> values, size_t) {
                              if (name == "norm") hidden.insert(hidden.end(), values.begin(), values.end());
                              return false;
                            });
    return {hidden, logits};
  }

  // Computes the MTP module as a plain one-layer model with embeddings eh_proj [enorm(embedding); hnorm(hidden)].
  struct Oracle {
    core::Weights weights;
    std::vector<float> inputs{};  // (rows, dim)

    void add(int32_t token, std::span<const float> hidden) {
      const core::ModelConfig& c = weights.config;
      const auto dim = static_cast<size_t>(c.dim);
      const auto& table = values_of(weights, Role::TokenEmbedding);
      const auto embedding = std::span(table).subspan(static_cast<size_t>(token) * dim, dim);
      auto x = norm_of(embedding, values_of(weights, Role::MtpEmbeddingNorm, c.n_layers), c.norm_eps);
      const auto h = norm_of(hidden, values_of(weights, Role::MtpHiddenNorm, c.n_layers), c.norm_eps);
      x.insert(x.end(), h.begin(), h.end());
      const auto& projection = values_of(weights, Role::MtpProjection, c.n_layers);
      for (size_t i = 0; i < dim; ++i) {
        inputs.push_back(static_cast<float>(std::inner_product(
            x.begin(), x.end(), projection.begin() + static_cast<std::ptrdiff_t>(i * 2 * dim), 0.0)));
      }
    }
    // Returns the last row's hidden state after the final norm, and its logits.
    std::pair<std::vector<float>, std::vector<float>> last() {
      const core::ModelConfig& c = weights.config;
      const auto dim = static_cast<size_t>(c.dim);
      const auto n = static_cast<int64_t>(inputs.size() / dim);
      core::Weights plain{.config = c, .tensors = {}};
      plain.config.n_tokens_ahead = 0;
      plain.config.n_layers = 1;
      plain.config.dense_layers = c.has_experts(c.n_layers) ? 0 : 1;
      plain.config.tie_embeddings = false;
      plain.config.vocab_size = std::max(c.vocab_size, n);
      for (const core::TensorSpec& spec : core::tensor_manifest(plain.config)) {
        const bool of_output = spec.role == Role::Output;
        plain.tensors.push_back(spec.role == Role::TokenEmbedding ? inputs
                                : of_output && c.tie_embeddings   ? values_of(weights, Role::TokenEmbedding)
                                : of_output                       ? values_of(weights, Role::Output)
                                : spec.role == Role::OutputNorm   ? values_of(weights, Role::MtpOutputNorm, c.n_layers)
                                                                  : values_of(weights, spec.role, c.n_layers));
        plain.tensors.back().resize(static_cast<size_t>(spec.elements()));
      }
      std::vector<int32_t> ids(static_cast<size_t>(n));
      std::iota(ids.begin(), ids.end(), 0);
      auto [hidden, logits] = observed(test::model_from(plain), ids);
      hidden.erase(hidden.begin(), hidden.end() - c.dim);
      logits.erase(logits.begin(), logits.end() - plain.config.vocab_size);
      logits.resize(static_cast<size_t>(c.vocab_size));
      return {hidden, logits};
    }
    // Returns n draft tokens after `text`. The last call of add() must have added the last token of `text`.
    std::vector<int32_t> drafts(std::vector<int32_t> text, size_t n, Sampler& sampler) {
      const size_t n_text = text.size();
      for (size_t i = 0; i < n; ++i) {
        auto [hidden, logits] = last();
        text.push_back(sampler.sample(logits, text, static_cast<int64_t>(text.size())));
        if (i + 1 < n) add(text.back(), hidden);
      }
      return {text.begin() + static_cast<std::ptrdiff_t>(n_text), text.end()};
    }
  };
  // Returns an oracle to which the rows of `text` after the first `n_skipped` were added.
  static Oracle oracle_of(const core::Weights& weights, std::span<const int32_t> text, size_t n_skipped = 0) {
    Oracle oracle{.weights = weights};
    const auto hidden = observed(test::model_from(weights), text.first(text.size() - 1)).first;
    const auto dim = static_cast<size_t>(weights.config.dim);
    for (size_t i = n_skipped; i + 1 < text.size(); ++i) {
      oracle.add(text[i + 1], std::span(hidden).subspan(i * dim, dim));
    }
    return oracle;
  }
};

INSTANTIATE_TEST_SUITE_P(Machines, MtpDrafterTest, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

// If any row has keeps_hidden set, a step returns all rows' hidden states. These equal the final norm's outputs that an
// observer sees, and the logits don't change.
TEST_P(MtpDrafterTest, StepsKeepTheHiddenStatesOfAllRows) {
  const core::StoredModel model = test::random_model(config());
  const auto dim = static_cast<size_t>(model.config.dim);
  const auto [hidden, logits] = observed(model, tokens(40));
  const auto vocab_size = static_cast<size_t>(model.config.vocab_size);
  for (const size_t n_before : {size_t{0}, size_t{7}, size_t{39}}) {
    RunnerOn runner(GetParam(), model);
    auto rows = test::rows_of(runner.cache().add_sequence(), tokens(40), 0, false);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].keeps_hidden = i % 2 == 0;
    const auto first = std::span(rows).first(n_before);
    if (n_before > 0) {
      const StepOutput output = runner.forward(first);
      EXPECT_TRUE(output.logits.empty());
      EXPECT_TRUE(test::same_bits(output.hidden, std::span(hidden).first(n_before * dim)));
    }
    rows.back().wants_logits = true;
    rows.back().keeps_hidden = true;
    for (int again = 0; again < 2; ++again) {  // the second step may be replayed from a recording
      const StepOutput output = runner.forward(std::span(rows).subspan(n_before));
      EXPECT_TRUE(test::same_bits(output.hidden, std::span(hidden).subspan(n_before * dim)));
      EXPECT_TRUE(test::same_bits(output.logits, std::span(logits).last(vocab_size)));
      runner.cache().truncate(rows.back().sequence, static_cast<int64_t>(n_before));
    }
    for (Row& row : rows) row.keeps_hidden = false;
    const StepOutput plain = runner.forward(std::span(rows).subspan(n_before));
    EXPECT_TRUE(plain.hidden.empty());
    EXPECT_TRUE(test::same_bits(plain.logits, std::span(logits).last(vocab_size)));
  }
}

TEST_P(MtpDrafterTest, ModulesLogitsAndHiddenStatesAreTheOracles) {
  for (const float scale : {1.0F, 0.5F}) {
    SCOPED_TRACE(scale);
    core::ModelConfig c = config();
    c.residual_scale = scale;
    const core::Weights weights = test::random_weights(c, 7);
    const core::StoredModel model = test::model_from(weights);
    const auto text = tokens(30);
    auto [expected_hidden, expected] = oracle_of(weights, text).last();
    const auto hidden = observed(model, std::span(text).first(29)).first;
    const auto dim = static_cast<size_t>(model.config.dim);
    const core::StoredModel module = module_of(model);
    test::Rig rig(GetParam(), model.config, {.n_threads = 1});
    Runner runner(module, rig.machine(0), GetParam().with_type({}));
    auto rows = test::rows_of(runner.cache().add_sequence(), std::span(text).subspan(1));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].hidden = std::span(hidden).subspan(i * dim, dim);
    rows.back().keeps_hidden = true;
    const StepOutput output = runner.forward(rows);
    // Inputs that differ by rounding errors may be rounded differently in the KV cache, and may select other experts.
    const double tolerance = GetParam().cache_type == CacheType::Q8_0  ? 0.05
                             : GetParam().cache_type == CacheType::F16 ? 0.005
                                                                       : 200 * GetParam().roundoff;
    const auto logits = output.logits.last(expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(logits[i], expected[i], tolerance) << "logit " << i;
    const auto own = output.hidden.last(dim);
    for (size_t i = 0; i < dim; ++i) EXPECT_NEAR(own[i], expected_hidden[i], tolerance) << "element " << i;
    runner.cache().truncate(rows.front().sequence, 0);
    rows.front().hidden = {};
    EXPECT_ERROR(runner.forward(rows), "0 elements of a hidden state, expected ");
  }
}

// Drafts equal those of a plain one-layer model (Oracle) for any split of rows into calls, after rejected drafts, and
// if the first rows are skipped.
TEST_P(MtpDrafterTest, DraftsAreTheOracles) {
  const core::Weights weights = test::random_weights(config(), 7);
  const core::StoredModel model = test::model_from(weights);
  const auto dim = static_cast<size_t>(model.config.dim);
  const auto text = tokens(60);
  const auto hidden = observed(model, text).first;
  const SamplerOptions greedy{.temperature = 0.0F};
  for (const SamplerOptions& options :
       {greedy, SamplerOptions{.temperature = 1.0F, .top_p = 1.0F, .repetition_penalty = 1.2F, .seed = 3}}) {
    for (const size_t n_skipped : {size_t{0}, size_t{5}}) {
      MtpDrafterOn drafter(GetParam(), model);
      Sampler sampler(options, {}, text.size());
      std::unique_ptr<Drafter::Memory> memory;
      size_t first = n_skipped;
      for (const size_t end : {size_t{41}, size_t{42}, size_t{44}, size_t{59}}) {
        std::vector<int32_t> so_far(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end + 1));
        drafter.observe(
            std::array{Drafter::Computed{.tokens = so_far,
                                         .begin = 0,
                                         .first = first,
                                         .hidden = std::span(hidden).subspan(first * dim, (end - first) * dim),
                                         .memory = memory}});
        first = end;
        for (const size_t n : {size_t{1}, size_t{3}}) {  // the second call has no new rows
          std::vector<int32_t> drafted = so_far;
          drafter.draft(std::array{Drafter::Input{
              .tokens = drafted, .first = 0, .most = n, .n_misses = 0, .sampler = sampler, .memory = memory}});
          ASSERT_EQ(drafted.size(), so_far.size() + n);
          drafted.erase(drafted.begin(), drafted.begin() + std::ssize(so_far));
          Sampler own(options, {}, text.size());
          EXPECT_EQ(drafted, oracle_of(weights, so_far, n_skipped).drafts(so_far, n, own)) << "after " << end;
        }
      }
      memory.reset();
      EXPECT_EQ(drafter.runner().cache().blocks_in_use(), 0);
    }
  }
}

// Returns a one-layer model with a window of 8 positions. Its MTP module copies this layer and ignores hidden states.
// From position 8 on, the module computes what the model computes for the same token.
core::Weights own_copy() {
  const core::ModelConfig c{.family = core::Family::Mistral,
                            .vocab_size = 37,
                            .dim = 48,
                            .n_layers = 1,
                            .n_tokens_ahead = 1,
                            .n_heads = 6,
                            .n_kv_heads = 2,
                            .hidden_dim = 40,
                            .context_length = 300,
                            .sliding_window = 8,
                            .tie_embeddings = false};
  core::Weights weights = test::random_weights(c, 11);
  const auto dim = static_cast<size_t>(c.dim);
  auto& table = values_of(weights, Role::TokenEmbedding);  // rows of RMS 1, which the module's norm doesn't change
  for (size_t row = 0; row < table.size(); row += dim) {
    const auto normed = norm_of(std::span(table).subspan(row, dim), std::vector<float>(dim, 1.0F), 0.0);
    std::ranges::copy(normed, table.begin() + static_cast<std::ptrdiff_t>(row));
  }
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) {
    if (spec.layer == 0) values_of(weights, spec.role, 1) = values_of(weights, spec.role, 0);
  }
  std::ranges::fill(values_of(weights, Role::MtpEmbeddingNorm, 1), std::sqrt(1.0F + c.norm_eps));
  values_of(weights, Role::MtpOutputNorm, 1) = values_of(weights, Role::OutputNorm);
  auto& projection = values_of(weights, Role::MtpProjection, 1);
  std::ranges::fill(projection, 0.0F);
  for (size_t i = 0; i < dim; ++i) projection[i * 2 * dim + i] = 1.0F;  // copies the embedding
  return weights;
}

// Returns a model that predicts token t + 1 after token t. Its MTP module predicts from the hidden state only.
core::Weights counting() {
  core::ModelConfig c = test::small_shapes().front().config;  // dim 64, for 37 one-hot tokens
  c.n_tokens_ahead = 1;
  c.tie_embeddings = false;
  c.vocab_size = 37;
  core::Weights weights = test::random_weights(c, 12);
  const auto dim = static_cast<size_t>(c.dim), n = static_cast<size_t>(c.vocab_size);
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) {
    if (spec.role == Role::Wo || spec.role == Role::W2 || spec.role == Role::TokenEmbedding ||
        spec.role == Role::Output || spec.role == Role::MtpProjection) {
      std::ranges::fill(values_of(weights, spec.role, spec.layer), 0.0F);
    }
  }
  for (size_t t = 0; t < n; ++t) {
    const size_t next = (t + 1) % n;
    values_of(weights, Role::TokenEmbedding)[t * dim + t] = 1.0F;
    values_of(weights, Role::Output)[next * dim + t] = 1.0F;
    values_of(weights, Role::MtpProjection, c.n_layers)[next * 2 * dim + dim + t] = 1.0F;  // reads the hidden state
  }
  return weights;
}

// With n accepted drafts, a step yields n + 1 tokens. The second request reuses KV blocks of the model and of its MTP
// module.
TEST_P(MtpDrafterTest, ModulesThatCannotBeWrongAreAlwaysAccepted) {
  for (const core::Weights& weights : {own_copy(), counting()}) {
    const core::StoredModel model = test::model_from(weights);
    // In the MTP module, a token's position is one less than in the model, so rotated keys differ by rounding errors,
    // which Q8_0 enlarges. Sampled tokens then could differ.
    const bool sampled_too = weights.config.n_layers == 1 && GetParam().cache_type != CacheType::Q8_0;
    for (const float temperature : {0.0F, 1.0F}) {
      if (temperature > 0.0F && !sampled_too) continue;
      for (const size_t n_drafts : {size_t{1}, size_t{5}}) {
        MtpDrafterOn drafter(GetParam(), model, {.max_positions = 300});
        EngineOn engine(GetParam(), model, {.n_threads = 1}, {.max_positions = 300});
        engine.draft_with(drafter);
        engine.goodput().set_times({}, 0.0);  // plans as if rows took no time, so all drafts are tried
        for (int again = 0; again < 2; ++again) {
          const uint64_t before = engine.statistics().steps;
          const Request r{.prompt = tokens(70),
                          .options = {.max_tokens = 31,
                                      .sampler = {.temperature = temperature, .top_p = 1.0F, .seed = 5},
                                      .speculate = n_drafts}};
          const GenerateResult result = test::results_of(engine, r).front();
          EXPECT_EQ(result.n_right, result.n_drafts);
          EXPECT_EQ(engine.statistics().steps - before, 1 + 30 / (n_drafts + 1));
          EXPECT_EQ(result.n_cached, again == 0 ? 0U : 64U);
        }
      }
    }
  }
}

TEST_P(MtpDrafterTest, OutputsDoNotDependOnDrafts) {
  const core::StoredModel model = test::random_model(config());
  const test::LetterTokenizer tokenizer;
  std::vector<Request> requests = test::varied_requests(tokens(40, 3), 2, tokens(23, 2), tokenizer);
  std::vector<std::vector<GenerateResult>> expected;
  for (Request& r : requests) {
    EngineOn alone(GetParam(), model);
    expected.push_back(test::results_of(alone, r));
    r.options.speculate = 6;
  }
  requests[4].options.speculate = 0;
  struct Setting {
    int64_t positions;  // capacity of the KV cache; 160 positions cause preemptions
    int64_t draft_positions;
    size_t max_rows;
    size_t n_threads;
  };
  for (const auto& [positions, draft_positions, max_rows, n_threads] :
       {Setting{2000, 2000, 4096, 1}, Setting{160, 100, 4096, 2}, Setting{160, 2000, 9, 1},
        Setting{2000, 160, 40, 2}}) {
    MtpDrafterOn drafter(GetParam(), model, {.max_positions = draft_positions});
    EngineOn engine(GetParam(), model, {.n_threads = n_threads}, {.max_positions = positions}, {.max_rows = max_rows});
    engine.draft_with(drafter);
    engine.goodput().set_times({}, 0.0);
    for (int again = 0; again < 2; ++again) {  // the second time, prompts are in the prefix cache
      expect_with_drafts(engine, drafter.runner(), requests, expected);
    }
    EXPECT_EQ(positions == 160, engine.statistics().preemptions > 0);
  }
}

// The step that fills a sliding context is not observed, since its rows are computed again. Here it computes the whole
// prompt.
TEST_P(MtpDrafterTest, StepsThatSlideTheContextAreNotObserved) {
  struct Recorder final : Drafter {
    [[nodiscard]] bool reads_hidden() const override { return true; }
    void observe(std::span<const Computed> all) override {
      for (const Computed& c : all) EXPECT_LE(c.begin, c.first);
      n += all.size();
    }
    void draft(std::span<const Input>) override {}
    size_t n = 0;
  } recorder;
  const core::StoredModel model = test::random_model(config());
  EngineOn engine(GetParam(), model);
  engine.draft_with(recorder);
  const Request r{.prompt = tokens(55), .options = {.max_tokens = 10, .speculate = 3, .context = 56, .slide = true}};
  EXPECT_EQ(test::results_of(engine, r).front().tokens.size(), 10U);
  EXPECT_GT(recorder.n, 0U);
}

TEST(MtpDrafter, RejectsModelsWithoutModuleAndSeveralStepsInFlight) {
  core::ModelConfig c = test::small_shapes().front().config;
  const core::StoredModel plain = test::random_model(c);
  Cpu cpu({.n_threads = 1});
  EXPECT_ERROR(MtpDrafter(plain, cpu), "the model has no module that predicts further tokens");
  c.n_tokens_ahead = 1;
  const core::StoredModel model = test::random_model(c);
  MtpDrafter drafter(model, cpu);
  test::RecordingMachine three(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}), 3);
  Engine engine(model, three);
  EXPECT_ERROR(engine.draft_with(drafter), "need a machine with one step in flight, not 3");
}

// Quantized rows are halved at a block boundary. If there is none in the middle (Q4_K here), the matrix becomes F32.
TEST(TokensAhead, HalvesOfTheProjectionAreItsColumns) {
  for (const core::DType type : {core::DType::Q8_0, core::DType::F16, core::DType::Q4_K}) {
    test::Shape shape = test::typed_shapes().front();
    shape.config.n_tokens_ahead = 1;
    shape.config.dim = shape.config.hidden_dim = 128;
    shape.config.n_heads = shape.config.n_kv_heads = 2;
    shape.config.head_dim = 64;
    shape.type = type == core::DType::Q4_K ? core::DType::F32 : type;
    core::StoredModel model = test::random_model_of(shape);
    const auto manifest = core::tensor_manifest(model.config);
    const auto at = static_cast<size_t>(std::ranges::find(manifest, Role::MtpProjection, &core::TensorSpec::role) -
                                        manifest.begin());
    const auto blocks = test::random_blocks(core::DType::Q4_K, 128, 5, 0.2);  // each row is one block
    if (type == core::DType::Q4_K) {
      model.tensors[at].type = type;
      model.tensors[at].bytes = blocks;
    }
    const std::vector<float> whole = core::to_floats(model.tensors[at]);
    const core::StoredModel module = module_of(model);
    const auto of_module = core::tensor_manifest(module.config);
    const auto own = static_cast<size_t>(std::ranges::find(of_module, Role::MtpProjection, &core::TensorSpec::role) -
                                         of_module.begin());
    const core::TensorView& halves = module.tensors[own];
    EXPECT_EQ(halves.shape, (std::vector<int64_t>{2, 128, 128}));
    EXPECT_EQ(halves.type, type == core::DType::Q4_K ? core::DType::F32 : type);
    const std::vector<float> values = core::to_floats(halves);
    for (size_t i = 0; i < whole.size(); ++i) {
      const size_t row = i / 256, column = i % 256;
      ASSERT_EQ(values[(column / 128 * 128 + row) * 128 + column % 128], whole[i]);
    }
  }
}

}  // namespace
}  // namespace folio::infer
