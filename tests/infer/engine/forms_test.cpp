// Tests structured output: each output matches its grammar, doesn't depend on other requests, and is drawn from the
// model's logits of the allowed tokens. Grammars are built directly from parts, without a parser.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "infer/engine/mtp_drafter.h"
#include "tests/infer/engine/form_texts.h"
#include "tests/infer/engine/letter_tokenizer.h"

namespace folio::infer {
namespace {

using forms::Form;
using forms::Grammar;
using forms::test::form_of;
using test::EngineOn;
using test::RunnerOn;
using Parts = std::vector<Grammar::Part>;

std::shared_ptr<Form> text_form(const data::Tokenizer& tokenizer, std::string_view text) {
  return form_of(tokenizer, [&](Grammar& g) { return g.text(text); });
}

// Returns a builder of a grammar that matches [a-d]{1,3}(-[a-d]{1,3}){2,most}!
forms::test::Build words(int64_t most) {
  return [most](Grammar& g) {
    const auto word = [&] { return g.repeat([&] { return g.bytes('a', 'd'); }, 1, 3); };
    const auto more = [&] { return g.sequence(Parts{g.text("-"), word()}); };
    return g.sequence(Parts{word(), g.repeat(more, 2, most), g.text("!")});
  };
}

// Returns a part that matches [a-c]*, which may end after any letter and may always continue.
Grammar::Part endless(Grammar& g) {
  return g.repeat([&] { return g.bytes('a', 'c'); }, 0, -1);
}

class Forms : public test::FormTexts {};

INSTANTIATE_TEST_SUITE_P(Machines, Forms, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

// The expected tokens are found by computing each step's logits, and trying the bytes of every token.
TEST_P(Forms, GreedySelectsTheLikeliestAllowedToken) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto form = form_of(pieces_, words(5));
    Request request = drawing(form, seed);
    request.options.sampler = {.temperature = 0.0F};
    RunnerOn runner(GetParam(), model_);
    const SequenceId sequence = runner.cache().add_sequence();
    std::vector<int32_t> text = request.prompt;
    std::vector<float> logits = test::run(runner, test::rows_of(sequence, text));
    Form::Place place = form->start();
    for (;;) {
      const auto row = std::span(logits).last(37);
      int32_t best = -1;
      for (int32_t id = 1; id < 37; ++id) {
        const std::string& bytes = pieces_.token_bytes(id);
        const bool fits = id == 36 ? form->may_end(place) : !bytes.empty() && form->after(place, bytes) != Form::kDead;
        if (fits && (best < 0 || row[static_cast<size_t>(id)] > row[static_cast<size_t>(best)])) best = id;
      }
      if (best == 36) break;
      text.push_back(best);
      place = form->after(place, pieces_.token_bytes(best));
      logits = test::run(runner, test::rows_of(sequence, std::span(text).last(1), std::ssize(text) - 1));
    }
    const GenerateResult result = alone(request).front();
    EXPECT_EQ(result.tokens, std::vector<int32_t>(text.begin() + 20, text.end()));
    EXPECT_EQ(result.finish_reason, FinishReason::Stop);
  }
}

TEST_P(Forms, CompleteFormsEndWithoutAnEndToken) {
  const test::LetterTokenizer letters;  // its end token is never drawn
  Request request = drawing(text_form(letters, "ABC"), 1);
  request.tokenizer = &letters;
  const GenerateResult result = alone(request).front();
  EXPECT_EQ(result.text, "ABC");
  EXPECT_EQ(result.finish_reason, FinishReason::Stop);
  request.options.max_tokens = 3;  // the third token completes the output
  EXPECT_EQ(alone(request).front().finish_reason, FinishReason::Stop);
  request.options.max_tokens = 2;
  EXPECT_EQ(alone(request).front().finish_reason, FinishReason::Length);

  for (const int64_t width : {0, 2}) {
    Request nothing = drawing(form_of(pieces_, [](Grammar& g) { return g.empty(); }), 1);
    nothing.options.beams.width = width;
    EngineOn engine(GetParam(), model_);
    const GenerateResult none = test::results_of(engine, nothing).front();
    EXPECT_TRUE(none.tokens.empty());
    EXPECT_EQ(none.finish_reason, FinishReason::Stop);
    EXPECT_EQ(engine.statistics().steps, 0U);
  }
}

TEST_P(Forms, EndTokensAreAllowedOnlyAtTheFormsEnd) {
  Request request = drawing(form_of(pieces_,
                                    [](Grammar& g) {
                                      return g.sequence(Parts{g.text("abca"), endless(g)});
                                    }),
                            1, 30);
  request.options.sampler.logit_bias = {{36, 100.0F}};
  EXPECT_TRUE(alone(request).front().text.starts_with("abca"));
  EXPECT_LE(alone(request).front().text.size(), 5U) << "it ends as soon as the form allows";
  request.options.end_tokens = {3, 8};  // the tokens "a" and "!", which may end the output, but not be in it
  request.options.sampler.logit_bias = {{8, 100.0F}};
  const GenerateResult result = alone(request).front();
  EXPECT_EQ(result.finish_reason, FinishReason::Stop);
  expect_fits(result, request);
  EXPECT_EQ(std::ranges::count(result.tokens, 3), 0);
}

TEST_P(Forms, DeadEndsHaveFinishReasonForm) {
  // The letter x occurs only in the token "xy", so no token fits after "ab".
  Request request = drawing(text_form(pieces_, "abxz"), 1);
  GenerateResult result = alone(request).front();
  EXPECT_EQ(result.text, "ab");
  EXPECT_EQ(result.finish_reason, FinishReason::Form);
  EXPECT_EQ(finish_reason_name(result.finish_reason), "form");
  result = alone(drawing(text_form(pieces_, "xz"), 1)).front();
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.finish_reason, FinishReason::Form);
  // Bans all tokens with "-". If the grammar requires "-", no token is allowed there; if "-" is optional, the output
  // ends before it.
  request = drawing(form_of(pieces_, words(3)), 2);
  for (int32_t id = 0; id < 37; ++id) {
    if (pieces_.token_bytes(id).find('-') != std::string::npos) request.options.sampler.bad_words.push_back({id});
  }
  result = alone(request).front();
  EXPECT_FALSE(result.tokens.empty());
  EXPECT_EQ(result.finish_reason, FinishReason::Form);
  request.options.form = form_of(pieces_, [](Grammar& g) {
    return g.sequence(Parts{g.text("a"), g.optional(g.text("-a"))});
  });
  request.options.sampler.bad_words.push_back({36});
  result = alone(request).front();
  EXPECT_EQ(result.text, "a");
  EXPECT_EQ(result.finish_reason, FinishReason::Stop);
}

