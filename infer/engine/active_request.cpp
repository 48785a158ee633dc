#include "infer/engine/active_request.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/error.h"

namespace folio::infer {

ActiveRequest::ActiveRequest(RequestId id, Request request, const core::ModelConfig& config, BlockManager& cache,
                             Acceptance* acceptance)
    : request_(checked(std::move(request), config)), vocab_size_(static_cast<size_t>(config.vocab_size)) {
  const GenerateOptions& options = request_.options;
  const std::span<const int32_t> prompt = request_.prompt;
  const std::ptrdiff_t n_prompt = std::ssize(prompt);
  const int64_t most = options.slide ? options.max_tokens : std::min(options.max_tokens, options.context - n_prompt);
  bool generates = most > 0;
  if (request_.on_logits || request_.on_log_probs) {
    report_.emplace(prompt, vocab_size_, request_.on_logits, request_.on_log_probs);
  }
  std::optional<FormMask> form;
  if (options.form) form.emplace(options.form, *request_.tokenizer, options.end_tokens, prompt.size());
  if (form && options.max_tokens > 0) {
    const Allowed allowed = form->allowed_after(prompt);
    generates = generates && allowed == Allowed::Tokens;
    if (allowed != Allowed::Tokens) empty_reason_ = allowed == Allowed::End ? FinishReason::Stop : FinishReason::Form;
  }
  n_most_ = prompt.size() + (generates ? static_cast<size_t>(most) : 0);
  auto n = static_cast<size_t>(options.n);
  if (generates) {
    if (options.beams.width > 0) {
      policy_ = std::make_unique<Beams>(options.beams, static_cast<size_t>(most));
      n = static_cast<size_t>(options.beams.width);
    } else if (request_.policy) {
      policy_ = request_.policy();
    }
  }
  Sequence::Needs needs{.max_positions = n_prompt - 1 + std::min(options.max_tokens, options.context - n_prompt + 1),
                        .n_together = policy_ ? n : 1,
                        .adapter = options.adapter,
                        .alone = static_cast<bool>(request_.observer)};
  const auto never = request_.tokenizer ? request_.tokenizer->suppressed_tokens() : std::vector<int32_t>{};
  const size_t n_reported = request_.observer ? prompt.size() : report_ ? report_->n_rows() : 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t n_rows = generates ? prompt.size() : i == 0 ? n_reported : 0;
    if (!generates) needs.max_positions = static_cast<int64_t>(n_rows);
    Choice& c = choices_.emplace_back(SequenceKey{id, i}, prompt.first(n_rows), needs, cache);
    if (i == 0 && n_reported > 0) c.compute_from(0);
    if (!generates) {
      if (n_reported == 0) {
        end(c, empty_reason_);
      } else if (i > 0) {
        c.reason = empty_reason_;  // computes nothing; on_end is called after the first choice has reported the prompt
      }
      continue;
    }
    SamplerOptions sampler = options.sampler;
    sampler.seed = choice_seed(sampler.seed, i);
    c.sampling.emplace(Sampler(sampler, never, prompt.size(), form), options, request_.tokenizer, n_most_);
    if ((form || options.speculate > 0) && !wants_logits()) c.drafts.emplace(options.speculate, acceptance);
    if (policy_) c.score = 0.0;
    if (policy_ && (i == 0 || options.beams.width == 0)) continuing_.push_back(&c);
    slide(c);
  }
}

void ActiveRequest::start(Scheduler& scheduler) {
  for (Choice& c : choices_) {
    if (policy_ && c.index() >= continuing_.size()) break;  // the policy forks further sequences later
    if (!c.reason) scheduler.add(c);
  }
}

void ActiveRequest::started(const Sequence& s) {
  Choice& c = choices_[s.index()];
  if (c.start) return;
  c.start = Choice::Clock::now();
  c.n_prompt_cached = static_cast<size_t>(s.n_cached());
}

void ActiveRequest::was_preempted(Sequence& s) {
  Choice& c = choices_[s.index()];
  c.collected(c.in_flight());
  c.set_optional(0);
  if (c.drafts) c.drafts->preempted();
  c.logits.clear();  // the row that produced them will be recomputed
}

