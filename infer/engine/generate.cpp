#include "infer/engine/generate.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "core/error.h"
#include "infer/cache/scoped_sequence.h"
#include "infer/sampling/stop_filter.h"

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

// One prompt on its way: what it has said so far, and the rows that it needs next. Its sequence may hold the prompt's
// first tokens by now.
class Generation {
 public:
  Generation(KvCache& cache, SequenceId sequence, const data::Tokenizer& tokenizer, const GenerateOptions& options,
             int64_t context, std::span<const int32_t> prompt)
      : cache_(cache),
        tokenizer_(tokenizer),
        options_(options),
        context_(context),
        sampler_(options.sampler, tokenizer.suppressed_tokens()),
        filter_(options.stops),
        history_(prompt.begin(), prompt.end()),
        n_prompt_(prompt.size()),
        sequence_(sequence) {
    core::require(!prompt.empty(), "the prompt is empty");
    core::require(static_cast<int64_t>(prompt.size()) <= context,
                  "the prompt has {} tokens, more than the context of {}; shorten it", prompt.size(), context);
  }

  [[nodiscard]] bool done() const { return done_; }

  /// Appends the tokens that the cache does not hold yet; logits are wanted after the last.
  void append_rows(std::vector<Row>& rows) {
    const int64_t held = cache_.length(sequence_);
    const auto fresh = std::span(history_).last(history_.size() - forgotten_ - static_cast<size_t>(held));
    for (size_t i = 0; i < fresh.size(); ++i) {
      rows.push_back({.token = fresh[i],
                      .sequence = sequence_,
                      .position = held + static_cast<int64_t>(i),
                      .wants_logits = i + 1 == fresh.size()});
    }
  }

  /// Draws the next token; returns the text that can be shown by now.
  [[nodiscard]] std::string advance(std::span<float> logits) {
    const int32_t token = sampler_.sample(logits, history_, static_cast<int64_t>(history_.size()));
    if (ends(token)) return finish(FinishReason::Stop);
    history_.push_back(token);
    std::string text = filter_.push(tokenizer_.token_bytes(token));
    return text + (filter_.stopped() ? finish(FinishReason::Stop) : check_room());
  }

  /// Ends for want of tokens or positions, or makes room by sliding; returns text that was held back.
  [[nodiscard]] std::string check_room() {
    if (static_cast<int64_t>(history_.size() - n_prompt_) >= options_.max_tokens) return finish(FinishReason::Length);
    if (static_cast<int64_t>(history_.size() - forgotten_) < context_) return {};
    if (!options_.slide) return finish(FinishReason::Length);
    cache_.truncate(sequence_, 0);
    forgotten_ = history_.size() - static_cast<size_t>(context_ / 2);
    return {};
  }

  [[nodiscard]] std::string finish(FinishReason reason) {
    done_ = true;
    reason_ = reason;
    return filter_.finish();
  }

  [[nodiscard]] std::vector<int32_t> tokens() const {
    return {history_.begin() + static_cast<std::ptrdiff_t>(n_prompt_), history_.end()};
  }
  [[nodiscard]] FinishReason finish_reason() const { return reason_; }

 private:
  [[nodiscard]] bool ends(int32_t token) const {
    const std::vector<int32_t>& more = options_.end_tokens;
    return tokenizer_.ends_text(token) || std::find(more.begin(), more.end(), token) != more.end();
  }

  KvCache& cache_;
  const data::Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  int64_t context_;
  Sampler sampler_;
  StopFilter filter_;
  std::vector<int32_t> history_;  ///< the prompt and all that was generated
  size_t n_prompt_;
  size_t forgotten_ = 0;  ///< tokens at its beginning that slid out of the context
  SequenceId sequence_;
  bool done_ = false;
  FinishReason reason_ = FinishReason::Length;
};

