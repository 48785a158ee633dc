#include "infer/engine/active_request.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace folio::infer {
namespace {

using core::require;

Request checked(Request request, const core::ModelConfig& config) {
  const int64_t most = config.context_length;
  GenerateOptions& options = request.options;
  if (options.context == 0) options.context = most;
  const int64_t context = options.context;
  require(context >= 2 && context <= most, "a context of {} is not in [2, {}], the model's", context, most);
  const int64_t n_prompt = std::ssize(request.prompt);
  require(n_prompt > 0, "the prompt is empty");
  require(n_prompt <= context, "the prompt has {} tokens, more than the context of {}; shorten it", n_prompt, context);
  for (const int32_t token : request.prompt) {
    require(token >= 0 && token < config.vocab_size, "token {} is outside the vocabulary of {}", token,
            config.vocab_size);
  }
  if (const data::Tokenizer* tokenizer = request.tokenizer) {
    require(tokenizer->vocab_size() == config.vocab_size, "the tokenizer has {} tokens, the model {}",
            tokenizer->vocab_size(), config.vocab_size);
    for (const int32_t token : tokenizer->suppressed_tokens()) {
      require(token >= 0 && token < config.vocab_size, "the tokenizer suppresses token {}, but has {}", token,
              config.vocab_size);
    }
  }
  for (const SamplerOptions::Bias& b : options.sampler.logit_bias) {
    require(b.token >= 0 && b.token < config.vocab_size, "there is a logit bias of token {}, but the vocabulary has {}",
            b.token, config.vocab_size);
  }
  for (const auto* words : {&options.stop_words, &options.sampler.bad_words}) {
    const std::string_view kind = words == &options.stop_words ? "stop" : "bad";
    for (const std::vector<int32_t>& word : *words) {
      require(!word.empty(), "a {} word has no token", kind);
      for (const int32_t token : word) {
        require(token >= 0 && token < config.vocab_size, "token {} of a {} word is outside the vocabulary of {}", token,
                kind, config.vocab_size);
      }
    }
  }
  require(request.tokenizer != nullptr || options.stops.empty(), "stop strings need a tokenizer");
  require(request.tokenizer != nullptr || !options.form, "a form needs a tokenizer");
  require(options.n >= 1, "{} texts are none", options.n);
  const int64_t width = options.beams.width;
  require(!request.observer || (options.n == 1 && width == 0), "an observer sees one text, neither several nor beams");
  if (width == 0) return request;
  static_cast<void>(BeamSearch(options.beams, 1));  // checks their ranges
  require(width <= config.vocab_size, "{} beams are more than the vocabulary's {} tokens", width, config.vocab_size);
  require(options.n <= width, "{} texts are wanted of {} beams", options.n, width);
  require(!request.backlog, "beams have no backlog: they give nothing before their end");
  require(!options.slide, "beams don't slide: they end with the context");
  require(!request.wants_token_logits, "of beams the logits of the tokens are not known");
  return request;
}

FinishReason reason_of(BeamSearch::Ending ending) {
  return ending == BeamSearch::Ending::Length ? FinishReason::Length : FinishReason::Stop;
}

}  // namespace

uint64_t choice_seed(uint64_t seed, size_t choice) { return choice == 0 ? seed : core::random_bits(seed, choice); }

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop:
      return "stop";
    case FinishReason::Interrupted:
      return "interrupted";
    case FinishReason::Form:
      return "form";
    default:
      return "length";
  }
}

ActiveRequest::ActiveRequest(RequestId id, Request request, const core::ModelConfig& config, BlockManager& cache)
    : request_(checked(std::move(request), config)) {
  const GenerateOptions& options = request_.options;
  const int64_t most = std::min(options.max_tokens, options.context - std::ssize(request_.prompt));
  std::optional<FormMask> form;
  if (options.form) form.emplace(options.form, *request_.tokenizer, options.end_tokens, request_.prompt.size());
  const bool goes_on = most > 0 && (!form || form->way_on(request_.prompt) == WayOn::Tokens);
  if (options.beams.width > 0 && goes_on) {
    search_.emplace(options.beams, static_cast<size_t>(most));
    beams_ = {0};
  }
  const size_t n = search_ ? search_->width() : static_cast<size_t>(options.n);
  for (size_t i = 0; i < n; ++i) branches_.emplace_back(id, i, request_, config, cache, form);
}

void ActiveRequest::start(Scheduler<Branch>& scheduler) {
  for (Branch& branch : branches_) {
    if (!branch.done()) scheduler.add(branch);
    if (search_) break;  // the others come by forks
  }
}

