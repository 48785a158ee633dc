#include "infer/engine/generate.h"

#include <utility>

namespace folio::infer {

void run(Engine& engine, std::span<const RequestId> ids, const Interrupted& interrupted) {
  do {
    if (interrupted && interrupted()) {
      for (const RequestId id : ids) engine.cancel(id);
    }
  } while (engine.step());
}

std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                           std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options, const OnText& on_text,
                                           const Interrupted& interrupted) {
  ScopedRequests requests(engine);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request{.prompt = prompts[i], .options = options, .tokenizer = &tokenizer};
    if (on_text) request.on_text = [&on_text, i](size_t, std::string_view text) { on_text(i, text); };
    requests.add(std::move(request));
  }
  run(engine, requests.ids(), interrupted);
  std::vector<GenerateResult> results;
  for (const RequestId id : requests.ids()) {
    for (GenerateResult& result : engine.take_all(id)) results.push_back(std::move(result));
  }
  return results;
}

GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
                        const Interrupted& interrupted) {
  OnText on_piece;
  if (on_text) on_piece = [&](size_t, std::string_view text) { on_text(text); };
  const std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  return generate_batch(engine, tokenizer, std::span(&tokens, 1), options, on_piece, interrupted).front();
}

}  // namespace folio::infer
