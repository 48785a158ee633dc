// An event queue of generated text and tokens, for fast_llm::Model and the Python package.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infer/engine/event_queue.h"

namespace folio::infer {

/// New output of one choice.
struct TextPiece {
  size_t choice = 0;
  std::string text{};  ///< whole UTF-8 characters
  std::vector<int32_t> tokens{};
  bool ended = false;

  void append(TextPiece more);
  [[nodiscard]] size_t cost() const { return text.size() + tokens.size() * sizeof tokens.front(); }
};

/// Signals an event loop that streams have new events: fd() becomes readable.
class Notifier {
 public:
  Notifier();  ///< Throws core::Error if the system provides no file descriptor.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  void notify();
  /// Resets the signal. Must be called before reading the streams, so that events arriving meanwhile signal again.
  void clear();

 private:
  int fd_;
  std::atomic<bool> notified_ = false;
};

/// The output of a list of requests. One thread at a time may wait; any thread may cancel.
class TextStream : public EventQueue<TextPiece> {
 public:
  /// Submits the requests, after setting their on_text, on_token and on_end. If `pieces` is false, only the final
  /// results are available. Destroying the last copy of the returned pointer cancels running requests.
  [[nodiscard]] static std::shared_ptr<TextStream> submit(const std::shared_ptr<AsyncEngine>& engine,
                                                          std::vector<Request> requests, bool pieces,
                                                          EventQueueOptions options = {});

  /// Returns the results, one per choice, and removes them. Must be called after the stream has ended without an error.
  [[nodiscard]] std::vector<GenerateResult> take_results();

 private:
  using EventQueue::EventQueue;
  void add_callbacks(Request& request, size_t first, bool pieces);

  std::vector<GenerateResult> results_;
};

}  // namespace folio::infer