// Slice by slice, so that an interrupt in a long prompt is heard. Returns false if there was one before the end.
bool forward(Engine& engine, std::span<const Row> rows, std::span<float> logits,
             const std::function<bool()>& interrupted) {
  const auto vocab_size = static_cast<size_t>(engine.model().config().vocab_size);
  for (size_t begin = 0; begin < rows.size(); begin += Engine::kMaxRows) {
    if (begin > 0 && interrupted && interrupted()) return false;
    const auto slice = rows.subspan(begin, std::min(Engine::kMaxRows, rows.size() - begin));
    const auto wanted = std::count_if(slice.begin(), slice.end(), [](const Row& row) { return row.wants_logits; });
    const size_t n_logits = static_cast<size_t>(wanted) * vocab_size;
    engine.forward(slice, logits.first(n_logits));
    logits = logits.subspan(n_logits);
  }
  return true;
}

// All of them to their ends, each step one forward of those that go on.
std::vector<GenerateResult> run(Engine& engine, std::deque<Generation>& generations, const GenerateOptions& options,
                                const OnText& on_text) {
  std::vector<GenerateResult> results(generations.size());
  const auto show = [&](size_t index, const std::string& text) {
    results[index].text += text;
    if (on_text && !text.empty()) on_text(index, text);
  };

  std::vector<Row> rows;
  std::vector<float> logits;
  double prefill_seconds = 0.0;
  double decode_seconds = 0.0;
  bool interrupted = false;
  for (bool prefill = true;; prefill = false) {
    const Stopwatch stopwatch;
    interrupted = interrupted || (options.interrupted && options.interrupted());
    rows.clear();
    std::vector<size_t> live;
    for (size_t i = 0; i < generations.size(); ++i) {
      Generation& g = generations[i];
      if (prefill) show(i, g.check_room());
      if (interrupted && !g.done()) show(i, g.finish(FinishReason::Interrupted));
      if (g.done()) continue;
      live.push_back(i);
      g.append_rows(rows);
    }
    if (live.empty()) break;
    const auto vocab_size = static_cast<size_t>(engine.model().config().vocab_size);
    logits.resize(live.size() * vocab_size);
    interrupted = !forward(engine, rows, logits, options.interrupted);
    for (size_t n = 0; n < live.size() && !interrupted; ++n) {
      show(live[n], generations[live[n]].advance(std::span(logits).subspan(n * vocab_size, vocab_size)));
    }
    (prefill ? prefill_seconds : decode_seconds) += stopwatch.seconds();
  }
  for (size_t i = 0; i < generations.size(); ++i) {
    results[i].tokens = generations[i].tokens();
    results[i].finish_reason = generations[i].finish_reason();
    results[i].prefill_seconds = prefill_seconds;
    results[i].decode_seconds = decode_seconds;
  }
  return results;
}

int64_t context_of(const Engine& engine, const GenerateOptions& options) {
  const int64_t most = engine.model().config().context_length;
  const int64_t context = options.context == 0 ? most : options.context;
  core::require(context >= 2 && context <= most, "a context of {} is not in [2, {}], the model's", context, most);
  return context;
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

std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                           std::span<const std::vector<int32_t>> prompts,
                                           const GenerateOptions& options, const OnText& on_text) {
  const int64_t context = context_of(engine, options);
  std::deque<ScopedSequence> sequences;
  std::deque<Generation> generations;
  for (const std::vector<int32_t>& prompt : prompts) {
    sequences.emplace_back(engine.cache());
    generations.emplace_back(engine.cache(), sequences.back().id(), tokenizer, options, context, prompt);
  }
  return run(engine, generations, options, on_text);
}

GenerateResult generate_on(Engine& engine, const data::Tokenizer& tokenizer, SequenceId sequence,
                           std::span<const int32_t> prompt, const GenerateOptions& options,
                           const std::function<void(std::string_view)>& on_text) {
  core::require(engine.cache().length(sequence) < static_cast<int64_t>(prompt.size()),
                "the cache has {} positions of a prompt of {}; nothing is left to compute",
                engine.cache().length(sequence), prompt.size());
  std::deque<Generation> generations;
  generations.emplace_back(engine.cache(), sequence, tokenizer, options, context_of(engine, options), prompt);
  const OnText forward_text = [&](size_t, std::string_view text) { on_text(text); };
  return run(engine, generations, options, on_text ? forward_text : OnText{}).front();
}

GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text) {
  core::require(!prompt.empty(), "the prompt is empty");
  const ScopedSequence sequence(engine.cache());
  return generate_on(engine, tokenizer, sequence.id(), prompt, options, on_text);
}

}  // namespace folio::infer
