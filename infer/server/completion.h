// A completion on its way: a request of the engine for each prompt, each with its choices. Their events become the
// chunks of a stream or one whole answer, which are written as fast as the client reads. The engine pauses a stream
// whose client reads too slowly. Callbacks on the engine's thread only fill events; all else is on the thread of the
// HTTP server.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/engine/event_queue.h"
#include "infer/server/http.h"
#include "infer/server/metrics.h"
#include "infer/server/replies.h"
#include "infer/server/text_offsets.h"

namespace folio::infer::server {

/// Output of a step for one choice.
struct ChoiceUpdate {
  size_t choice = 0;
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
  size_t n_tokens = 0;
  size_t n_reasoning = 0;  ///< of these tokens
  ChoiceText text{};
  // Of a choice that has ended.
  size_t n_cached = 0;
  size_t n_drafts = 0;
  size_t n_right = 0;

  /// Bytes that it takes until its client has read it. What choices share is not counted.
  [[nodiscard]] size_t cost() const;
};

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `served` and `metrics` have to outlive it.
  Completion(CompletionRequest request, const ServedModel& served, std::string id, std::shared_ptr<HttpReply> reply,
             Metrics& metrics);

  /// From now on `on_done` is called once, when all of its choices have ended: with an error, perhaps before start().
  void expect(std::function<void(const Completion&)> on_done);
  /// Submits its choices, which have the adapter of that number. `on_delivery` is called, from any thread, when
  /// receive() has something to do.
  void start(AsyncEngine& engine, int32_t adapter, std::function<void()> on_delivery);
  void receive();
  /// Ends it with an error, which is sent unless the client went away.
  void fail(const ApiError& error);

  [[nodiscard]] const CompletionRequest& request() const { return request_; }
  /// Of its prompts together: texts that the engine follows, of beams also those that are not wanted.
  [[nodiscard]] size_t n_sequences() const {
    return request_.prompts.size() * static_cast<size_t>(request_.n_sequences());
  }
  [[nodiscard]] const Usage& usage() const { return usage_; }
  [[nodiscard]] Clock::time_point arrived() const { return arrived_; }
  /// The status that was sent, or 499 if the client went away.
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  /// The texts of an answer that is whole, for a log.
  [[nodiscard]] const std::vector<ChoiceText>& texts() const { return choices_; }

 private:
  [[nodiscard]] size_t n_each() const { return static_cast<size_t>(request_.options.n); }
  [[nodiscard]] Request engine_request(size_t prompt);
  void on_prompt_logits(size_t prompt, std::span<const float> logits);
  void measure(const ChoiceUpdate& update);
  void take(ChoiceUpdate update);
  void finish(ChoiceUpdate& update, const GenerateResult& result);
  void stream(size_t choice, ChoiceText piece, size_t cost);
  void was_read(size_t cost);
  void end();
  void be_done();
  void cancel();

  CompletionRequest request_;
  const ServedModel& served_;
  std::string id_;
  std::shared_ptr<HttpReply> reply_;                 ///< none: nothing more is to be sent
  std::shared_ptr<EventQueue<ChoiceUpdate>> queue_;  ///< from start() until all requests have ended
  Metrics& metrics_;
  std::unique_ptr<Replies> replies_;
  std::function<void(const Completion&)> on_done_;
  std::vector<ChoiceText> choices_;                  ///< so far; of a stream what was not sent yet
  std::vector<AnswerReader> readers_;                ///< of each choice of a chat; the engine's thread's
  std::vector<CharacterCounter> characters_;         ///< of each choice's text, as far as its tokens are known
  std::vector<std::vector<size_t>> prompt_offsets_;  ///< of each prompt's tokens, if they are echoed with probabilities
  std::vector<size_t> n_prompt_logits_;              ///< the engine's thread's: rows of each prompt that were seen
  std::vector<std::optional<Clock::time_point>> last_token_;
  Usage usage_;
  Clock::time_point arrived_;
  int status_ = 0;
  bool begun_ = false;  ///< the stream
  bool done_ = false;   ///< on_done_ was called
};

}  // namespace folio::infer::server
