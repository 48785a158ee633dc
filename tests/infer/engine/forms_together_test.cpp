// Tests concurrent requests with different structured-output constraints: outputs don't depend on the other requests,
// even with preemption, speculation and all other request options.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "infer/forms/forms.h"
#include "tests/infer/engine/form_texts.h"

namespace folio::infer {
namespace {

using forms::Form;
using test::EngineOn;

constexpr size_t kRequests = 16;

class FormsTogether : public test::FormTexts {
 protected:
  [[nodiscard]] std::shared_ptr<Form> regex(std::string text) const {
    return forms::make_form({.kind = forms::FormOptions::Kind::Regex, .text = std::move(text)}, tokens_);
  }
  // Returns a different constraint for each i: strings of a fixed length, repeated pieces or words, or strings that may
  // end after any letter.
  [[nodiscard]] std::shared_ptr<Form> form(size_t i) const {
    switch (i % 4) {
      case 0:
        return regex(fmt::format("[a-d]{{{}}}!", 5 + i));
      case 1:
        return regex(fmt::format("((ab|cd|-)[b-d]){{{},20}}!", i));
      case 2:
        return regex(fmt::format("([a-d]{{1,{}}}-)+!", i));
      default:
        return regex(fmt::format("a{{{}}}[b-d]*", i));
    }
  }
  [[nodiscard]] std::vector<Request> requests() const {
    std::vector<Request> all;
    for (size_t i = 0; i < kRequests; ++i) all.push_back(drawing(form(i), i, 24, 5 + 2 * i));
    return all;
  }
  // Runs all requests together, with a large KV cache and one that causes preemptions. Expects the
  // same outputs as when each request runs in its own engine.
  void expect_as_alone(std::vector<Request> requests, std::span<const core::Adapter> adapters = {}) const {
    std::vector<std::vector<GenerateResult>> expected;
    for (const Request& request : requests) {
      expected.push_back(alone(request, adapters));
      for (const GenerateResult& result : expected.back()) {
        if (request.options.form) expect_fits(result, request);
      }
    }
    for (const int64_t blocks : {400, 12}) {
      for (const size_t speculate : {0, 5}) {
        EngineOn engine(GetParam(), model_, {.n_threads = 2}, {.max_positions = blocks * kBlockPositions});
        for (const core::Adapter& adapter : adapters) static_cast<void>(engine.load_adapter(adapter));
        std::vector<RequestId> ids;
        for (Request& request : requests) {
          request.options.speculate = speculate;
          ids.push_back(engine.add(request));
        }
        while (engine.step()) continue;
        for (size_t i = 0; i < ids.size(); ++i) {
          SCOPED_TRACE(fmt::format("request {}, {} blocks, {} drafts", i, blocks, speculate));
          expect_same(engine.take_all(ids[i]), expected[i]);
        }
        EXPECT_EQ(engine.cache().blocks_in_use(), 0);
        EXPECT_EQ(engine.statistics().preemptions > 0, blocks < 100);
      }
    }
  }

 private:
  std::shared_ptr<const forms::TokenTree> tokens_ = std::make_shared<forms::TokenTree>(pieces_);
};

INSTANTIATE_TEST_SUITE_P(Machines, FormsTogether, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

TEST_P(FormsTogether, FormsWorkWithOtherOptions) {
  const std::array adapters = {test::random_adapter(config(), 1, 3), test::random_adapter(config(), 2, 16)};
  std::vector<Request> all = requests();
  for (size_t i = 0; i < all.size(); ++i) {
    GenerateOptions& options = all[i].options;
    if (i % 3 != 0) options.adapter = static_cast<int32_t>(i % 3 - 1);
    switch (i % 8) {
      case 1:
        options.n = 3;
        break;
      case 2:
        options.stops = {"-b", "a!"};
        break;
      case 3:
        options.sampler.logit_bias = {{36, -2.0F}, {5, 3.0F}};
        break;
      case 4:
        options.sampler.presence_penalty = 0.5F;
        options.sampler.frequency_penalty = 0.3F;
        options.sampler.repetition_penalty = 1.3F;
        break;
      case 5:
        options.n = options.beams.width = 3;
        break;
      case 6:
        options.sampler.top_k = 3;
        options.sampler.min_p = 0.1F;
        options.sampler.top_p = 0.9F;
        break;
      case 7:
        options.stop_words = {{3, 4}, {5, 5}};
        options.sampler.bad_words = {{4, 4}, {6}};
        break;
      default:  // request 0 has no options; request 8 has no form and a sliding context
        if (i == 0) break;
        options.form = nullptr;
        options.context = 40;
        options.slide = true;
        options.max_tokens = 70;
        options.sampler.repetition_penalty = 1.2F;
    }
  }
  expect_as_alone(all, adapters);
}

}  // namespace
}  // namespace folio::infer