// Returns the maximum number of drafts: each needs a position, and so does the token drawn after the last one.
size_t ActiveRequest::most_drafts(const Choice& c) const {
  return std::min(n_most_ - c.history().size() - 1, n_left(c) - 1);
}

// Returns nullopt unless exactly one token must still be computed: only a step that draws a token can verify drafts.
std::optional<Goodput::Candidate> ActiveRequest::candidate(const Sequence& s, size_t most) {
  Choice& c = choices_[s.index()];
  if (!c.drafts || c.in_flight() > 0) return {};  // a step in flight may still verify drafts
  c.drafts->clear();
  if (c.n_missing() != 1) return {};
  return c.drafts->candidate(std::min(most, most_drafts(c)));
}

std::optional<Drafter::Input> ActiveRequest::begin_drafts(const Sequence& s, size_t most, size_t n_wanted) {
  Choice& c = choices_[s.index()];
  return c.drafts->begin(c.history(), c.first(), std::min(most, most_drafts(c)), n_wanted, c.sampling->sampler());
}

std::optional<Drafter::Computed> ActiveRequest::computed(const Sequence& s, size_t first, std::span<const float> hidden,
                                                         size_t dim) {
  Choice& c = choices_[s.index()];
  const size_t end = c.n_computed();
  const bool has_slid = end == c.first();  // the rows' positions were removed, and are computed again
  if (!needs_hidden(s) || c.reason || has_slid || end >= c.history().size()) return {};
  return Drafter::Computed{.tokens = c.history(),
                           .begin = c.first(),
                           .first = first,
                           .hidden = hidden.first((end - first) * dim),
                           .memory = c.drafts->memory()};
}

size_t ActiveRequest::append_rows(const Sequence& s, std::vector<Row>& rows, size_t most, size_t& most_reported) {
  Choice& c = choices_[s.index()];
  if (c.drafts) static_cast<void>(c.drafts->issue(0, nullptr));
  const size_t end = c.history().size();
  const size_t first = end - c.n_missing();
  if (first < n_observed_) most = std::min(most, n_observed_ - first);  // no step has observed and unobserved rows
  size_t n = 0;
  for (; n < std::min(most, end - first); ++n) {
    const size_t i = first + n;
    const bool is_reported = report_ && c.index() == 0 && report_->n_wanted(i, i + 1) > 0;
    if (is_reported && most_reported == 0) break;
    if (is_reported) --most_reported;
    rows.push_back(c.row(i, c.history()[i]));
    rows.back().wants_logits = is_reported;
  }
  if (!c.sampling || n == 0 || first + n < end) return n;
  rows.back().wants_logits = rows.back().wants_logits || wants_logits();
  if (request_.options.beams.width > 0) return n;
  Sampler* const sampler = &c.sampling->sampler();
  rows.back().sampler = sampler;
  rows.back().history = c.history();
  if (!c.drafts) return n;
  // Each draft's row draws a token, too, which is used only if the draft equals the token drawn by the row before it.
  const auto tokens = c.drafts->issue(most - n, sampler->form());
  for (size_t i = end; i < tokens.size(); ++i) {
    rows.push_back(c.row(i, tokens[i]));
    rows.back().sampler = sampler;
    rows.back().history = tokens.first(i + 1);
  }
  return n + c.drafts->n_issued();
}

Row ActiveRequest::row_ahead(const Sequence& s, size_t draw) {
  Row row = s.row(s.history().size(), drawn_token(draw));
  row.sampler = &choices_[s.index()].sampling->sampler();
  row.history = s.history();
  if (auto& drafts = choices_[s.index()].drafts) drafts->ran_ahead();
  return row;
}

bool ActiveRequest::needs_next_token(const Sequence& s) const {
  if (s.n_missing() > 0 || policy_ || request_.observer) return true;
  const auto& drafts = choices_[s.index()].drafts;
  const bool may_draft = drafts && (request_.options.form || !drafts->can_wait());
  return !ends_next(s) && (may_draft || request_.options.sampler.needs_history() || n_left(s) <= 1);
}

