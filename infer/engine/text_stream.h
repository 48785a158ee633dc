// Texts for callers on other threads than the engine's: each reads its own from a stream, and waits where there is
// nothing new. Handing a text over costs the engine a lock and may cost it a system call, which a token of a small
// model is not worth (64 µs): what came is handed over at once when a text begins and when it ends, and between at most
// every two milliseconds, as one piece.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infer/engine/async_engine.h"

namespace folio::infer {

/// What is new of one text. `choice` counts the texts of all requests of the stream, in their order.
struct TextPiece {
  size_t choice = 0;
  std::string text{};             ///< whole UTF-8 characters
  std::vector<int32_t> tokens{};  ///< that were drawn
  bool ended = false;
};

/// Tells a caller who can't wait, such as an event loop, that streams have something: fd() can be read then.
class Notifier {
 public:
  Notifier();  ///< Throws core::Error if the system gives no descriptor.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  void notify();
  /// Before the streams are asked.
  void clear();

 private:
  int fd_;
  std::atomic<bool> notified_ = false;
};

/// The texts of some requests. One thread at a time may wait; any may cancel.
class TextStream {
 public:
  /// Cancels what has not ended.
  ~TextStream();
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  /// What is new, a piece for each choice that has something. Waits for it, but no longer than `at_most`; then nothing
  /// is returned. Throws the error of a request that could not run, once, and cancels the others.
  std::vector<TextPiece> next(std::chrono::milliseconds at_most);
  /// Every request has ended, and all that was new was returned.
  [[nodiscard]] bool ended() const;
  /// Of a stream that has ended: one for each choice. Of one with an error none.
  [[nodiscard]] std::vector<GenerateResult> take_results();
  void cancel();

 private:
  friend class TextStreams;
  struct State;
  TextStream(std::shared_ptr<AsyncEngine> engine, std::shared_ptr<State> state)
      : engine_(std::move(engine)), state_(std::move(state)) {}

  std::shared_ptr<AsyncEngine> engine_;
  std::shared_ptr<State> state_;
};

/// The streams of an engine. Its after_step has to call hand_over().
class TextStreams {
 public:
  /// Of a stream the engine has at most so many requests at a time: a long list keeps nobody else waiting.
  explicit TextStreams(size_t n_at_once = 256) : n_at_once_(n_at_once) {}

  /// The requests' on_text, on_token and on_end are taken. Without `pieces` a stream has no news but its end and its
  /// results. `notifier` may be none. An engine that was stopped may lose its model before its streams are gone.
  [[nodiscard]] std::unique_ptr<TextStream> submit(const std::shared_ptr<AsyncEngine>& engine,
                                                   std::vector<Request> requests, bool pieces,
                                                   std::shared_ptr<Notifier> notifier = {});

  /// From the engine's thread.
  void hand_over();

 private:
  using State = TextStream::State;
  void tell_pieces(const std::shared_ptr<State>& state, size_t first, Request& request);
  void submit_next(AsyncEngine& engine, const std::shared_ptr<State>& state);
  void touch(const std::shared_ptr<State>& state);

  size_t n_at_once_;
  std::vector<std::shared_ptr<State>> touched_;  ///< that have something to hand over. The engine's thread's alone
};

}  // namespace folio::infer