TEST_P(Forms, StopStringsEndIncompleteForms) {
  Request request = drawing(form_of(pieces_, words(6)), 1);
  request.options.stops = {"-"};
  const GenerateResult result = alone(request).front();
  EXPECT_EQ(result.finish_reason, FinishReason::Stop);
  EXPECT_LE(result.text.size(), 3U);
  EXPECT_NE(request.options.form->after(request.options.form->start(), result.text + "-"), Form::kDead);
}

TEST_P(Forms, ForcedTokensNeedNoSteps) {
  const test::LetterTokenizer letters;
  const std::string text = "ABCDEFGHIJKLMNOPQRSABCDEFGHIJKLMNOPQRS";
  Request request = drawing(text_form(letters, text), 1);
  request.tokenizer = &letters;
  EngineOn engine(GetParam(), model_);
  const GenerateResult result = test::results_of(engine, request).front();
  EXPECT_EQ(result.text, text);
  EXPECT_EQ(result.n_right, result.n_drafts);
  EXPECT_LT(engine.statistics().steps, 6U);
}

TEST_P(Forms, ForcedBytesAreDraftTokens) {
  std::string text;
  for (int i = 0; i < 16; ++i) text += "abc";
  Request request = drawing(text_form(pieces_, text), 1, 60);
  const auto any = alone(request);
  EXPECT_EQ(any.front().text, text);
  request.options.speculate = 8;
  EXPECT_EQ(alone(request).front().tokens, any.front().tokens);
  const auto all = std::views::iota(0, 37);
  const int32_t whole = *std::ranges::find(all, "abc", [&](int id) { return pieces_.token_bytes(id); });
  request.options.sampler.logit_bias = {{whole, 100.0F}};
  EngineOn engine(GetParam(), model_);
  engine.goodput().set_times({}, 0.0);
  EXPECT_EQ(test::results_of(engine, request).front().tokens, std::vector<int32_t>(16, whole));
  EXPECT_LT(engine.statistics().steps, 6U);
}