size_t ActiveRequest::take(const Sequence& s, size_t n_rows, const StepOutput& output) {
  Choice& c = choices_[s.index()];
  const size_t n_drafts = c.drafts ? c.drafts->n_issued() : 0;
  const size_t first = c.n_computed();
  const size_t end = first + n_rows - n_drafts;
  const size_t n_before = c.generated().size();
  const size_t n_reported = report_ && c.index() == 0 ? report_->n_wanted(first, end) : 0;
  if (n_reported > 0) {
    report_->report(output.logits.first(n_reported * vocab_size_), first);
    c.compute_from(report_->n_reported() < report_->n_rows() ? report_->n_reported() : SIZE_MAX);
  }
  c.collected(end - first - 1);  // all but the last row, which is recomputed if its token is invalid
  if (!c.sampling || end < c.history().size()) {
    c.collected(1);
    if (!c.sampling && c.n_missing() == 0 && c.in_flight() == 0) {
      for (Choice& each : choices_) this->end(each, empty_reason_);
    }
    return 0;
  }
  if (policy_) {
    take_candidates(c, output);
    return 1;
  }
  take_drawn(c, output.tokens.front(), output.logits.last(wants_logits() ? vocab_size_ : 0));
  if (!c.drafts) return c.generated().size() - n_before;
  // output.tokens[i + 1] was drawn after draft i, so it is used only if output.tokens[i] equals that draft and the
  // sequence has not ended. Rows after the last correct draft are removed from the KV cache.
  size_t n_right = 0;
  while (n_right < n_drafts && !c.reason && output.tokens[n_right] == (*c.drafts)[n_right]) {
    take_drawn(c, output.tokens[++n_right], {});
  }
  c.drafts->learn(n_right);
  if (request_.observer) n_observed_ += n_right;  // n_observed_ counts no drafts until they are accepted
  if (n_drafts > 0) c.recall();
  return c.generated().size() - n_before;
}

// Appends a drawn token to the sequence, or ends the sequence if there is none. Calls the callbacks last, so that the
// sequence can continue if one throws.
void ActiveRequest::take_drawn(Choice& c, int32_t drawn, std::span<const float> logits) {
  std::optional<FinishReason> reason;
  if (drawn == kNothingLeft && c.form() != nullptr) reason = c.sampling->end_without_token(c.history());
  const int32_t token = reason ? drawn : token_of(drawn, std::ssize(c.history()));
  c.collected(1);
  if (reason) return end(c, *reason);
  if (!c.first_token) c.first_token = Choice::Clock::now();
  if (c.sampling->is_end_token(token)) return end(c, FinishReason::Stop);
  c.append(token);
  std::string text = c.sampling->push(c.history());
  reason = c.sampling->end_of(c.history());
  if (reason) {
    text += close(c, *reason);
  } else {
    slide(c);
  }
  if (request_.on_token) request_.on_token(c.index(), token, logits);
  deliver(c, text);
  if (!reason && !text.empty() && request_.is_enough && request_.is_enough(c.index())) end(c, FinishReason::Stop);
}

// Stores the sequence's last logits for the policy, which selects the next token in decide().
void ActiveRequest::take_candidates(Choice& c, const StepOutput& output) {
  const std::span<const float> logits = output.logits.last(vocab_size_);
  const auto position = std::ssize(c.history());
  if (!all_finite(logits)) static_cast<void>(token_of(kNotFinite, position));
  c.sampled = output.tokens.empty() ? -1 : output.tokens.front();
  if (!output.tokens.empty() && c.form() == nullptr) static_cast<void>(token_of(c.sampled, position));
  c.logits.assign(logits.begin(), logits.end());
  if (c.form() == nullptr) return;
  c.allowed = c.logits;
  if (!c.form()->keep_allowed(c.allowed, c.history())) c.allowed.clear();
}

// Returns the number of free positions in a sliding context. Returns SIZE_MAX if the context does not slide, since the
// sequence is then limited by n_most_.
size_t ActiveRequest::n_left(const Sequence& s) const {
  const GenerateOptions& options = request_.options;
  return options.slide ? static_cast<size_t>(options.context) - s.tokens().size() : SIZE_MAX;
}

