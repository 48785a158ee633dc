#include "infer/generate.h"

#include <chrono>

#include "core/error.h"
#include "infer/stop_filter.h"

namespace folio::infer {
namespace {

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A sequence of the cache that is given back on every way out.
class OwnedSequence {
 public:
  explicit OwnedSequence(KvCache& cache) : cache_(cache), id_(cache.add_sequence()) {}
  ~OwnedSequence() { cache_.release(id_); }
  OwnedSequence(const OwnedSequence&) = delete;
  OwnedSequence& operator=(const OwnedSequence&) = delete;

  [[nodiscard]] SequenceId id() const { return id_; }
  [[nodiscard]] int64_t length() const { return cache_.length(id_); }
  void clear() { cache_.truncate(id_, 0); }

 private:
  KvCache& cache_;
  SequenceId id_;
};

// Runs `tokens` at the sequence's end; `logits` are those after the last.
void extend(Engine& engine, const OwnedSequence& sequence, std::span<const int32_t> tokens, std::span<float> logits) {
  std::vector<Row> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back({.token = tokens[i],
                    .sequence = sequence.id(),
                    .position = sequence.length() + static_cast<int64_t>(i),
                    .wants_logits = i + 1 == tokens.size()});
  }
  engine.forward(rows, logits);
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop:
      return "stop";
    case FinishReason::Interrupted:
      return "interrupted";
    default:
      return "length";
  }
}

GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text) {
  const core::ModelConfig& config = engine.model().config();
  const int64_t context = options.context == 0 ? config.context_length : options.context;
  core::require(context >= 2 && context <= config.context_length, "a context of {} is not in [2, {}], the model's",
                context, config.context_length);
  core::require(!prompt.empty(), "the prompt is empty");
  core::require(static_cast<int64_t>(prompt.size()) <= context,
                "the prompt has {} tokens, more than the context of {}; shorten it", prompt.size(), context);

  Sampler sampler(options.sampler, tokenizer.never_sampled());
  StopFilter filter(options.stops);
  OwnedSequence sequence(engine.cache());
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  std::vector<float> logits(static_cast<size_t>(config.vocab_size));
  GenerateResult result;
  const auto show = [&](const std::string& text) {
    result.text += text;
    if (on_text && !text.empty()) on_text(text);
  };

  const Stopwatch prefill;
  extend(engine, sequence, history, logits);
  result.prefill_seconds = prefill.seconds();

  const Stopwatch decode;
  while (static_cast<int64_t>(result.tokens.size()) < options.max_tokens) {
    if (options.interrupted && options.interrupted()) {
      result.finish_reason = FinishReason::Interrupted;
      break;
    }
    if (sequence.length() == context) {
      if (!options.slide) break;
      sequence.clear();
      extend(engine, sequence, std::span(history).last(static_cast<size_t>(context / 2)), logits);
    }
    const int32_t token = sampler.sample(logits, history, static_cast<int64_t>(history.size()));
    if (token == tokenizer.end_of_text()) {
      result.finish_reason = FinishReason::Stop;
      break;
    }
    result.tokens.push_back(token);
    history.push_back(token);
    show(filter.push(tokenizer.token_bytes(token)));
    if (filter.stopped()) {
      result.finish_reason = FinishReason::Stop;
      break;
    }
    if (static_cast<int64_t>(result.tokens.size()) < options.max_tokens) {
      extend(engine, sequence, std::span(history).last(1), logits);
    }
  }
  show(filter.finish());
  result.decode_seconds = decode.seconds();
  return result;
}

}  // namespace folio::infer