// Drafts are the tokens that the form (output constraint) forces, then those of a draft model or of an MTP module until
// the form rejects one. They must not change outputs.
TEST_P(Forms, DraftersFollowTheForm) {
  core::ModelConfig config = model_.config;
  config.n_tokens_ahead = 1;
  const core::StoredModel model = test::random_model(config);
  for (const bool module : {false, true}) {
    if (module && GetParam().name == "three_in_flight") continue;  // several steps in flight keep no hidden states
    EngineOn plain(GetParam(), model);
    EngineOn engine(GetParam(), model);
    std::unique_ptr<DraftModel> drafts;
    if (module) {
      drafts = std::make_unique<MtpDrafter>(model, engine.machine(0));
    } else {
      drafts = std::make_unique<DraftModel>(model, model, engine.machine(0));
    }
    engine.draft_with(*drafts);
    engine.goodput().set_times({}, 0.0);
    size_t n_good = 0;  // drafts that were right; of a module, whose weights are random, all drafts
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Request request = drawing(form_of(pieces_, words(6)), seed);
      const auto expected = test::results_of(plain, request);
      request.options.speculate = 4;
      const auto results = test::results_of(engine, request);
      expect_same(results, expected);
      n_good += module ? results.front().n_drafts : results.front().n_right;
    }
    EXPECT_GT(n_good, 0U);
    EXPECT_GT(drafts->runner().n_issued(), 0U);
  }
}

TEST_P(Forms, BeamsFitTheForm) {
  Request request = drawing(form_of(pieces_, words(4)), 3);
  request.options.n = request.options.beams.width = 5;
  std::vector<GenerateResult> expected = alone(request);
  ASSERT_EQ(expected.size(), 5U);
  std::set<std::vector<int32_t>> texts;
  for (const GenerateResult& result : expected) {
    EXPECT_EQ(result.finish_reason, FinishReason::Stop);
    expect_fits(result, request);
    texts.insert(result.tokens);
    // The score is the tokens' mean log-probability from unmasked logits. A complete output isn't followed by an end
    // token, so the score includes none.
    const auto n = static_cast<double>(result.tokens.size());
    EXPECT_NEAR(*result.score, log_prob(request, result.tokens) / n, 2e-5);
  }
  EXPECT_EQ(texts.size(), 5U);
}

TEST_P(Forms, BeamsFindAllTextsOfASmallForm) {
  const test::LetterTokenizer letters;
  Request request = drawing(form_of(letters,
                                    [](Grammar& g) {
                                      return g.choice(Parts{g.text("AB"), g.text("ACD"), g.text("B")});
                                    }),
                            1);
  request.tokenizer = &letters;
  request.options.n = request.options.beams.width = 5;
  std::multiset<std::string> texts;
  for (const GenerateResult& result : alone(request)) {
    texts.insert(result.text);
    EXPECT_EQ(result.finish_reason, result.text.empty() ? FinishReason::Form : FinishReason::Stop);
  }
  EXPECT_EQ(texts, (std::multiset<std::string>{"", "", "AB", "ACD", "B"}));
}

// A structured-output constraint that throws during decoding fails only the request that uses it.
TEST_P(Forms, FormErrorsFailOnlyTheirRequest) {
  const test::LetterTokenizer letters;
  Request request = drawing(form_of(letters,
                                    [](Grammar& g) {
                                      const auto maybe = [&] { return g.optional(g.text("A")); };
                                      return g.sequence(Parts{g.text("ABA"), g.repeat(maybe, 0, 5000)});
                                    }),
                            1);
  request.tokenizer = &letters;
  const Request other = drawing(form_of(pieces_, words(4)), 3);
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 2000});
  const RequestId id = engine.add(request);
  const RequestId other_id = engine.add(other);
  const auto step_to_the_end = [&] {
    while (engine.step()) continue;
  };
  EXPECT_ERROR(step_to_the_end(), "possible parses");
  ASSERT_EQ(engine.failed(), id);
  engine.drop(id);
  while (engine.step()) continue;
  expect_same(engine.take_all(other_id), alone(other));
}

TEST_P(Forms, FormsRequireTheirTokenizer) {
  const test::LetterTokenizer letters;
  EngineOn engine(GetParam(), model_);
  Request request = drawing(text_form(letters, "AB"), 1);
  EXPECT_ERROR(engine.add(request), "the form was compiled for another vocabulary");
  request.tokenizer = nullptr;
  EXPECT_ERROR(engine.add(request), "a form needs a tokenizer");
}

}  // namespace
}  // namespace folio::infer