// If a sliding context is full, removes its first half. The remaining tokens are recomputed at their new positions.
void ActiveRequest::slide(Choice& c) {
  if (n_left(c) == 0) c.slide_to(c.history().size() - static_cast<size_t>(request_.options.context) / 2);
}

// Ends a choice without calling callbacks. Returns the text that was held back as a possible stop string.
std::string ActiveRequest::close(Choice& c, FinishReason reason) {
  c.reason = reason;
  c.end = Choice::Clock::now();
  if (c.drafts) c.drafts->preempted();  // releases the drafter's blocks
  return c.sampling ? c.sampling->finish() : "";
}

// Passes a choice's new output to on_text and, if the choice has ended, its result to on_end.
void ActiveRequest::deliver(const Choice& c, const std::string& text) {
  if (request_.on_text && !text.empty()) request_.on_text(c.index(), text);
  if (request_.on_end && c.reason) request_.on_end(c.index(), c.result());
}

void ActiveRequest::recall() {
  for (Choice& c : choices_) {
    c.recall();
    c.logits.clear();
  }
}

void ActiveRequest::decide(Scheduler& scheduler) {
  if (!policy_ || done()) return;
  std::vector<SequenceState> states;
  for (Choice* const c : continuing_) {
    if (c->logits.empty()) return;
    states.push_back({.generated = c->generated(),
                      .logits = c->logits,
                      .allowed = c->form() == nullptr ? c->logits : c->allowed,
                      .sampled = c->sampled,
                      .score = *c->score,
                      .effect_of = [c](int32_t token) { return c->sampling->effect_of(c->history(), token); }});
  }
  // Rejects an invalid decision before any sequence changes, so that the request can continue after the exception.
  const std::vector<Continuation> all = policy_->decide(states);
  std::vector<Continuation> next, last;
  for (const Continuation& c : all) (ends_with(c) ? last : next).push_back(c);
  core::require(next.size() <= choices_.size(), "the policy continues {} sequences, but the request has {}",
                next.size(), choices_.size());
  for (const Continuation& c : last) complete(*continuing_[c.from], c);
  for (Continuation& c : next) c.from = continuing_[c.from]->index();
  keep_best();
  const bool has_form = request_.options.form != nullptr;
  core::require(!next.empty() || !results_.empty() || has_form, "the policy dropped all sequences");
  for (Choice* const c : continuing_) {
    if (!c->first_token) c->first_token = Choice::Clock::now();
    c->collected(1);
    c->logits.clear();
  }
  if (next.empty()) return conclude(has_form ? std::optional(FinishReason::Form) : std::nullopt);
  place(next, scheduler);
}

bool ActiveRequest::ends_with(const Continuation& last) const {
  core::require(last.from < continuing_.size(), "the policy continues sequence {}, expected an index below {}",
                last.from, continuing_.size());
  Choice& c = *continuing_[last.from];
  core::require(last.token < static_cast<int32_t>(vocab_size_) && (last.token >= 0 || c.form() != nullptr),
                "the policy continues with token {}, which is outside the vocabulary", last.token);
  if (last.token < 0) return true;
  const TokenEffect effect = c.sampling->effect_of(c.history(), last.token);
  core::require(effect != TokenEffect::Forbidden || last.token == c.sampled,
                "the policy continues with token {}, which is forbidden", last.token);
  return last.ends || ends_next(c) || effect == TokenEffect::Ends;
}

// Applies the continuations: the first one of a sequence extends it, the others fork it into unused sequences.
void ActiveRequest::place(std::span<const Continuation> next, Scheduler& scheduler) {
  std::vector<bool> is_kept(choices_.size(), false);
  for (const Continuation& c : next) is_kept[c.from] = true;
  std::vector<Choice*> idle;
  for (Choice& c : choices_) {
    if (!is_kept[c.index()]) idle.push_back(&c);
  }
  auto fork = idle.begin();
  continuing_.clear();
  for (const Continuation& c : next) {
    Choice& parent = choices_[c.from];
    continuing_.push_back(is_kept[c.from] ? &parent : *fork++);
    if (!is_kept[c.from]) {
      scheduler.fork(*continuing_.back(), parent);
      continuing_.back()->sampling->fork(*parent.sampling);
    }
    is_kept[c.from] = false;
  }
  for (; fork != idle.end(); ++fork) scheduler.remove(**fork);
  for (size_t i = 0; i < next.size(); ++i) {
    Choice& c = *continuing_[i];
    c.append(next[i].token);
    static_cast<void>(c.sampling->push(c.history()));
    c.score = next[i].score;
  }
}