bool ActiveRequest::done() const {
  if (search_) return !results_.empty();
  return std::ranges::all_of(branches_, &Branch::done);
}

// The first of a beam's candidates that go on takes the beam's own branch, the others those of beams that are dropped.
void ActiveRequest::follow_beams(Scheduler<Branch>& scheduler) {
  if (!search_ || done()) return;
  std::vector<BeamSearch::Candidate> candidates;
  std::vector<std::span<const int32_t>> texts(branches_.size());
  for (const size_t beam : beams_) {
    const Branch& branch = branches_[beam];
    if (!branch.has_candidates()) return;
    candidates.insert(candidates.end(), branch.candidates().begin(), branch.candidates().end());
    texts[beam] = branch.generated();
  }
  const std::vector<BeamSearch::Candidate> next = search_->step(std::move(candidates), texts);
  if (search_->done()) return keep_best(search_->finished());

  std::vector<bool> taken(branches_.size(), false);  // by a candidate of its own beam
  for (const BeamSearch::Candidate& c : next) taken[c.beam] = true;
  std::vector<size_t> idle;
  for (size_t b = branches_.size(); b-- > 0;) {
    if (!taken[b]) idle.push_back(b);
  }
  std::vector<bool> has_own(branches_.size(), false);
  std::vector<size_t> places;
  for (const BeamSearch::Candidate& c : next) {
    if (!has_own[c.beam]) {
      has_own[c.beam] = true;
      places.push_back(c.beam);
      continue;
    }
    Branch& fork = branches_[idle.back()];
    idle.pop_back();
    scheduler.fork(fork, branches_[c.beam]);
    fork.become(branches_[c.beam]);
    places.push_back(fork.index());
  }
  for (const size_t b : idle) scheduler.remove(branches_[b]);
  for (size_t i = 0; i < next.size(); ++i) branches_[places[i]].follow(next[i]);
  beams_ = places;
}

void ActiveRequest::keep_best(std::span<const BeamSearch::Finished> finished) {
  branches_.front().stop_clock();
  for (const BeamSearch::Finished& f :
       finished.first(std::min(finished.size(), static_cast<size_t>(request_.options.n)))) {
    results_.push_back(result_of(f.tokens, reason_of(f.ending), f.score));
  }
  // A form may have fewer texts than are wanted.
  if (request_.options.form) {
    results_.resize(static_cast<size_t>(request_.options.n), {.finish_reason = FinishReason::Form});
  }
  show_results();
}

// A search that is broken off gives the best that it has so far, whether it has ended or not.
void ActiveRequest::finish(FinishReason reason) {
  if (!search_) {
    for (Branch& branch : branches_) {
      if (!branch.done()) branch.finish(reason);
    }
  } else if (!done()) {
    branches_.front().stop_clock();
    for (const BeamSearch::Finished& f : search_->finished()) {
      results_.push_back(result_of(f.tokens, reason_of(f.ending), f.score));
    }
    for (const size_t beam : beams_) {
      const Branch& b = branches_[beam];
      const size_t n = std::max<size_t>(b.generated().size(), 1);
      results_.push_back(result_of(b.generated(), reason, search_->score(b.log_prob(), n)));
    }
    std::ranges::stable_sort(results_, std::ranges::greater{}, &GenerateResult::score);
    results_.resize(static_cast<size_t>(request_.options.n), {.finish_reason = reason});
    show_results();
  }
}

GenerateResult ActiveRequest::result_of(std::span<const int32_t> tokens, FinishReason reason, double score) const {
  GenerateResult result = branches_.front().result();  // its times, and what was cached
  result.tokens = {tokens.begin(), tokens.end()};
  result.text.clear();
  result.finish_reason = reason;
  result.score = score;
  if (request_.tokenizer == nullptr) return result;
  StopFilter filter(request_.options.stops);
  for (const int32_t token : tokens) result.text += filter.push(request_.tokenizer->token_bytes(token));
  result.text += filter.finish();
  return result;
}

void ActiveRequest::show_results() const {
  for (size_t i = 0; i < results_.size(); ++i) {
    const GenerateResult& result = results_[i];
    for (const int32_t token : result.tokens) {
      if (request_.on_token) request_.on_token(i, token, {});
    }
    if (request_.on_text && !result.text.empty()) request_.on_text(i, result.text);
    if (request_.on_end) request_.on_end(i, result);
  }
}

std::vector<GenerateResult> ActiveRequest::results() const {
  if (search_) return results_;
  std::vector<GenerateResult> results;
  for (const Branch& branch : branches_) results.push_back(branch.result());
  return results;
}

}  // namespace folio::infer
