// The queue of callers that read text and tokens: the C++ handles, Python and its terminal.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infer/engine/event_queue.h"

namespace folio::infer {

/// New text of one choice.
struct TextPiece {
  size_t choice = 0;
  std::string text{};             ///< whole UTF-8 characters
  std::vector<int32_t> tokens{};  ///< that were drawn
  bool ended = false;

  void append(TextPiece more);
  [[nodiscard]] size_t cost() const { return text.size() + tokens.size() * sizeof tokens.front(); }
};

/// Signals a caller that can't wait, such as an event loop, that streams have events: fd() is readable then.
class Notifier {
 public:
  Notifier();  ///< Throws core::Error if the system gives no descriptor.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  void notify();
  /// Must be called before the streams are read.
  void clear();

 private:
  int fd_;
  std::atomic<bool> notified_ = false;
};

/// The output of some requests. One thread at a time may wait; any may cancel.
class TextStream : public EventQueue<TextPiece> {
 public:
  /// Submits the requests, and sets their on_text, on_token and on_end. Without `pieces` the stream has results only.
  /// What has not ended when the last copy of the returned pointer goes is cancelled.
  [[nodiscard]] static std::shared_ptr<TextStream> submit(const std::shared_ptr<AsyncEngine>& engine,
                                                          std::vector<Request> requests, bool pieces,
                                                          EventQueueOptions options = {});

  /// Returns the results of a stream that has ended without an error, one for each choice.
  [[nodiscard]] std::vector<GenerateResult> take_results();

 private:
  using EventQueue::EventQueue;
  void add_callbacks(Request& request, size_t first, bool pieces);

  std::vector<GenerateResult> results_;
};

}  // namespace folio::infer