// Adds a result: a copy of the sequence, completed by `last`. The sequence itself may also continue.
void ActiveRequest::complete(Choice& c, const Continuation& last) {
  Sampling sampling = *c.sampling;
  std::vector<int32_t> history(c.history().begin(), c.history().end());
  FinishReason reason = FinishReason::Stop;
  if (last.token < 0) {
    reason = sampling.end_without_token(history);
  } else if (!sampling.is_end_token(last.token)) {
    history.push_back(last.token);
    static_cast<void>(sampling.push(history));
    reason = sampling.end_of(history).value_or(FinishReason::Stop);
  }
  static_cast<void>(sampling.finish());
  results_.push_back({.tokens = {history.begin() + std::ssize(request_.prompt), history.end()},
                      .text = sampling.text(),
                      .finish_reason = reason,
                      .score = last.score});
}

// Ends the request and calls its callbacks. If there are fewer results than choices and `of_missing` is set, adds empty
// results with that finish reason.
void ActiveRequest::conclude(std::optional<FinishReason> of_missing) {
  concluded_ = true;
  choices_.front().end = Choice::Clock::now();
  const GenerateResult times = choices_.front().result();
  for (GenerateResult& r : results_) {
    r.n_cached = times.n_cached;
    r.prefill_seconds = times.prefill_seconds;
    r.decode_seconds = times.decode_seconds;
  }
  keep_best();
  if (of_missing) results_.resize(static_cast<size_t>(request_.options.n), {.finish_reason = *of_missing});
  for (size_t i = 0; i < results_.size(); ++i) {
    const GenerateResult& result = results_[i];
    for (const int32_t token : result.tokens) {
      if (request_.on_token) request_.on_token(i, token, {});
    }
    if (request_.on_text && !result.text.empty()) request_.on_text(i, result.text);
    if (request_.on_end) request_.on_end(i, result);
  }
}

// Keeps the n best results, since a search may complete thousands of sequences.
void ActiveRequest::keep_best() {
  std::ranges::stable_sort(results_, std::ranges::greater{}, &GenerateResult::score);
  results_.resize(std::min(static_cast<size_t>(request_.options.n), results_.size()));
}

// Ends the request early. With a policy, the results are the best sequences so far, completed or not.
void ActiveRequest::finish(FinishReason reason) {
  if (done()) return;
  if (!policy_) {
    for (Choice& c : choices_) {
      if (!c.reason || !c.sampling) end(c, reason);
    }
    return;
  }
  for (Choice* const c : continuing_) {
    static_cast<void>(c->sampling->finish());
    c->reason = reason;
    results_.push_back(c->result());
  }
  conclude(reason);
}

bool ActiveRequest::done() const {
  return policy_ ? concluded_ : std::ranges::all_of(choices_, [](const Choice& c) { return c.reason.has_value(); });
}

std::vector<GenerateResult> ActiveRequest::results() const {
  std::vector<GenerateResult> results = results_;
  for (size_t i = 0; !policy_ && i < choices_.size(); ++i) results.push_back(choices_[i].result());
  return results;
}

GenerateResult Choice::result() const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  return {.tokens = {generated().begin(), generated().end()},
          .text = sampling ? sampling->text() : "",
          .finish_reason = reason.value_or(FinishReason::Length),
          .score = score,
          .n_cached = n_prompt_cached,
          .n_drafts = drafts ? drafts->n_tried() : 0,
          .n_right = drafts ? drafts->n_right() : 0,
          .prefill_seconds = start ? seconds(first_token.value_or(end) - *start) : 0.0,
          .decode_seconds = first_token ? seconds(end - *first_token) : 0.0};
}

}  // namespace folio::infer
