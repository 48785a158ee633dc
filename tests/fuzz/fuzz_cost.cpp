// What a request costs the server before it runs, whatever its body says: steps of its budget, and the bytes that are
// allocated for them. Both are counted, and nothing is timed.
#include "core/error.h"
#include "core/json.h"
#include "data/tokenizers/char_tokenizer.h"
#include "infer/server/api.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

namespace server = infer::server;

constexpr uint64_t kSteps = 300'000;                // of a request here
constexpr size_t kBytesAnyway = size_t{16} << 20U;  // such as for how the model writes calls of tools
constexpr size_t kBytesPerStep = 1024;

using Parse = server::CompletionRequest (*)(const server::Json&, const server::ServedModel&, uint64_t, std::string_view,
                                            const server::ParseOptions&);

// Nothing is kept from one input to the next: a form that is known costs nothing.
bool costs_its_steps(Parse parse, const server::Json& body, std::string_view input) {
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
    static_cast<void>(parse(body, served, 1, input, {.budget = budget}));
  } catch (const server::ApiError& error) {
    answered = false;
    law(error.status() == 400 || error.status() == 404, "what is wrong with a request is the client's");
  }
  law(budget.spent() <= kSteps, "a request takes no more steps than its budget has");
  law(allocated_bytes() - before <= kBytesAnyway + kBytesPerStep * (budget.spent() + input.size()),
      "what is allocated for a request is in proportion to its steps");
  return answered;
}

}  // namespace

bool take(std::string_view input) {
  server::Json body;
  if (!accepted([&] { body = core::parse_json(input, "the body"); }, "the body")) return false;
  const bool completes = costs_its_steps(server::parse_completion, body, input);
  return costs_its_steps(server::parse_chat, body, input) || completes;
}

}  // namespace folio::fuzz
