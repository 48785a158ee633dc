// Fuzzes the cost of parsing a request. For any body, the counted steps must not exceed the budget, and allocated bytes
// must be proportional to the steps. Nothing is timed.
#include <array>
#include <functional>

#include "core/error.h"
#include "core/json.h"
#include "data/tokenizers/char_tokenizer.h"
#include "infer/server/api.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

namespace server = infer::server;

constexpr uint64_t kSteps = 300'000;                // budget of each request
constexpr size_t kBytesAnyway = size_t{16} << 20U;  // fixed allowance, such as for the tool call format
constexpr size_t kBytesPerStep = 1024;

using Parse = std::function<void(const server::ServedModel&, const core::WorkBudget&)>;

// Checks the steps and the allocated bytes of `parse`. Uses a new ServedModel for each input, because a ServedModel
// caches compiled schemas. Returns true if `parse` accepts the input.
bool costs_its_steps(std::string_view input, const Parse& parse) {
  static const auto tokenizer = [] {
    std::string ascii = "\n";
    for (char c = ' '; c <= '~'; ++c) ascii += c;
    return data::CharTokenizer::from_text(ascii, "f.txt");
  }();
  static const std::optional<data::ChatTemplate> chat = data::chat_template_named("zephyr");
  const server::ServedModel served{.name = "f",
                                   .context = 1 << 20,
                                   .tokenizer = tokenizer,
                                   .chat_template = chat,
                                   .forms = std::make_shared<server::AnswerForms>(tokenizer, chat)};
  const core::WorkBudget budget(kSteps);
  const size_t before = allocated_bytes();
  bool answered = true;
  try {
    parse(served, budget);
  } catch (const server::ApiError& error) {
    answered = false;
    check(error.status() == 400 || error.status() == 404, "what is wrong with a request is the client's");
  }
  check(budget.spent() <= kSteps, "a request takes no more steps than its budget has");
  check(allocated_bytes() - before <= kBytesAnyway + kBytesPerStep * (budget.spent() + input.size()),
        "what is allocated for a request is in proportion to its steps");
  return answered;
}

}  // namespace

bool take(std::string_view input) {
  server::Json body;
  if (!accepted([&] { body = core::parse_json(input, "the body"); }, "the body")) return false;
  using server::ServedModel;
  using Budget = core::WorkBudget;
  const std::array<Parse, 5> all{
      [&](const ServedModel& m, const Budget& b) {
        static_cast<void>(parse_completion(body, m, 1, input, {.budget = b}));
      },
      [&](const ServedModel& m, const Budget& b) { static_cast<void>(parse_chat(body, m, 1, input, {.budget = b})); },
      [&](const ServedModel& m, const Budget& b) {
        static_cast<void>(parse_response(body, m, 1, input, {.budget = b}));
      },
      [&](const ServedModel& m, const Budget& b) { static_cast<void>(server::parse_tokenize(body, m, b)); },
      [&](const ServedModel& m, const Budget&) { static_cast<void>(server::parse_detokenize(body, m)); }};
  bool answered = false;
  for (const Parse& parse : all) answered = costs_its_steps(input, parse) || answered;
  return answered;
}

}  // namespace folio::fuzz
