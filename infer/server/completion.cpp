#include "infer/server/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <utility>

#include "core/error.h"

namespace folio::infer::server {

namespace {

// Returns the number of reasoning tokens in a result. Counts them at the end because beams deliver all tokens before
// the text.
size_t count_reasoning(data::Thinking thinking, const std::vector<int32_t>& tokens, const data::Tokenizer& tokenizer) {
  ReasoningReader reader(thinking);
  size_t n = 0;
  for (size_t i = 0; i < tokens.size() && !reader.is_over(); ++i) {
    n += reader.is_inside() ? 1 : 0;
    static_cast<void>(reader.read(tokenizer.token_bytes(tokens[i])));
  }
  return n;
}

}  // namespace

size_t ChoiceUpdate::cost() const {
  size_t n = sizeof(ChoiceUpdate) + text.answer.reasoning.size() + text.answer.content.size();
  for (const CallUpdate& call : text.answer.calls) n += sizeof call + call.arguments.size();
  for (const TokenLogprob& token : text.tokens) n += sizeof token + token.top.size() * sizeof token.top.front();
  return n;
}

Completion::Completion(CompletionRequest request, const ServedModel& served, std::string id,
                       std::shared_ptr<HttpReply> reply, Metrics& metrics, Clock::time_point arrived, bool log_texts)
    : request_(std::move(request)),
      served_(served),
      id_(std::move(id)),
      reply_(std::move(reply)),
      metrics_(metrics),
      replies_(request_.make_replies ? request_.make_replies(request_, served, id_, std::time(nullptr))
                                     : std::make_unique<Replies>(request_, served, id_, std::time(nullptr))),
      choices_(request_.prompts.size() * n_each()),
      texts_(log_texts ? choices_.size() : 0),
      pending_(choices_.size()),
      characters_(choices_.size()),
      n_prompt_logits_(request_.prompts.size()),
      last_token_(choices_.size()),
      arrived_(arrived) {
  for (size_t p = 0; p < request_.prompts.size() && request_.echo; ++p) {
    const auto text = std::make_shared<const std::string>(request_.prompts[p].text);
    for (size_t i = 0; i < n_each(); ++i) {
      choices_[p * n_each() + i].echo = text;
      if (log_texts) texts_[p * n_each() + i] = text->substr(0, PIPE_BUF);
    }
    if (!request_.top_logprobs) continue;
    prompt_offsets_.push_back(text_offsets(served.tokenizer, request_.prompts[p]));
    static_cast<void>(characters_[p * n_each()].add(*text));
    for (size_t i = 1; i < n_each(); ++i) characters_[p * n_each() + i] = characters_[p * n_each()];
  }
  for (size_t i = 0; i < choices_.size() && request_.chat; ++i) {
    readers_.emplace_back(request_.thinking, request_.tools.get(),
                          std::hash<std::string>()(fmt::format("{}/{}", id_, i)));
  }
  for (const Prompt& prompt : request_.prompts) usage_.prompt_tokens += prompt.tokens.size();
}

void Completion::expect(std::function<void(const Completion&)> on_done) {
  on_done_ = std::move(on_done);
  reply_->on_written([weak = weak_from_this()](size_t cost) {
    const auto self = weak.lock();
    if (self != nullptr && self->queue_ != nullptr) self->queue_->release(cost);
  });
  reply_->on_lost([self = shared_from_this()] {
    if (self->done_) return;  // the whole answer was written
    self->reply_.reset();
    self->status_ = kClientClosedRequest;
    self->cancel();
  });
}

void Completion::start(AsyncEngine& engine, int32_t adapter, std::function<void()> on_delivery) {
  request_.options.adapter = adapter;
  EventQueueOptions options{.n_at_once = request_.prompts.size(), .on_delivery = std::move(on_delivery)};
  if (!request_.stream) options.limit = EventQueueOptions::kUnlimited;
  queue_ = std::make_shared<EventQueue<ChoiceUpdate>>(engine, std::move(options));
  std::vector<Request> requests;
  for (size_t p = 0; p < request_.prompts.size(); ++p) requests.push_back(engine_request(p));
  queue_->submit(std::move(requests));
}

const data::Tokenizer& Completion::answer_tokenizer() const {
  if (request_.tools != nullptr) return request_.tools->writing->tokenizer;
  const bool has_marks = request_.chat || request_.options.form != nullptr;
  return has_marks ? served_.forms->tokenizer() : served_.tokenizer;
}

// Returns the engine request for a prompt. Its callbacks run on the engine's thread and write to events of queue_.
Request Completion::engine_request(size_t prompt) {
  const auto self = shared_from_this();
  const size_t first = prompt * n_each();
  const data::Tokenizer& tokenizer = answer_tokenizer();
  Request request{.prompt = request_.prompts[prompt].tokens, .options = request_.options, .tokenizer = &tokenizer};
  request.on_text = [self, first](size_t choice, std::string_view text) {
    const bool chat = self->request_.chat;
    self->take_text(first + choice,
                    chat ? self->readers_[first + choice].read(text) : AnswerUpdate{.content = std::string(text)});
  };
  if (request_.tools != nullptr) {
    request.is_enough = [self, first](size_t choice) { return self->readers_[first + choice].is_enough(); };
  }
  request.wants_token_logits = request_.top_logprobs.has_value();
  request.on_token = [self, first](size_t choice, int32_t token, std::span<const float> logits) {
    ++self->queue_->event(first + choice).n_tokens;
    const bool reasons = self->request_.chat && self->readers_[first + choice].is_reasoning();
    if (logits.empty() || (reasons && !self->request_.include_reasoning)) return;
    TokenLogprob& one =
        self->pending_[first + choice].emplace_back(token_logprob(token, logits, *self->request_.top_logprobs));
    one.in_content = !reasons;
  };
  request.on_end = [self, first, &tokenizer](size_t choice, const GenerateResult& result) {
    ChoiceUpdate& update = self->queue_->event(first + choice);
    if (self->request_.chat) update.n_reasoning = count_reasoning(self->request_.thinking, result.tokens, tokenizer);
    self->finish(update, result);
  };
  if (request_.echo && request_.top_logprobs) {
    request.on_logits = [self, prompt](std::span<const float> logits) { self->on_prompt_logits(prompt, logits); };
  }
  return request;
}

// Adds text to a choice's output, and the tokens that have waited for it. Which tokens belong to the content must be
// decided here, since later an update may have the text of several steps.
void Completion::take_text(size_t choice, AnswerUpdate answer) {
  if (request_.chat && readers_[choice].is_reasoning()) {  // pending_ has <think>, which was drawn before
    if (!request_.include_reasoning) pending_[choice].clear();
    for (TokenLogprob& token : pending_[choice]) token.in_content = false;
  }
  if (answer.empty()) return;
  ChoiceText& text = queue_->event(choice).text;
  for (TokenLogprob& token : std::exchange(pending_[choice], {})) {
    token.in_content = token.in_content && !answer.content.empty();
    text.tokens.push_back(std::move(token));
  }
  text.answer.append(std::move(answer));
}

// Records a prompt's log-probabilities. Row i of the logits gives the log-probability of token i + 1.
void Completion::on_prompt_logits(size_t prompt, std::span<const float> logits) {
  const std::vector<int32_t>& tokens = request_.prompts[prompt].tokens;
  const auto vocab_size = static_cast<size_t>(served_.tokenizer.vocab_size());
  std::vector<TokenLogprob> seen;
  for (; !logits.empty(); logits = logits.subspan(vocab_size)) {
    const size_t i = n_prompt_logits_[prompt]++;
    if (i == 0) seen.push_back({.token = tokens[0], .text_offset = prompt_offsets_[prompt][0]});
    if (i + 1 < tokens.size()) {
      seen.push_back(token_logprob(tokens[i + 1], logits.first(vocab_size), *request_.top_logprobs));
      seen.back().text_offset = prompt_offsets_[prompt][i + 1];
    }
  }
  if (seen.empty()) return;
  const auto shared = std::make_shared<const std::vector<TokenLogprob>>(std::move(seen));
  for (size_t i = 0; i < n_each(); ++i) queue_->event(prompt * n_each() + i).text.prompt_tokens.push_back(shared);
}

void Completion::receive() {
  if (queue_ == nullptr) return;
  try {
    for (auto updates = queue_->pop(); !updates.empty(); updates = queue_->pop()) {
      for (ChoiceUpdate& update : updates) take(std::move(update));
    }
  } catch (...) {
    fail(api_error(std::current_exception()));
  }
  if (!queue_->ended()) return;
  queue_.reset();
  end();
}

void Completion::take(ChoiceUpdate update) {
  measure(update);
  const size_t cost = update.cost();
  usage_.completion_tokens += update.n_tokens;
  usage_.reasoning_tokens += update.n_reasoning;
  if (update.choice % n_each() == 0) usage_.cached_tokens += update.n_cached;
  metrics_.drafts += update.n_drafts;
  metrics_.drafts_right += update.n_right;
  if (!request_.include_reasoning) update.text.answer.reasoning.clear();
  for (TokenLogprob& token : update.text.tokens) {
    token.text_offset = characters_[update.choice].add(answer_tokenizer().token_bytes(token.token));
  }
  ChoiceText& choice = choices_[update.choice];
  if (!texts_.empty()) {
    std::string& logged = texts_[update.choice];
    logged.append(update.text.answer.content, 0, PIPE_BUF - std::min<size_t>(PIPE_BUF, logged.size()));
  }
  choice.append(std::move(update.text));
  if (request_.stream && reply_ != nullptr &&
      (choice.has_text() || !choice.answer.empty() || !choice.finish_reason.empty())) {
    stream(update.choice, std::exchange(choice, {}), cost);
  } else {
    queue_->release(cost);
  }
}

// Adds a choice's last output and its finish reason. If structured output allows no token, the finish reason is
// "length", since OpenAI's API has none for this case.
void Completion::finish(ChoiceUpdate& update, const GenerateResult& result) {
  ChoiceText& text = update.text;
  bool calls = false;
  if (request_.chat) {
    AnswerReader& reader = readers_[update.choice];
    take_text(update.choice, reader.end());
    calls = result.finish_reason == FinishReason::Stop && reader.has_whole_calls() && !request_.tools->is_named;
  }
  for (TokenLogprob& token : std::exchange(pending_[update.choice], {})) {  // such as those of a stop string
    token.in_content = false;
    text.tokens.push_back(std::move(token));
  }
  const bool lacks_tokens = result.finish_reason == FinishReason::Form;
  text.finish_reason =
      calls ? "tool_calls" : finish_reason_name(lacks_tokens ? FinishReason::Length : result.finish_reason);
  if (lacks_tokens) text.stop_reason = finish_reason_name(FinishReason::Form);
  text.score = result.score;
  update.n_cached = result.n_cached;
  update.n_drafts = result.n_drafts;
  update.n_right = result.n_right;
}

void Completion::measure(const ChoiceUpdate& update) {
  if (update.n_tokens == 0) return;
  const auto last = std::exchange(last_token_[update.choice], update.at);
  const double seconds = std::chrono::duration<double>(update.at - last.value_or(arrived_)).count();
  if (!last) return metrics_.first_token.add(seconds);
  const auto n = static_cast<double>(update.n_tokens);  // these tokens came together, such as accepted drafts
  for (size_t i = 0; i < update.n_tokens; ++i) metrics_.between_tokens.add(seconds / n);
}

void Completion::stream(size_t index, ChoiceText piece, size_t cost) {
  const auto reply = reply_;  // keeps the reply alive: a write resets reply_ if the client has disconnected
  if (!std::exchange(begun_, true)) {
    status_ = 200;
    reply->add_header("Cache-Control", "no-cache");
    reply->begin(200, "text/event-stream");
    reply->add([this, i = size_t{0}](std::string& text) mutable {
      text += replies_->first_chunk(i);
      return ++i < choices_.size();
    });
  }
  reply->add(replies_->chunk(index, std::move(piece)), cost);
}

// Ends the answer after all requests have ended. Calls be_done() when the client has disconnected or has read all but
// the last part of the answer (kReplyWindow).
void Completion::end() {
  if (reply_ == nullptr) return be_done();
  status_ = 200;
  const auto written = [self = shared_from_this()] { self->be_done(); };
  if (!request_.stream) return reply_->send(200, "application/json", replies_->whole(choices_, usage_), written);
  const auto reply = reply_;
  reply->add([this](std::string& text) {
    text += replies_->last_events(usage_);
    return false;
  });
  reply->end(written);
}

void Completion::be_done() {
  reply_.reset();
  if (!std::exchange(done_, true)) on_done_(*this);
}

void Completion::cancel() {
  if (queue_ == nullptr) return end();  // no request is running: the adapter isn't loaded yet, or all have ended
  queue_->cancel();
}

void Completion::fail(const ApiError& error) {
  const auto reply = std::exchange(reply_, {});
  if (reply == nullptr) return;
  status_ = error.status();
  if (error.status() == 503 && !begun_) reply->add_header("Retry-After", "1");
  reply->fail(error.status(), error_body(error), begun_ ? replies_->error_event(error) : "");
  cancel();
}

}  // namespace folio::infer::server
