#include "infer/engine/request.h"

#include <array>

#include "core/error.h"
#include "core/random.h"

namespace folio::infer {

using core::require;

uint64_t choice_seed(uint64_t seed, size_t choice) { return choice == 0 ? seed : core::random_bits(seed, choice); }

std::string_view finish_reason_name(FinishReason reason) {
  constexpr std::array<std::string_view, 4> kNames = {"stop", "length", "interrupted", "form"};
  return kNames[static_cast<size_t>(reason)];
}

Request checked(Request request, const core::ModelConfig& config) {
  const int64_t most = config.context_length;
  GenerateOptions& options = request.options;
  if (options.context == 0) options.context = most;
  const int64_t context = options.context;
  require(context >= 2 && context <= most, "the context is {}, but must be in [2, {}], the model's context length",
          context, most);
  const int64_t n_prompt = std::ssize(request.prompt);
  require(n_prompt > 0, "the prompt is empty");
  require(n_prompt <= context, "the prompt has {} tokens, more than the context of {}; shorten it", n_prompt, context);
  const auto is_valid = [&](int32_t token) { return token >= 0 && token < config.vocab_size; };
  for (const int32_t token : request.prompt) {
    require(is_valid(token), "token {} is outside the vocabulary of {}", token, config.vocab_size);
  }
  if (const data::Tokenizer* tokenizer = request.tokenizer) {
    require(tokenizer->vocab_size() == config.vocab_size,
            "the tokenizer has {} tokens, but the model's vocabulary has {}", tokenizer->vocab_size(),
            config.vocab_size);
    for (const int32_t token : tokenizer->suppressed_tokens()) {
      require(is_valid(token), "the tokenizer suppresses token {}, which is outside the vocabulary of {}", token,
              config.vocab_size);
    }
  }
  for (const SamplerOptions::Bias& b : options.sampler.logit_bias) {
    require(is_valid(b.token), "logit_bias has token {}, which is outside the vocabulary of {}", b.token,
            config.vocab_size);
  }
  for (const auto* words : {&options.stop_words, &options.sampler.bad_words}) {
    const std::string_view kind = words == &options.stop_words ? "stop" : "bad";
    for (const std::vector<int32_t>& word : *words) {
      require(!word.empty(), "a {} word is empty", kind);
      for (const int32_t token : word) {
        require(is_valid(token), "token {} of a {} word is outside the vocabulary of {}", token, kind,
                config.vocab_size);
      }
    }
  }
  static_cast<void>(Sampler(options.sampler, {}));  // throws if a sampler option is out of range
  require(request.tokenizer != nullptr || options.stops.empty(), "stop strings need a tokenizer");
  require(request.tokenizer != nullptr || !options.form, "a form needs a tokenizer");
  require(options.n >= 1, "n is {}, but must be at least 1", options.n);
  const int64_t width = options.beams.width;
  require(!request.observer || (options.n == 1 && width == 0),
          "an observer supports only one sequence: n must be 1, without beams");
  const bool reports = request.on_logits || request.on_log_probs || request.observer;
  require(!reports || !options.slide || n_prompt < context || options.max_tokens <= 0,
          "the prompt fills the sliding context of {}, so its first half cannot be reported; use a larger context",
          context);
  if (width == 0 && !request.policy) return request;
  require(!request.backlog, "beam search and policies do not support a backlog: they emit nothing before the end");
  require(!options.slide,
          "beam search and policies do not support a sliding context: their sequences end with the context");
  require(!request.wants_token_logits, "beam search and policies do not return token logits");
  if (width == 0) return request;
  require(!request.policy, "a policy cannot be combined with beam search");
  static_cast<void>(Beams(options.beams, 1));  // throws if a beam option is out of range
  require(width <= config.vocab_size, "{} beams exceed the vocabulary of {} tokens", width, config.vocab_size);
  require(options.n <= width, "n is {}, but must be at most the number of beams, {}", options.n, width);
  return request;
}

}  // namespace folio::infer
