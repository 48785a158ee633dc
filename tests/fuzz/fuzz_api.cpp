// Fuzzes the parsing of a request's body by each route of the server. For any body, the work steps that
// core::WorkBudget counts must not exceed the budget, and allocated bytes must be at most proportional to the steps
// plus the body's size. Nothing is timed.
#include <functional>

#include "core/error.h"
#include "core/json.h"
#include "data/tokenizers/char_tokenizer.h"
#include "infer/server/api.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

namespace server = infer::server;

constexpr uint64_t kSteps = 300'000;                // work budget of each request
constexpr size_t kBytesAnyway = size_t{16} << 20U;  // bytes allowed besides kBytesPerStep, e.g. for tool call formats
constexpr size_t kBytesPerStep = 1024;

// Returns true if `parse` accepts the body. Bad input must give an ApiError with status 400 or 404, whose message is
// one printable line of at most 2048 bytes.
bool answered(std::string_view input, const std::function<void(const core::WorkBudget&)>& parse) {
  const core::WorkBudget budget(kSteps);
  const size_t before = allocated_bytes;
  bool accepted = true;
  try {
    parse(budget);
  } catch (const server::ApiError& error) {
    accepted = false;
    check(error.status() == 400 || error.status() == 404, "bad input has status 400 or 404");
    const std::string what = error.what();
    check(!what.empty() && core::printable(what, what.size()) == what, "an error is one printable line");
    check(what.size() <= 2048, "an error is short");
    check(error.json()["error"]["message"] == what, "an error is JSON");
  }
  check(budget.spent() <= kSteps, "a request uses at most its budget's steps");
  check(allocated_bytes - before <= kBytesAnyway + kBytesPerStep * (budget.spent() + input.size()),
        "allocated bytes are at most proportional to the steps");
  return accepted;
}

void check_request(const server::CompletionRequest& r, const server::ServedModel& served) {
  check(!r.prompts.empty() && r.options.n >= 1, "a request has a prompt and a choice");
  check(std::ssize(r.prompts) * r.options.n <= served.max_choices, "the choices are limited");
  for (const server::Prompt& prompt : r.prompts) {
    check(!prompt.tokens.empty(), "no prompt is empty");
    check(std::ssize(prompt.tokens) < served.context, "a token fits after each prompt");
    for (const int32_t token : prompt.tokens)
      check(token >= 0 && token < served.tokenizer.vocab_size(), "tokens are in the vocabulary");
  }
  check(r.options.max_tokens >= (r.echo ? 0 : 1), "max_tokens is in range");
  check(r.options.max_tokens < served.context, "max_tokens is less than the context");
  check(!r.top_logprobs || *r.top_logprobs <= 20, "the alternatives are limited");
  check(r.tools == nullptr || r.options.form != nullptr, "tool calls have a form");
  static_cast<void>(infer::Sampler(r.options.sampler, {}, 0));  // throws if a value is out of range
}

}  // namespace

bool take(std::string_view input) {
  static const auto tokenizer = [] {  // has the ASCII characters, which JSON needs
    std::string ascii = "\n";
    for (char c = ' '; c <= '~'; ++c) ascii += c;
    return data::CharTokenizer::from_text(ascii, "f.txt");
  }();
  static const std::optional<data::ChatTemplate> chat = data::chat_template_named("zephyr");
  // Created anew for each input, because a ServedModel caches compiled schemas.
  const server::ServedModel served{.name = "f",
                                   .context = 2048,
                                   .tokenizer = tokenizer,
                                   .chat_template = chat,
                                   .forms = std::make_shared<server::AnswerForms>(tokenizer, chat)};
  server::Json body;
  if (!accepted([&] { body = core::parse_json(input, "the body"); }, "the body")) return false;
  bool any = false;
  const auto note = [&](const auto& parse) { any = answered(input, parse) || any; };
  for (const auto parse : {server::parse_completion, server::parse_chat, server::parse_response}) {
    note([&](const auto& budget) { check_request(parse(body, served, 1, input, {.budget = budget}), served); });
  }
  note([&](const auto& budget) { static_cast<void>(server::parse_tokenize(body, served, budget)); });
  note([&](const auto&) { static_cast<void>(server::parse_detokenize(body, served)); });
  return any;
}

}  // namespace folio::fuzz
