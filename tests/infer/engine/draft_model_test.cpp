// Tests infer/engine/draft_model.h: draft tokens are those that the draft model would generate by itself, and a
// request's output is the same with and without a draft model.
#include "infer/engine/draft_model.h"

#include <gtest/gtest.h>

#include "infer/engine/engine.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/engine/varied_requests.h"

namespace folio::infer {
namespace {

using test::EngineOn;
using test::MachineKind;

// A draft model with all layers on one machine, the first that kind.make() returns.
class DraftModelOn : private test::Rig, public DraftModel {
 public:
  DraftModelOn(const MachineKind& kind, const core::StoredModel& model, const core::StoredModel& target,
               const CacheOptions& options = {})
      : Rig(kind, model.config, {.n_threads = 1}), DraftModel(model, target, machine(0), kind.with_type(options)) {}
};

class DraftModelTest : public test::DraftTexts {
 protected:
  // The tokens of a sequence, and its state for drafting: sampler, first token of the context, and drafter's memory.
  struct Drafted {
    std::vector<int32_t> tokens;
    Sampler sampler;
    size_t first = 0;
    std::unique_ptr<Drafter::Memory> memory{};
    [[nodiscard]] Drafter::Input text(size_t most) {
      return {.tokens = tokens, .first = first, .most = most, .n_misses = 0, .sampler = sampler, .memory = memory};
    }
    // Appends up to `most` draft tokens to `tokens`, and returns only the draft tokens.
    std::vector<int32_t> draft(DraftModel& model, size_t most) {
      const auto n = static_cast<std::ptrdiff_t>(tokens.size());
      model.draft(std::array{text(most)});
      return {tokens.begin() + n, tokens.end()};
    }
  };
  static core::ModelConfig one_layer(int64_t context) {
    core::ModelConfig c = config();
    c.n_layers = 1;
    c.context_length = context;
    return c;
  }
  static Drafted drafted(std::vector<int32_t> tokens, const SamplerOptions& options = {.temperature = 0.0F}) {
    const size_t n = tokens.size();
    return {.tokens = std::move(tokens), .sampler = Sampler(options, {}, n)};
  }
  [[nodiscard]] std::vector<int32_t> drawn(const core::StoredModel& model, const std::vector<int32_t>& text, size_t n,
                                           const SamplerOptions& options = {.temperature = 0.0F}) const {
    return test::drawn_by_host(
        GetParam(), model, {.prompt = text, .options = {.max_tokens = static_cast<int64_t>(n), .sampler = options}});
  }
  core::StoredModel small_ = test::random_model(one_layer(100), 8);
};

INSTANTIATE_TEST_SUITE_P(Machines, DraftModelTest, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

TEST_P(DraftModelTest, DraftsMatchTheModel) {
  const SamplerOptions options[] = {
      {.temperature = 0.0F},
      {.temperature = 1.0F, .top_p = 1.0F, .seed = 3},
      {.temperature = 0.8F, .repetition_penalty = 1.4F, .frequency_penalty = 0.3F, .seed = 4},
      {.temperature = 0.0F, .presence_penalty = 1.0F, .logit_bias = {{7, 2.0F}}}};
  DraftModelOn model(GetParam(), small_, model_, {.n_sequences = 8});
  std::vector<Drafted> all;
  std::vector<std::vector<int32_t>> expected;
  std::vector<Drafter::Input> texts;
  for (size_t i = 0; i < std::size(options); ++i) {
    const auto text = tokens(1 + 11 * i, i);
    all.push_back(drafted(text, options[i]));
    expected.push_back(text);
    for (const int32_t token : drawn(small_, text, 3 + i, options[i])) expected[i].push_back(token);
  }
  for (size_t i = 0; i < all.size(); ++i) texts.push_back(all[i].text(3 + i));
  model.draft(texts);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].tokens, expected[i]) << "text " << i;
}

// Drafts depend only on the current tokens, even if earlier drafts were rejected (the sequence is truncated and gets
// another token) or the context slides.
TEST_P(DraftModelTest, FollowsRejectedDraftsAndSlides) {
  DraftModelOn model(GetParam(), small_, model_);
  Drafted one = drafted(tokens(50));
  EXPECT_EQ(one.draft(model, 5), drawn(small_, tokens(50), 5));
  for (const size_t n_kept : {55U, 53U, 50U, 20U, 1U}) {
    one.tokens.resize(n_kept);
    one.tokens.push_back(3);
    const auto text = one.tokens;
    EXPECT_EQ(one.draft(model, 4), drawn(small_, text, 4)) << n_kept << " tokens are kept";
    one.tokens = text;
    EXPECT_EQ(one.draft(model, 4), drawn(small_, text, 4)) << "the same again";
    one.tokens = tokens(60);
  }
  one.first = 40;
  const std::vector<int32_t> window(one.tokens.begin() + 40, one.tokens.end());
  EXPECT_EQ(one.draft(model, 4), drawn(small_, window, 4));
}

TEST_P(DraftModelTest, PrefillsLongPromptsBeforeDrafting) {
  const core::StoredModel model = test::random_model(one_layer(700), 8);
  DraftModelOn drafter(GetParam(), model, model_, {.n_sequences = 2});
  const size_t n_rows = drafter.runner().max_rows();
  const size_t n_reads = (600 + n_rows - 1) / n_rows;
  Drafted one = drafted(tokens(600));
  for (size_t i = 1; i < n_reads; ++i) EXPECT_TRUE(one.draft(drafter, 3).empty()) << "step " << i;
  EXPECT_EQ(one.draft(drafter, 3), drawn(model, tokens(600), 3));
  Drafted begins_alike = drafted(tokens(600));
  EXPECT_EQ(begins_alike.draft(drafter, 2), drawn(model, tokens(600), 2)) << "the prompt's blocks are cached";
}

TEST_P(DraftModelTest, DraftsNothingWithoutCapacity) {
  DraftModelOn model(GetParam(), small_, model_, {.max_positions = 100, .n_sequences = 1});  // four KV blocks
  EXPECT_EQ(drafted(tokens(98)).draft(model, 8), drawn(small_, tokens(98), 3)) << "no position for the last";
  EXPECT_EQ(drafted(tokens(100)).draft(model, 8).size(), 1U);
  EXPECT_TRUE(drafted(tokens(101)).draft(model, 8).empty()) << "past the context";
  EXPECT_EQ(model.runner().cache().blocks_in_use(), 0);
  Drafted first = drafted(tokens(70, 1));
  Drafted second = drafted(tokens(40, 2));
  model.draft(std::array{first.text(2), second.text(2)});
  EXPECT_EQ(first.tokens.size(), 72U);
  EXPECT_EQ(second.tokens.size(), 40U) << "the first sequence holds three of four blocks";
  EXPECT_EQ(model.runner().cache().blocks_in_use(), 3);
  first.memory.reset();
  EXPECT_EQ(second.draft(model, 2), drawn(small_, tokens(40, 2), 2));
}

// `first` slides and keeps the beginning of its cached block, which `second` then shares, so `first` must copy it.
TEST_P(DraftModelTest, LaterSequencesShareBlocksThatEarlierOnesOverwrite) {
  DraftModelOn model(GetParam(), small_, model_, {.max_positions = 96, .n_sequences = 1});  // three KV blocks
  Drafted first = drafted(tokens(40));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(first.draft(model, 1).size(), 1U);
  first.tokens.erase(first.tokens.begin() + 10, first.tokens.begin() + 12);
  Drafted second = drafted(tokens(35));
  const auto text = first.tokens;
  model.draft(std::array{first.text(1), second.text(1)});
  EXPECT_EQ(std::vector(first.tokens.begin() + std::ssize(text), first.tokens.end()), drawn(small_, text, 1));
  EXPECT_EQ(second.tokens.size(), 35U) << "the first sequence needs the two free blocks";
}

TEST_P(DraftModelTest, DraftsNothingWithDamagedWeights) {
  const auto damaged = test::damaged_model(one_layer(100));
  DraftModelOn model(GetParam(), damaged, model_);
  EXPECT_TRUE(drafted(tokens(5)).draft(model, 3).empty());
}

TEST_P(DraftModelTest, RejectsAnotherVocabulary) {
  const core::StoredModel other = test::random_model(test::small_shapes()[0].config);
  EXPECT_ERROR(DraftModelOn(GetParam(), other, model_), "has a vocabulary of 50 tokens, but ");
  EXPECT_ERROR(DraftModelOn(GetParam(), other, model_), " has 37; ");
}

TEST_P(DraftModelTest, OutputsDoNotDependOnDrafts) {
  const test::LetterTokenizer tokenizer;
  std::vector<Request> requests = test::varied_requests(tokens(30, 3), 1, tokens(23, 2), tokenizer);
  std::vector<std::vector<GenerateResult>> expected;
  for (Request& r : requests) {
    expected.push_back(alone(r));
    r.options.speculate = 6;
  }
  struct Setting {
    const core::StoredModel& model;
    int64_t positions;  // capacity of the KV cache; 160 positions cause preemptions
    int64_t draft_positions;
  };
  for (const auto& [model, positions, draft_positions] : {Setting{model_, 2000, 2000}, Setting{model_, 160, 100},
                                                          Setting{small_, 160, 2000}, Setting{small_, 2000, 160}}) {
    DraftModelOn drafter(GetParam(), model, model_, {.max_positions = draft_positions});
    EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = positions});
    engine.draft_with(drafter);
    engine.goodput().set_times({}, 0.0);
    expect_with_drafts(engine, drafter.runner(), requests, expected, [&] {
      const auto most = static_cast<int64_t>(engine.statistics().running) * 3;
      EXPECT_LE(drafter.runner().cache().blocks_in_use(), most) << "waiting sequences hold no blocks";
    });
    EXPECT_EQ(positions == 160, engine.statistics().preemptions > 0);
  }
}

