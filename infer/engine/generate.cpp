#include "infer/engine/generate.h"

#include "infer/engine/scoped_requests.h"

namespace folio::infer {
namespace {

Request request_of(const data::Tokenizer& tokenizer, std::span<const int32_t> prompt, const GenerateOptions& options) {
  return {.prompt = {prompt.begin(), prompt.end()},
          .max_tokens = options.max_tokens,
          .sampler = options.sampler,
          .tokenizer = &tokenizer,
          .stops = options.stops,
          .end_tokens = options.end_tokens,
          .speculate = options.speculate,
          .context = options.context,
          .slide = options.slide};
}

}  // namespace

void run(Engine& engine, std::span<const RequestId> ids, const std::function<bool()>& interrupted) {
  do {
    if (interrupted && interrupted()) {
      for (const RequestId id : ids) engine.cancel(id);
    }
  } while (engine.step());
}

std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                           std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options, const OnText& on_text) {
  ScopedRequests requests(engine);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request = request_of(tokenizer, prompts[i], options);
    if (on_text) request.on_text = [&on_text, i](std::string_view text) { on_text(i, text); };
    requests.add(std::move(request));
  }
  run(engine, requests.ids(), options.interrupted);
  std::vector<GenerateResult> results;
  for (const RequestId id : requests.ids()) results.push_back(engine.take(id));
  return results;
}

GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text) {
  Request request = request_of(tokenizer, prompt, options);
  request.on_text = on_text;
  ScopedRequests requests(engine);
  const RequestId id = requests.add(std::move(request));
  run(engine, requests.ids(), options.interrupted);
  return engine.take(id);
}

}  // namespace folio::infer