// With n accepted draft tokens, a step yields n + 1 tokens.
TEST_P(DraftModelTest, IdenticalDraftModelIsAlwaysAccepted) {
  const bool on_a_gpu_too = GetParam().roundoff > 0x1p-24 && GetParam().make({.n_threads = 1}).size() > 1;
  if (on_a_gpu_too) GTEST_SKIP() << "its logits are not those of a CPU";
  size_t n_in_flight = 1;
  const auto run = [&](size_t n_requests, size_t speculate, const SamplerOptions& o) {
    DraftModelOn drafter(GetParam(), model_, model_, {.n_sequences = 3});
    EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 3});
    engine.draft_with(drafter);
    engine.goodput().set_times({}, 0.0);  // plans as if rows took no time, so all drafts are tried
    n_in_flight = engine.runner().steps_in_flight();
    std::vector<RequestId> ids;
    for (size_t i = 0; i < n_requests; ++i) {
      ids.push_back(
          engine.add({.prompt = tokens(20, i), .options = {.max_tokens = 31, .sampler = o, .speculate = speculate}}));
    }
    while (engine.step()) continue;
    for (const RequestId id : ids) {
      const GenerateResult result = engine.take(id);
      EXPECT_EQ(result.tokens.size(), 31U);
      EXPECT_EQ(result.n_right, result.n_drafts);
    }
    return engine.statistics().steps;
  };
  for (const SamplerOptions& o : test::kVariedOptions) {
    EXPECT_EQ(run(1, 0, o), 31U);
    EXPECT_EQ(run(1, 1, o), 1U + 30 / 2);
    EXPECT_EQ(run(1, 5, o), 1U + 30 / 6);
    const size_t n = n_in_flight > 1 ? 3 : 1;  // one step per sequence if several may be in flight
    EXPECT_EQ(run(3, 5, o), n * (1U + 30 / 6));
    EXPECT_EQ(run(3, 11, o), n * (1U + 36 / 12));
  }
}

TEST_P(DraftModelTest, PoorDraftModelsAreUsedRarely) {
  DraftModelOn drafter(GetParam(), small_, model_);
  EngineOn engine(GetParam(), model_);
  engine.draft_with(drafter);
  StepTime time;
  time.fixed = 0.9;
  time.per_row = 0.1;
  engine.goodput().set_times(time, 0.1);
  Request r{.prompt = tokens(20),
            .options = {.max_tokens = 75, .sampler = {.temperature = 1.0F, .top_p = 1.0F}, .speculate = 4}};
  const GenerateResult result = test::results_of(engine, r).front();
  EXPECT_EQ(result.tokens, drawn(model_, r.prompt, 75, r.options.sampler));
  EXPECT_LT(result.n_right, 15U);
  EXPECT_LT(result.n_drafts, 40U);
}

// A drafter that throws in every second call. Only the step that makes this call may fail; all requests then continue.
class FailingDrafter final : public Drafter {
 public:
  void draft(std::span<const Input> texts) override {
    for (const Input& text : texts) text.tokens.push_back(7);
    if (++calls % 2 == 1) throw std::runtime_error("enough");
  }
  int calls = 0;
};

TEST_P(DraftModelTest, DrafterErrorsFailOnlyTheirStep) {
  FailingDrafter drafter;
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 2});
  engine.draft_with(drafter);
  engine.goodput().set_times({}, 0.0);
  std::vector<RequestId> ids;
  for (const uint64_t seed : {1U, 2U}) {
    ids.push_back(engine.add({.prompt = tokens(20, seed), .options = {.max_tokens = 30, .speculate = 3}}));
  }
  EXPECT_ERROR(engine.draft_with(drafter), "2 requests");
  const int thrown = test::step_to_the_end(engine);
  EXPECT_GT(thrown, 0);
  EXPECT_EQ(drafter.calls / 2 + drafter.calls % 2, thrown);
  for (const uint64_t seed : {1U, 2U})
    EXPECT_EQ(engine.take(ids[seed - 1]).tokens, drawn(model_, tokens(20, seed), 30, {}));
}

}  // namespace
}  // namespace folio::infer
